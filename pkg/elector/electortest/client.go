// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Client is one candidate's connection to the Leases of one namespace. It is safe for concurrent use. Errors
// are those of k8s.io/apimachinery/pkg/api/errors, unless a fault or the context makes another.
type Client struct {
	store     *Store
	namespace string

	// guarded by store.mu
	cut       bool
	intercept Interceptor
}

// Create stores a new Lease. It answers AlreadyExists for a name that is taken, and Invalid.
func (c *Client) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	return do(ctx, c, "create", func() (*coordinationv1.Lease, error) {
		return c.store.create(c, c.namespace, lease, opts)
	})
}

// Update replaces a Lease if its resourceVersion, and its uid where given, are still those of lease; otherwise
// it answers Conflict. Where there is no such Lease, one without a uid is created.
func (c *Client) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	result, _, err := c.Put(ctx, lease, opts)
	return result, err
}

// Put is Update for servers: it also says whether the Lease was created.
func (c *Client) Put(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (_ *coordinationv1.Lease, created bool, _ error) {
	type reply struct {
		lease   *coordinationv1.Lease
		created bool
	}
	lease = lease.DeepCopy()
	result, err := do(ctx, c, "update", func() (reply, error) {
		lease, created, err := c.store.update(c, c.namespace, lease, opts)
		return reply{lease, created}, err
	})
	return result.lease, result.created, err
}

// Modify is a patch: it changes a Lease as it is when the request arrives. change must not use the store. It answers NotFound when there is none, Conflict when
// change has set another resourceVersion, Invalid, and the error of change.
func (c *Client) Modify(ctx context.Context, name string, change func(*coordinationv1.Lease) error, opts metav1.PatchOptions) (*coordinationv1.Lease, error) {
	return do(ctx, c, "patch", func() (*coordinationv1.Lease, error) {
		return c.store.patch(c, c.namespace, name, change, opts)
	})
}

// Get reads the newest state of a Lease. It answers NotFound when there is none.
func (c *Client) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	return do(ctx, c, "get", func() (*coordinationv1.Lease, error) {
		return c.store.get(c.namespace, name, opts)
	})
}

// List reads the selected Leases; the list's resourceVersion is one to watch from.
func (c *Client) List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return do(ctx, c, "list", func() (*coordinationv1.LeaseList, error) {
		return c.store.list(c.namespace, opts)
	})
}

// Watch streams the changes after opts.ResourceVersion, or for "" and "0" the current state and then changes,
// until it is stopped, ctx ends, or opts.TimeoutSeconds are over. A resourceVersion that is no longer in the
// history comes as an Error event with an Expired (410) Status, after which the watch ends.
func (c *Client) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := do(ctx, c, "watch", func() (*watcher, error) {
		return c.store.watch(ctx, cancel, c, opts)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

// Delete deletes a Lease. It answers NotFound when there is none, and Conflict when a precondition fails.
func (c *Client) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := c.Remove(ctx, name, opts)
	return err
}

// Remove is Delete for servers: it also returns the deleted Lease. One with finalizers is not deleted yet, and
// returned with its deletionTimestamp.
func (c *Client) Remove(ctx context.Context, name string, opts metav1.DeleteOptions) (*coordinationv1.Lease, error) {
	return do(ctx, c, "delete", func() (*coordinationv1.Lease, error) {
		return c.store.delete(c, c.namespace, name, opts)
	})
}

// do makes a call through the client's faults. An Interceptor may leave the call running and return an error:
// then the result is not looked at.
func do[T any](ctx context.Context, c *Client, verb string, call func() (T, error)) (T, error) {
	var none, result T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%s leases: %w", verb, err)
	}
	intercept, err := c.faults()
	if err != nil {
		return none, err
	}
	err = intercept(ctx, verb, func() (err error) {
		result, err = call()
		return err
	})
	if err != nil {
		return none, err
	}
	return result, nil
}
