// SPDX-License-Identifier: Apache-2.0

package electortest_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

func TestWatchEnds(t *testing.T) {
	for how, end := range map[string]func(cancel context.CancelFunc, client *electortest.Client, w watch.Interface){
		"stopped":   func(_ context.CancelFunc, _ *electortest.Client, w watch.Interface) { w.Stop(); w.Stop() },
		"cancelled": func(cancel context.CancelFunc, _ *electortest.Client, _ watch.Interface) { cancel() },
		"broken":    func(_ context.CancelFunc, client *electortest.Client, _ watch.Interface) { client.BreakWatches() },
		"timed out": func(context.CancelFunc, *electortest.Client, watch.Interface) { time.Sleep(10 * time.Second) },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				client := electortest.NewStore().Leases(namespace)
				w, err := client.Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(10))})
				if err != nil {
					t.Fatal(err)
				}
				silent(t, w)
				end(cancel, client, w)
				closed(t, w)
			})
		})
	}
}

// A reader that reads nothing delays no write, and loses nothing.
func TestWatchSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := electortest.NewStore().Leases(namespace)
		w := open(t, client, metav1.ListOptions{})
		lease := create(t, client, "a")
		for i := range 1000 {
			lease = hold(t, client, lease, fmt.Sprint(i))
		}
		next(t, w, watch.Added)
		for i := range 1000 {
			if got := holder(next(t, w, watch.Modified)); got != fmt.Sprint(i) {
				t.Fatalf("event %d shows %s", i, got)
			}
		}
		silent(t, w)
	})
}

func TestWatchBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		lease := create(t, client, "a")
		from := metav1.ListOptions{ResourceVersion: lease.ResourceVersion, AllowWatchBookmarks: true}
		everyMinute := open(t, client, from)
		store.SetBookmarkInterval(10 * time.Second)
		from.TimeoutSeconds = new(int64(25))
		often := open(t, client, from)
		from.AllowWatchBookmarks = false
		never := open(t, client, from)

		other := newLease("a")
		other.Name = "other"
		if _, err := client.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, sleep := range []time.Duration{10 * time.Second, 10 * time.Second, 3 * time.Second} {
			silent(t, often)
			time.Sleep(sleep)
			bookmark := next(t, often, watch.Bookmark)
			if bookmark.ResourceVersion != store.Peek(namespace, "other").ResourceVersion || bookmark.Name != "" {
				t.Errorf("bookmark %+v", bookmark.ObjectMeta)
			}
		}
		time.Sleep(2 * time.Second)
		closed(t, often)
		closed(t, never)
		silent(t, everyMinute)
		time.Sleep(35 * time.Second)
		next(t, everyMinute, watch.Bookmark)
	})
}

func TestForgetHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		lease := create(t, client, "a")
		live := open(t, client, metav1.ListOptions{ResourceVersion: lease.ResourceVersion})
		newest := hold(t, client, lease, "b")
		store.ForgetHistory()

		w := open(t, client, metav1.ListOptions{ResourceVersion: lease.ResourceVersion})
		synctest.Wait()
		event := <-w.ResultChan()
		status, ok := event.Object.(*metav1.Status)
		if event.Type != watch.Error || !ok || status.Code != http.StatusGone || status.Reason != metav1.StatusReasonExpired {
			t.Errorf("event %s with %+v", event.Type, event.Object)
		}
		closed(t, w)

		next(t, live, watch.Modified)
		fresh := open(t, client, metav1.ListOptions{ResourceVersion: newest.ResourceVersion})
		silent(t, fresh)
		hold(t, client, newest, "c")
		next(t, fresh, watch.Modified)
	})
}

func TestDeletedHasItsOwnResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		lease := create(t, client, "a")
		w := open(t, client, metav1.ListOptions{ResourceVersion: lease.ResourceVersion})
		if err := store.Delete(namespace, name); err != nil {
			t.Fatal(err)
		}
		gone := next(t, w, watch.Deleted)
		if gone.ResourceVersion != store.Writes()[1].ResourceVersion || gone.ResourceVersion == lease.ResourceVersion {
			t.Errorf("deleted at %s, last written at %s", gone.ResourceVersion, lease.ResourceVersion)
		}
	})
}

func TestWatchEventsAreCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		first, second := open(t, client, metav1.ListOptions{}), open(t, client, metav1.ListOptions{})
		create(t, client, "a")
		*next(t, first, watch.Added).Spec.HolderIdentity = "changed"
		for _, lease := range []*coordinationv1.Lease{next(t, second, watch.Added), store.Peek(namespace, name)} {
			if holder(lease) != "a" {
				t.Errorf("holder %s", holder(lease))
			}
		}
	})
}
