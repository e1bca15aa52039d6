// SPDX-License-Identifier: Apache-2.0

package electortest_test

import (
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

var _ elector.LeaseClient = (*electortest.Client)(nil)

const (
	namespace = "default"
	name      = "web"
)

func newLease(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15))},
	}
}

func create(t *testing.T, client *electortest.Client, holder string) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.Create(t.Context(), newLease(holder), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return lease
}

func hold(t *testing.T, client *electortest.Client, lease *coordinationv1.Lease, holder string) *coordinationv1.Lease {
	t.Helper()
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = &holder
	lease, err := client.Update(t.Context(), lease, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update to %s: %v", holder, err)
	}
	return lease
}

// open opens a watch of the Lease that is stopped with the test.
func open(t *testing.T, client *electortest.Client, opts metav1.ListOptions) watch.Interface {
	t.Helper()
	opts.FieldSelector = "metadata.name=" + name
	w, err := client.Watch(t.Context(), opts)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next returns the event that has come once everything is at rest.
func next(t *testing.T, w watch.Interface, want watch.EventType) *coordinationv1.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case event, ok := <-w.ResultChan():
		if !ok || event.Type != want {
			t.Fatalf("event %q (open: %v), want %s", event.Type, ok, want)
		}
		lease, _ := event.Object.(*coordinationv1.Lease)
		return lease
	default:
		t.Fatalf("no event, want %s", want)
		return nil
	}
}

func silent(t *testing.T, w watch.Interface) {
	t.Helper()
	synctest.Wait()
	select {
	case event, ok := <-w.ResultChan():
		t.Fatalf("event %q (open: %v), want silence", event.Type, ok)
	default:
	}
}

func closed(t *testing.T, w watch.Interface) {
	t.Helper()
	synctest.Wait()
	select {
	case event, ok := <-w.ResultChan():
		if ok {
			t.Fatalf("event %q, want the end", event.Type)
		}
	default:
		t.Fatal("the watch is open")
	}
}
