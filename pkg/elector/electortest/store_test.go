// SPDX-License-Identifier: Apache-2.0

package electortest_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

func TestResourceVersionsAreGlobal(t *testing.T) {
	store := electortest.NewStore()
	var last uint64
	for i := range 3 {
		lease := newLease("a")
		lease.Name = fmt.Sprint("lease-", i)
		created, err := store.Leases(fmt.Sprint("namespace-", i)).Create(t.Context(), lease, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		revision, err := strconv.ParseUint(created.ResourceVersion, 10, 64)
		if err != nil || revision <= last {
			t.Errorf("resourceVersion %q after %d: %v", created.ResourceVersion, last, err)
		}
		last = revision
	}
	list, err := store.Leases(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 || list.ResourceVersion != strconv.FormatUint(last, 10) {
		t.Errorf("list: %v, %+v", err, list)
	}
}

func TestCopies(t *testing.T) {
	store := electortest.NewStore()
	client := store.Leases(namespace)
	in := newLease("a")
	out, err := client.Create(t.Context(), in, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range []*coordinationv1.Lease{in, out, got, &list.Items[0], store.Peek(namespace, name), store.Writes()[0].Lease} {
		*lease.Spec.HolderIdentity = "changed"
		if holder := *store.Peek(namespace, name).Spec.HolderIdentity; holder != "a" {
			t.Fatalf("the store shares memory with its callers: holder %s", holder)
		}
	}
}

func TestTimesHaveThePrecisionOfTheWire(t *testing.T) {
	client := electortest.NewStore().Leases(namespace)
	lease := newLease("a")
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.UTC)}
	created, err := client.Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := created.Spec.RenewTime.Nanosecond(); got != 123456000 {
		t.Errorf("renewTime has %d ns", got)
	}
	if got := created.CreationTimestamp.Nanosecond(); got != 0 {
		t.Errorf("creationTimestamp has %d ns", got)
	}
	created.Spec.RenewTime.Time = lease.Spec.RenewTime.Time
	updated, err := client.Update(t.Context(), created, metav1.UpdateOptions{})
	if err != nil || updated.ResourceVersion != created.ResourceVersion {
		t.Errorf("an update within a microsecond: %v, resourceVersion %s of %s", err, updated.ResourceVersion, created.ResourceVersion)
	}
}

func TestEdit(t *testing.T) {
	store := electortest.NewStore()
	if err := store.Edit(namespace, name, func(*coordinationv1.Lease) {}); !apierrors.IsNotFound(err) {
		t.Errorf("edit of nothing: %v", err)
	}
	client := store.Leases(namespace)
	lease := create(t, client, "a")
	if err := store.Edit(namespace, name, func(l *coordinationv1.Lease) {
		l.Spec = coordinationv1.LeaseSpec{}
		l.ResourceVersion = "1"
	}); err != nil {
		t.Fatalf("edit: %v", err)
	}
	if spec := store.Peek(namespace, name).Spec; spec != (coordinationv1.LeaseSpec{}) {
		t.Errorf("edited to %+v", spec)
	}
	if _, err := client.Update(t.Context(), lease, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update after edit: %v", err)
	}
	if err := store.Edit(namespace, name, func(l *coordinationv1.Lease) {
		l.Spec.LeaseTransitions = new(int32(-1))
	}); !apierrors.IsInvalid(err) {
		t.Errorf("invalid edit: %v", err)
	}
}

func TestModify(t *testing.T) {
	client := electortest.NewStore().Leases(namespace)
	create(t, client, "a")
	refused := errors.New("refused")
	_, err := client.Modify(t.Context(), name, func(*coordinationv1.Lease) error { return refused }, metav1.PatchOptions{})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	_, err = client.Modify(t.Context(), name, func(l *coordinationv1.Lease) error {
		l.ResourceVersion = "1"
		return nil
	}, metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
}

func TestPeekAndDelete(t *testing.T) {
	store := electortest.NewStore()
	if lease := store.Peek(namespace, name); lease != nil {
		t.Errorf("peeked %+v", lease)
	}
	if err := store.Delete(namespace, name); !apierrors.IsNotFound(err) {
		t.Errorf("delete of nothing: %v", err)
	}
	client := store.Leases(namespace)
	first := create(t, client, "a")
	if err := store.Delete(namespace, name); err != nil {
		t.Errorf("delete: %v", err)
	}
	if second := create(t, client, "a"); second.UID == first.UID {
		t.Errorf("both have the uid %s", first.UID)
	}
}

func TestWrites(t *testing.T) {
	store := electortest.NewStore()
	client := store.Leases(namespace)
	lease := create(t, client, "a")
	lease = hold(t, client, lease, "b")
	hold(t, client, lease, "b")
	if err := store.Edit(namespace, name, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("c") }); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range store.Writes() {
		got = append(got, fmt.Sprintf("%s by client %t: %s to %s at %s", w.Verb, w.Client == client, holder(w.Previous), holder(w.Lease), w.ResourceVersion))
	}
	want := []string{
		"create by client true:  to a at 1001",
		"update by client true: a to b at 1002",
		"patch by client false: b to c at 1003",
		"delete by client true: c to  at 1004",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("writes\n%q, want\n%q", got, want)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	const limit = 4096
	store := electortest.NewStore()
	client := store.Leases(namespace)
	lease := create(t, client, "a")
	for i := range limit {
		lease = hold(t, client, lease, strconv.Itoa(i))
	}
	writes := store.Writes()
	if len(writes) != limit || writes[limit-1].ResourceVersion != lease.ResourceVersion {
		t.Errorf("%d writes up to %s", len(writes), writes[len(writes)-1].ResourceVersion)
	}
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
