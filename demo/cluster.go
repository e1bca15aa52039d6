// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
)

const leaseName = "elector-demo"

// requestTimeout bounds the demo's own requests to the Lease API.
const requestTimeout = 5 * time.Second

// cluster is where the Lease is.
type cluster struct {
	namespace string
	where     string   // in words
	env       []string // by which the sidecars find it
	tryIt     []string // commands that show the Lease, and change it
	leaseURL  string
	close     func() error

	config *rest.Config
	leases *leaseapi.Client
}

func newCluster(config *rest.Config, namespace string) (*cluster, error) {
	leases, err := leaseapi.New(config, namespace)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	return &cluster{
		namespace: namespace,
		config:    config,
		leases:    leases,
		leaseURL:  base.JoinPath("apis/coordination.k8s.io/v1/namespaces", namespace, "leases", leaseName).String(),
	}, nil
}

// currentCluster is the cluster of the current kubeconfig. The Lease must not exist: it is deleted in the end.
func currentCluster(ctx context.Context) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	kubeconfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("there is no cluster to use: %w", err)
	}
	namespace, _, err := kubeconfig.Namespace()
	if err != nil {
		return nil, fmt.Errorf("the namespace of the current context: %w", err)
	}
	c, err := newCluster(config, namespace)
	if err != nil {
		return nil, err
	}
	kubectl := "kubectl --namespace " + namespace
	c.where = "in the cluster at " + config.Host
	if raw, err := kubeconfig.RawConfig(); err == nil && raw.CurrentContext != "" {
		c.where += " (context " + raw.CurrentContext + ")"
	}
	c.env = append(inherited(), "KUBECONFIG="+strings.Join(rules.GetLoadingPrecedence(), string(filepath.ListSeparator)))
	c.tryIt = []string{
		kubectl + " get lease " + leaseName + " --watch",
		kubectl + " patch lease " + leaseName + ` --type merge -p '{"spec":{"holderIdentity":"intruder","leaseDurationSeconds":2}}'`,
	}
	c.close = func() error {
		if err := c.deleteLease(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("the Lease is left behind (%s delete lease %s): %w", kubectl, leaseName, err)
		}
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	switch _, err := c.leases.Get(ctx, leaseName, metav1.GetOptions{}); {
	case err == nil:
		return nil, fmt.Errorf("there is a Lease %s/%s already, %s: another demo runs, or one was killed; in that case: %s delete lease %s",
			namespace, leaseName, c.where, kubectl, leaseName)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the Lease API cannot be used %s: %w", c.where, err)
	}
	return c, nil
}

// inherited is the environment of this process without what configures a sidecar: credential plugins may need it.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "ELECTOR_") || strings.HasPrefix(variable, "POD_") ||
			strings.HasPrefix(variable, "KUBECONFIG=")
	})
}

// intrude writes the Lease for a holder that will never renew it, and returns the instant before the write was sent.
func (c *cluster) intrude(ctx context.Context, holder string, duration time.Duration) (sent time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		lease, err := c.leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return sent, fmt.Errorf("reading the Lease: %w", err)
		}
		transitions := int32(1)
		if lease.Spec.LeaseTransitions != nil {
			transitions += *lease.Spec.LeaseTransitions
		}
		lease.Spec.HolderIdentity = &holder
		lease.Spec.LeaseDurationSeconds = new(int32(duration / time.Second))
		lease.Spec.AcquireTime = new(metav1.NowMicro())
		lease.Spec.RenewTime = lease.Spec.AcquireTime
		lease.Spec.LeaseTransitions = &transitions
		sent = time.Now()
		_, err = c.leases.Update(ctx, lease, metav1.UpdateOptions{})
		switch {
		case err == nil:
			return sent, nil
		case !apierrors.IsConflict(err): // a renewal came in between
			return sent, fmt.Errorf("writing the Lease: %w", err)
		}
	}
}

// deleteLease deletes the Lease, if there is one. The sidecars' own client has no such verb, and needs none.
func (c *cluster) deleteLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.leaseURL, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest && response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("the API server answered %s", response.Status)
	}
	return nil
}
