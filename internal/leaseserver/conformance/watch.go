// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var watchTests = []testCase{
	{"WatchFromList", watchFromList},
	{"WatchFromNow", watchFromNow},
	{"WatchInitialEventsEnd", watchInitialEventsEnd},
	{"WatchDeletion", watchDeletion},
	{"WatchOneName", watchOneName},
	{"WatchByLabel", watchByLabel},
	{"WatchNoBookmarks", watchNoBookmarks},
	{"WatchTimeout", watchTimeout},
	{"WatchFuture", watchFuture},
	{"WatchBadOptions", watchBadOptions},
	{"WatchMany", watchMany},
}

func (a *api) thisName() string {
	return "fieldSelector=metadata.name%3D" + a.name
}

// Nothing that happens between a list and its watch is missed.
func watchFromList(t *testing.T, a *api) {
	list := a.list(a.thisName()).leaseList()
	created := a.create("a")
	updated := a.hold(created, "b")
	a.delete().expect(http.StatusOK)
	again := a.create("c")

	w := a.watch(a.thisName() + "&resourceVersion=" + list.ResourceVersion)
	w.expect("ADDED", created)
	w.expect("MODIFIED", updated)
	gone := w.next("DELETED")
	later(t, updated.ResourceVersion, gone.ResourceVersion)
	later(t, gone.ResourceVersion, again.ResourceVersion)
	w.expect("ADDED", again)
	w.expect("MODIFIED", a.hold(again, "d"))

	resumed := a.watch(a.thisName() + "&resourceVersion=" + gone.ResourceVersion)
	resumed.expect("ADDED", again)
}

func watchFromNow(t *testing.T, a *api) {
	lease := a.create("a")
	lease = a.hold(lease, "b")
	for _, query := range []string{"", "&resourceVersion=", "&resourceVersion=0"} {
		w := a.watch(a.thisName() + query)
		// From 0 the state may be old, but never older than what this subtest has watched.
		w.expect("ADDED", lease)
		lease = a.hold(lease, "holder"+strconv.Itoa(len(query)))
		w.expect("MODIFIED", lease)
	}
	w := a.watch(a.thisName() + "&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	w.expect("MODIFIED", a.hold(lease, "z"))
}

// A watch of the state with bookmarks says where the state ends, asked for it or not.
func watchInitialEventsEnd(t *testing.T, a *api) {
	lease := a.create("a")
	for _, query := range []string{
		"&allowWatchBookmarks=true",
		"&allowWatchBookmarks=true&resourceVersion=0",
		"&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=" + lease.ResourceVersion,
	} {
		w := a.watch(a.thisName() + query)
		w.expect("ADDED", lease)
		bookmark := w.next("BOOKMARK")
		if bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || bookmark.Name != "" {
			t.Errorf("%s: bookmark %+v", query, bookmark.ObjectMeta)
		}
		if revision(t, bookmark.ResourceVersion) < revision(t, lease.ResourceVersion) {
			t.Errorf("%s: bookmark at %s after %s", query, bookmark.ResourceVersion, lease.ResourceVersion)
		}
		lease = a.hold(lease, strconv.Itoa(len(query)))
		w.expect("MODIFIED", lease)
	}
}

// A deletion has a resourceVersion of its own, and shows the last state.
func watchDeletion(t *testing.T, a *api) {
	lease := a.create("a")
	w := a.watch(a.thisName() + "&resourceVersion=" + lease.ResourceVersion)
	lease = a.hold(lease, "b")
	w.expect("MODIFIED", lease)
	a.delete().expect(http.StatusOK)
	gone := w.next("DELETED")
	later(t, lease.ResourceVersion, gone.ResourceVersion)
	if gone.UID != lease.UID || holder(gone) != "b" {
		t.Errorf("deleted %+v", gone)
	}
	again := a.create("c")
	later(t, gone.ResourceVersion, again.ResourceVersion)
	w.expect("ADDED", again)
}

func watchOneName(t *testing.T, a *api) {
	lease := a.create("a")
	w := a.watch(a.thisName() + "&resourceVersion=" + lease.ResourceVersion)
	a.createNamed(a.name+"-other", "x")
	w.expect("MODIFIED", a.hold(lease, "b"))
}

// To a watch, a Lease that leaves the selection is deleted, and one that comes back is added.
func watchByLabel(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.Labels = map[string]string{a.name: "in"}
	lease = a.post(lease).expect(http.StatusCreated).lease()
	w := a.watch("labelSelector=" + a.name + "%3Din&resourceVersion=" + lease.ResourceVersion)
	lease.Labels[a.name] = "out"
	out := a.put(lease).expect(http.StatusOK).lease()
	gone := w.next("DELETED")
	if gone.ResourceVersion != out.ResourceVersion || gone.Labels[a.name] != "in" {
		t.Errorf("left as %+v, want the state before %s", gone.ObjectMeta, out.ResourceVersion)
	}
	out = a.hold(out, "b")
	out.Labels[a.name] = "in"
	w.expect("ADDED", a.put(out).expect(http.StatusOK).lease())
}

func watchNoBookmarks(t *testing.T, a *api) {
	lease := a.create("a")
	w := a.watch(a.thisName() + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	w.expect("ADDED", lease)
	w.expect("MODIFIED", a.hold(lease, "b"))
}

func watchTimeout(t *testing.T, a *api) {
	lease := a.create("a")
	start := time.Now()
	w := a.watch(a.thisName() + "&timeoutSeconds=1&resourceVersion=" + lease.ResourceVersion)
	w.end()
	if took := time.Since(start); took < time.Second || took > 5*time.Second {
		t.Errorf("a watch of one second ended after %s", took)
	}
}

// A watch from the future opens, and is silent about what comes before.
func watchFuture(t *testing.T, a *api) {
	lease := a.create("a")
	w := a.watch(a.thisName() + "&timeoutSeconds=1&resourceVersion=" + strconv.FormatUint(revision(t, lease.ResourceVersion)+1_000_000, 10))
	a.hold(lease, "b")
	w.end()

	w = a.watch(a.thisName() + "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=10" +
		"&resourceVersion=" + strconv.FormatUint(revision(t, lease.ResourceVersion)+1_000_000, 10))
	status := w.fail()
	if status.Code != http.StatusGatewayTimeout || status.Reason != metav1.StatusReasonTimeout {
		t.Errorf("status %+v", status)
	}
}

func watchBadOptions(t *testing.T, a *api) {
	a.list("watch=true&resourceVersion=abc").fails(http.StatusInternalServerError, metav1.StatusReasonUnknown)
	a.list("watch=true&fieldSelector=spec.holderIdentity%3Da").fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.list("watch=true&timeoutSeconds=abc").fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.list("watch=true&sendInitialEvents=true").failsFor("resourceVersionMatch")
	a.list("watch=true&resourceVersionMatch=NotOlderThan&resourceVersion=10").failsFor("resourceVersionMatch")
}

// Every watch sees every write, in order.
func watchMany(t *testing.T, a *api) {
	lease := a.create("a")
	var watches []*stream
	for range 5 {
		watches = append(watches, a.watch(a.thisName()+"&resourceVersion="+lease.ResourceVersion))
	}
	var written []*coordinationv1.Lease
	for i := range 50 {
		lease = a.hold(lease, fmt.Sprint("holder-", i))
		written = append(written, lease)
	}
	for _, w := range watches {
		for _, lease := range written {
			w.expect("MODIFIED", lease)
		}
	}
}
