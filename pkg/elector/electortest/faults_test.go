// SPDX-License-Identifier: Apache-2.0

package electortest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

var errLost = errors.New("lost")

func TestInterceptVerbs(t *testing.T) {
	client := electortest.NewStore().Leases(namespace)
	var verbs []string
	client.Intercept(func(_ context.Context, verb string, _ func() error) error {
		verbs = append(verbs, verb)
		return errLost
	})
	_, createErr := client.Create(t.Context(), newLease("a"), metav1.CreateOptions{})
	_, updateErr := client.Update(t.Context(), newLease("a"), metav1.UpdateOptions{})
	_, getErr := client.Get(t.Context(), name, metav1.GetOptions{})
	_, listErr := client.List(t.Context(), metav1.ListOptions{})
	w, watchErr := client.Watch(t.Context(), metav1.ListOptions{})
	deleteErr := client.Delete(t.Context(), name, metav1.DeleteOptions{})
	for i, err := range []error{createErr, updateErr, getErr, listErr, watchErr, deleteErr} {
		if !errors.Is(err, errLost) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if w != nil {
		t.Errorf("a failed watch is %v", w)
	}
	if want := []string{"create", "update", "get", "list", "watch", "delete"}; len(verbs) != len(want) {
		t.Errorf("verbs %v, want %v", verbs, want)
	}
	client.Intercept(nil)
	create(t, client, "a")
}

// The reply of a committed write is lost: the caller sees an error, the store has the write.
func TestLoseReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		client.Intercept(func(_ context.Context, _ string, call func() error) error {
			return errors.Join(call(), errLost)
		})
		lease, err := client.Create(t.Context(), newLease("a"), metav1.CreateOptions{})
		if lease != nil || !errors.Is(err, errLost) {
			t.Errorf("create: %v, %v", lease, err)
		}
		if store.Peek(namespace, name) == nil {
			t.Error("not committed")
		}
		// A watch whose reply is lost does not stay behind: synctest would find its goroutine.
		if w, err := client.Watch(t.Context(), metav1.ListOptions{}); w != nil || err == nil {
			t.Errorf("watch: %v, %v", w, err)
		}
	})
}

// The caller gives up on a request that is still on the wire, and that arrives later with what it said when it
// was sent.
func TestLateArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		client.Intercept(func(ctx context.Context, _ string, call func() error) error {
			time.AfterFunc(time.Minute, func() { _ = call() })
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lease := newLease("a")
		if _, err := client.Create(ctx, lease, metav1.CreateOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("create: %v", err)
		}
		*lease.Spec.HolderIdentity = "changed"
		if store.Peek(namespace, name) != nil {
			t.Error("committed too early")
		}
		time.Sleep(2 * time.Minute)
		if got := holder(store.Peek(namespace, name)); got != "a" {
			t.Errorf("holder %q", got)
		}
	})
}

func TestSlowRequestAndReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		client := store.Leases(namespace)
		client.Intercept(func(_ context.Context, _ string, call func() error) error {
			time.Sleep(time.Second)
			err := call()
			time.Sleep(2 * time.Second)
			return err
		})
		start := time.Now()
		create(t, client, "a")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		if at := store.Writes()[0].Time.Sub(start); at != time.Second {
			t.Errorf("committed after %s", at)
		}
	})
}

func TestDoneContext(t *testing.T) {
	store := electortest.NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Leases(namespace).Create(ctx, newLease("a"), metav1.CreateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	if store.Peek(namespace, name) != nil {
		t.Error("committed")
	}
}

func TestCutAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := electortest.NewStore()
		cut, other := store.Leases(namespace), store.Leases(namespace)
		broken, whole := open(t, cut, metav1.ListOptions{}), open(t, other, metav1.ListOptions{})
		cut.Cut()
		closed(t, broken)
		if _, err := cut.Create(t.Context(), newLease("a"), metav1.CreateOptions{}); !utilnet.IsConnectionRefused(err) {
			t.Errorf("create: %v", err)
		}
		if _, err := cut.Watch(t.Context(), metav1.ListOptions{}); !utilnet.IsConnectionRefused(err) {
			t.Errorf("watch: %v", err)
		}
		lease := create(t, other, "a")
		next(t, whole, watch.Added)
		cut.Heal()
		hold(t, cut, lease, "b")
		next(t, whole, watch.Modified)
	})
}

func TestDeafenAndHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := electortest.NewStore().Leases(namespace)
		deaf := open(t, client, metav1.ListOptions{TimeoutSeconds: new(int64(60))})
		client.Deafen()
		hearing := open(t, client, metav1.ListOptions{})
		create(t, client, "a")
		next(t, hearing, watch.Added)
		silent(t, deaf)
		time.Sleep(2 * time.Minute)
		silent(t, deaf)
		client.Hear()
		next(t, deaf, watch.Added)
		closed(t, deaf)
	})
}

// What was on its way to a reader when the watch went dead does not arrive either.
func TestDeafenHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := electortest.NewStore().Leases(namespace)
		w := open(t, client, metav1.ListOptions{})
		create(t, client, "a")
		synctest.Wait()
		client.Deafen()
		silent(t, w)
		client.Hear()
		next(t, w, watch.Added)
	})
}
