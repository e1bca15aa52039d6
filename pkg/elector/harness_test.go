// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2/ktesting"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

const (
	namespace = "default"
	leaseName = "web"

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second

	// crowd is the longest random wait before a free lease is written.
	crowd = 10 * time.Millisecond
)

// bubbleClock runs with the bubble's time, to which a test can add what only one of the two clocks sees.
type bubbleClock struct {
	start time.Time
	mu    sync.Mutex
	jump  time.Duration // of the time of day
	slept time.Duration // suspended time
	fault bool          // the next reading panics
}

// panicOnce makes the next reading panic, which is the loop's own where nobody else asks.
func (c *bubbleClock) panicOnce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = true
}

func (c *bubbleClock) Now() elector.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault {
		c.fault = false
		panic("the clock is broken")
	}
	return elector.Instant{
		Boot: time.Since(c.start) + c.slept,
		Wall: time.Now().Add(c.jump + c.slept).Round(0),
	}
}

// stepWall steps the time of day.
func (c *bubbleClock) stepWall(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jump += by
}

// suspend lets both clocks run on while the monotonic one, which timers go by, stands still.
func (c *bubbleClock) suspend(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += by
}

// candidate is an elector on a connection of its own.
type candidate struct {
	*elector.Elector
	api   *electortest.Client
	clock *bubbleClock
	stop  context.CancelFunc
	ended chan struct{}
	err   error // after ended
}

// start starts a candidate in the test's bubble. It is stopped at the end of the test.
func start(t *testing.T, store *electortest.Store, identity string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	return launch(t, ctx, store, identity, change...)
}

// launch is start with a context that has the logger.
func launch(t *testing.T, ctx context.Context, store *electortest.Store, identity string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	c := &candidate{
		api:   store.Leases(namespace),
		clock: &bubbleClock{start: time.Now()},
		ended: make(chan struct{}),
	}
	config := elector.Config{
		Client: c.api, Namespace: namespace, Name: leaseName, Identity: identity, Clock: c.clock,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if c.Elector, err = elector.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, c.stop = context.WithCancel(ctx)
	go func() {
		defer close(c.ended)
		c.err = c.Run(ctx)
	}()
	t.Cleanup(func() {
		c.stop()
		<-c.ended
	})
	return c
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, store *electortest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, electortest.NewStore()) })
}

// pass lets virtual time pass and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settle lets the requests that are due happen, a crowd's wait included.
func settle() { pass(crowd + time.Millisecond) }

// until waits in virtual time for a condition, looking every millisecond, and returns how long it took.
func until(t *testing.T, within time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		synctest.Wait()
		if condition() {
			return time.Since(begun)
		}
		if time.Since(begun) >= within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *candidate) leads() bool { return c.Status().IsLeader }

func isLeader(s elector.Status) bool { return s.IsLeader }

// holder is the holderIdentity of the stored Lease, "" where there is none.
func holder(store *electortest.Store) string {
	lease := store.Peek(namespace, leaseName)
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// edit is an intruder's write.
func edit(t *testing.T, store *electortest.Store, change func(*coordinationv1.Lease)) {
	t.Helper()
	if err := store.Edit(namespace, leaseName, change); err != nil {
		t.Fatal(err)
	}
}
