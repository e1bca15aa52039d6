// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// typedClient goes through client-go, as an elector may.
func typedClient(t *testing.T, a *api) {
	config := rest.CopyConfig(a.config)
	config.ContentType = contentJSON
	config.QPS = -1
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(namespace)
	ctx := t.Context()

	if _, err := leases.Get(ctx, a.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get: %v", err)
	}
	selector := "metadata.name=" + a.name
	list, err := leases.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil || len(list.Items) != 0 {
		t.Fatalf("list: %v, %+v", err, list)
	}
	w, err := leases.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()

	renewed := metav1.NewMicroTime(time.Now())
	lease := newLease(a.name)
	lease.Spec.RenewTime = &renewed
	created, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	a.cleanUp(a.name)
	if want := renewed.Truncate(time.Microsecond); !created.Spec.RenewTime.Time.Equal(want) {
		t.Errorf("renewTime %s, want %s", created.Spec.RenewTime, want)
	}
	if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	created.Spec.HolderIdentity = new("a")
	updated, err := leases.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if _, err := leases.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	if err := leases.Delete(ctx, a.name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := leases.Update(ctx, updated, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of the deleted: %v", err)
	}
	lease.Spec.LeaseDurationSeconds = new(int32(0))
	if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("invalid create: %v", err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, ok := <-w.ResultChan()
		if !ok || event.Type != want {
			t.Fatalf("event %q, want %s", event.Type, want)
		}
		if _, ok := event.Object.(*coordinationv1.Lease); !ok {
			t.Errorf("event with a %T", event.Object)
		}
	}
}
