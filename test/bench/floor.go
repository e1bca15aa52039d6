// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// floor is the least that a handover can take: one client updates the Lease, and another, on seeing that by its watch,
// updates it too. Both have warm connections, and neither does anything else.
type floor struct {
	first, second *leaseapi.Client
	events        watch.Interface
	lease         *coordinationv1.Lease
}

func newFloor(ctx context.Context, config *rest.Config) (*floor, error) {
	f := &floor{}
	var err error
	if f.first, err = leaseapi.New(config, cluster.Namespace); err != nil {
		return nil, err
	}
	if f.second, err = leaseapi.New(config, cluster.Namespace); err != nil {
		return nil, err
	}
	spec := cluster.Held("floor", 15*time.Second)
	f.lease, err = f.first.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "bench-floor-" + rand.String(6)}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	f.events, err = f.second.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + f.lease.Name, ResourceVersion: f.lease.ResourceVersion})
	if err != nil {
		return nil, err
	}
	_, err = f.measure(ctx) // the connections are warm from here on
	return f, err
}

// measure returns the time from before the first update to the reply of the second.
func (f *floor) measure(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	failed := make(chan error, 1)
	go func() {
		lease := f.lease.DeepCopy()
		lease.Spec.HolderIdentity = new("")
		lease.Spec.RenewTime = &metav1.MicroTime{Time: begun}
		_, err := f.first.Update(ctx, lease, metav1.UpdateOptions{})
		failed <- err
	}()
	select {
	case event, open := <-f.events.ResultChan():
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !open || !ok {
			return 0, fmt.Errorf("floor: the watch ended: %v", event.Object)
		}
		lease.Spec = cluster.Held("floor", 15*time.Second)
		updated, err := f.second.Update(ctx, lease, metav1.UpdateOptions{})
		took := time.Since(begun)
		if err = errors.Join(err, <-failed); err != nil {
			return 0, fmt.Errorf("floor: %w", err)
		}
		f.lease = updated
		<-f.events.ResultChan() // its own
		return took, nil
	case <-time.After(patience):
		return 0, errors.New("floor: the watch told nothing")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (f *floor) close() { f.events.Stop() }
