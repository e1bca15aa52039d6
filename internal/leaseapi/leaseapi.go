// SPDX-License-Identifier: Apache-2.0

// Package leaseapi is a small client for the Leases of one namespace. It stands on client-go's REST client and links
// the coordination/v1 types alone: the full clientset would more than double the sidecar.
package leaseapi

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

const resource = "leases"

// scheme knows Leases and what every API group needs; the global one would pull in every group there is.
var scheme, parameters = func() (*runtime.Scheme, runtime.ParameterCodec) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, coordinationv1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	s.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	return s, runtime.NewParameterCodec(s)
}()

// Client reaches the Leases of one namespace. It never retries, and after a request that was not answered in its time
// it opens new connections: a connection that died silently would otherwise be used for minutes.
type Client struct {
	rest        rest.Interface
	namespace   string
	connections *apiserver.Connections
}

var _ elector.LeaseClient = (*Client)(nil)

// New returns a client with the server, credentials and proxy of config, which is not changed.
func New(config *rest.Config, namespace string) (*Client, error) {
	config, connections := apiserver.Connect(config)
	config.APIPath = "/apis"
	config.GroupVersion = &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	restClient, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for leases in namespace %s: %w", namespace, err)
	}
	return &Client{rest: restClient, namespace: namespace, connections: connections}, nil
}

// Create creates a Lease.
func (c *Client) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	result := &coordinationv1.Lease{}
	return result, c.do(ctx, c.rest.Post().VersionedParams(&opts, parameters).Body(lease), result)
}

// Update replaces a Lease; its resourceVersion has to be the stored one.
func (c *Client) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	result := &coordinationv1.Lease{}
	return result, c.do(ctx, c.rest.Put().Name(lease.Name).VersionedParams(&opts, parameters).Body(lease), result)
}

// Get reads a Lease.
func (c *Client) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	result := &coordinationv1.Lease{}
	return result, c.do(ctx, c.rest.Get().Name(name).VersionedParams(&opts, parameters), result)
}

// List lists Leases.
func (c *Client) List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	result := &coordinationv1.LeaseList{}
	return result, c.do(ctx, c.rest.Get().VersionedParams(&opts, parameters), result)
}

// Watch watches Leases until ctx ends or the server closes the watch.
func (c *Client) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	watcher, err := c.ready(c.rest.Get().VersionedParams(&opts, parameters)).Watch(ctx)
	c.connections.Renew(ctx, err)
	return watcher, err
}

func (c *Client) do(ctx context.Context, request *rest.Request, into runtime.Object) error {
	err := c.ready(request).Do(ctx).Into(into)
	c.connections.Renew(ctx, err)
	return err
}

func (c *Client) ready(request *rest.Request) *rest.Request {
	return request.Namespace(c.namespace).Resource(resource).MaxRetries(0)
}
