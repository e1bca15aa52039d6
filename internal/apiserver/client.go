// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Client reads and writes the objects of one namespace as JSON: what it is given is what encoding/json makes of it, and
// of what it reads it keeps the fields that the caller's type has. It never retries. Errors are those of
// k8s.io/apimachinery/pkg/api/errors where the API server answered.
type Client struct {
	rest        rest.Interface
	namespace   string
	connections *Connections
}

// NewClient returns a client with the server, credentials and proxy of config, which is not changed.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme() // for the answers that are errors
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config, connections := Connect(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for namespace %s: %w", namespace, err)
	}
	return &Client{rest: client, namespace: namespace, connections: connections}, nil
}

// Get reads the object of that name.
func (c *Client) Get(ctx context.Context, resource schema.GroupVersionResource, name string, into any) error {
	return c.do(ctx, c.rest.Get(), resource, into, name)
}

// List reads the objects that a label selector matches, as a list.
func (c *Client) List(ctx context.Context, resource schema.GroupVersionResource, selector string, into any) error {
	return c.do(ctx, c.rest.Get().Param("labelSelector", selector), resource, into)
}

// Create creates an object and reads back what was stored; into may be nil.
func (c *Client) Create(ctx context.Context, resource schema.GroupVersionResource, object, into any) error {
	return c.send(ctx, c.rest.Post().SetHeader("Content-Type", runtime.ContentTypeJSON), resource, object, into)
}

// Update replaces an object and reads back what was stored; into may be nil.
func (c *Client) Update(ctx context.Context, resource schema.GroupVersionResource, name string, object, into any) error {
	return c.send(ctx, c.rest.Put().SetHeader("Content-Type", runtime.ContentTypeJSON), resource, object, into, name)
}

// Patch changes an object, or the subresource that is named, and reads back what was stored; into may be nil.
func (c *Client) Patch(ctx context.Context, resource schema.GroupVersionResource, name, subresource string, kind types.PatchType, patch, into any) error {
	path := []string{name}
	if subresource != "" {
		path = append(path, subresource)
	}
	return c.send(ctx, c.rest.Patch(kind), resource, patch, into, path...)
}

func (c *Client) send(ctx context.Context, request *rest.Request, resource schema.GroupVersionResource, object, into any, path ...string) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.do(ctx, request.Body(body), resource, into, path...)
}

func (c *Client) do(ctx context.Context, request *rest.Request, resource schema.GroupVersionResource, into any, path ...string) error {
	api := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		api = []string{"/api", resource.Version}
	}
	request = request.AbsPath(append(append(api, "namespaces", c.namespace, resource.Resource), path...)...).MaxRetries(0)
	result := request.Do(ctx)
	answer, _ := result.Raw()
	err := result.Error() // Raw's says nothing of what the API server wrote
	c.connections.Renew(ctx, err)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer for %s in namespace %s cannot be read: %w", resource.Resource, c.namespace, err)
	}
	return nil
}
