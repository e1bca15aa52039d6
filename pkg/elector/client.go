// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// LeaseClient is what the elector needs of the Lease API of one namespace. It is a part of client-go's
// LeaseInterface, so clientset.CoordinationV1().Leases(namespace) is one.
//
// Errors are those of k8s.io/apimachinery/pkg/api/errors. An implementation must not retry a Create or an Update
// by itself: the elector decides each write on what it has seen, and times it from before it was sent.
type LeaseClient interface {
	Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}
