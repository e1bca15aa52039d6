// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// tally is an observer that counts.
type tally struct {
	mu       sync.Mutex
	requests map[string]int
	watches  int
	renewals []time.Duration
	changes  []string // takeovers and handovers
}

func (t *tally) observe(c *elector.Config) { c.Observer = t }

func (t *tally) Requested(verb string, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests = map[string]int{}
	}
	t.requests[fmt.Sprint(verb, " ", code)]++
}

func (t *tally) WatchEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches++
}

func (t *tally) Renewed(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewals = append(t.renewals, took)
}

func (t *tally) TookOver(leaderless time.Duration) { t.changed("took over after", leaderless) }
func (t *tally) HandedOver(took time.Duration)     { t.changed("handed over in", took) }

func (t *tally) changed(what string, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes = append(t.changes, fmt.Sprint(what, " ", after.Round(100*time.Millisecond)))
}

// expect checks what there is of each kind of request, and empties the tally of requests.
func (t *tally) expect(test *testing.T, want string) {
	test.Helper()
	synctest.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	var got []string
	for _, kind := range slices.Sorted(maps.Keys(t.requests)) {
		got = append(got, fmt.Sprint(kind, ": ", t.requests[kind]))
	}
	if got := strings.Join(got, ", "); got != want {
		test.Errorf("requests\n  %s\nwant\n  %s", got, want)
	}
	clear(t.requests)
}

func TestObserverIsToldOfRequests(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		var seen tally
		a := start(t, store, "a_1", seen.observe)
		settle()
		seen.expect(t, "create 201: 1, get 404: 1, list 200: 1, watch 200: 1")

		pass(5 * retryPeriod)
		seen.expect(t, "update 200: 5")

		a.api.Intercept(func(ctx context.Context, verb string, call func() error) error {
			time.Sleep(300 * time.Millisecond)
			return call()
		})
		pass(2*retryPeriod + 500*time.Millisecond)
		seen.expect(t, "update 200: 2")
		a.api.Intercept(func(_ context.Context, verb string, call func() error) error {
			if verb == "update" {
				return apierrors.NewForbidden(coordinationv1.Resource("leases"), leaseName, nil)
			}
			return call()
		})
		pass(retryPeriod)
		seen.expect(t, "update 403: 1")
		a.api.Intercept(nil)
		pass(retryPeriod)
		seen.expect(t, "update 200: 1")

		a.api.Cut()
		pass(retryPeriod)
		a.api.Heal()
		pass(2 * retryPeriod)
		seen.mu.Lock()
		for _, kind := range []string{"list 0", "update 0", "list 200", "watch 200", "update 200"} {
			if seen.requests[kind] == 0 {
				t.Errorf("after a cut it is told of no %s: %v", kind, seen.requests)
			}
		}
		if seen.watches != 1 {
			t.Errorf("%d watches have ended, want 1", seen.watches)
		}
		slow := slices.DeleteFunc(slices.Clone(seen.renewals), func(d time.Duration) bool { return d == 0 })
		if len(slow) != 2 || slow[0] != 300*time.Millisecond || slow[1] != slow[0] || len(seen.renewals) < 8 {
			t.Errorf("renewals took %v", seen.renewals)
		}
		seen.mu.Unlock()
	})
}

// The end of the election ends its watch, which no other follows.
func TestObserverIsNotToldOfTheLastWatch(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		var seen tally
		a := start(t, store, "a_1", seen.observe)
		settle()
		a.stop()
		<-a.ended
		if seen.watches != 0 {
			t.Errorf("%d watches have ended", seen.watches)
		}
	})
}

func TestObserverIsToldOfConflicts(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		var seen tally
		held(t, store, "dead_1", 1)
		a := start(t, store, "a_1", seen.observe)
		a.api.Intercept(func(_ context.Context, verb string, call func() error) error {
			if verb == "update" {
				edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b_1") })
			}
			return call()
		})
		pass(time.Second + crowd)
		// One get finds out whether it is permitted, one is the look at two thirds of the lease.
		seen.expect(t, "get 200: 2, list 200: 1, update 409: 1, watch 200: 1")
	})
}

func TestObserverIsToldOfChanges(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		var ofA, ofB tally
		a := start(t, store, "a_1", ofA.observe, func(c *elector.Config) { c.HandoverTimeout = 3 * time.Second })
		settle()
		b := start(t, store, "b_1", ofB.observe)
		settle()
		if err := a.Resign(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		until(t, time.Second, "b leads", b.leads)
		b.api.Cut() // for good: b dies
		pass(renewDeadline)
		if err := a.Release(t.Context()); err != nil { // nothing is handed over
			t.Fatal(err)
		}
		pass(time.Hour - renewDeadline)
		until(t, time.Minute, "a leads", a.leads)
		a.stop()
		<-a.ended
		// b's lease expired after 15 s, but its own cooldown kept a from taking it.
		if got := strings.Join(ofB.changes, ", "); got != "took over after 0s" {
			t.Errorf("b is told: %s", got)
		}
		want := "took over after 0s, handed over in 3s, took over after 59m45s, handed over in 3s"
		if got := strings.Join(ofA.changes, ", "); got != want {
			t.Errorf("a is told: %s; want: %s", got, want)
		}
	})
}

// A handover whose release fails ends too.
func TestObserverIsToldOfAHandoverThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		var seen tally
		a := start(t, store, "a_1", seen.observe)
		settle()
		a.api.Cut()
		a.stop()
		<-a.ended
		if got := strings.Join(seen.changes, ", "); got != "took over after 0s, handed over in 10s" {
			t.Errorf("it is told: %s", got)
		}
	})
}

func TestStatusCountsTheTimeWithoutALeader(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "dead_1", 5)
		a := start(t, store, "a_1")
		if err := a.SetHealth(t.Context(), context.DeadlineExceeded); err != nil {
			t.Fatal(err)
		}
		check := func(age, current, total time.Duration, transitions int) {
			t.Helper()
			synctest.Wait()
			s := a.Status()
			const slack = 2 * crowd
			if (s.RenewalAge-age).Abs() > slack || (s.LeaderlessFor-current).Abs() > slack || (s.LeaderlessTotal-total).Abs() > slack ||
				s.Transitions != transitions {
				t.Errorf("renewal %s ago, leaderless for %s and %s in all, %d transitions; want %s, %s, %s, %d",
					s.RenewalAge, s.LeaderlessFor, s.LeaderlessTotal, s.Transitions, age, current, total, transitions)
			}
		}
		check(0, 0, 0, 0)
		pass(4 * time.Second)
		check(4*time.Second, 0, 0, 0)
		pass(time.Second) // dead_1's lease expires
		check(5*time.Second, 0, 0, 0)
		pass(3500 * time.Millisecond)
		check(8500*time.Millisecond, 3500*time.Millisecond, 3500*time.Millisecond, 0)
		edit(t, store, func(l *coordinationv1.Lease) { l.Spec.RenewTime.Time = time.Now() }) // it was not dead
		pass(time.Second)
		check(time.Second, 0, 3500*time.Millisecond, 0)
		edit(t, store, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = new("c_1"), new(int32(5))
		})
		check(0, 0, 3500*time.Millisecond, 1)
		edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		pass(time.Second)
		check(0, time.Second, 4500*time.Millisecond, 1)
		if err := a.SetHealth(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		until(t, time.Second, "a leads", a.leads)
		check(0, 0, 4500*time.Millisecond, 2)
		pass(3 * retryPeriod / 2)
		check(retryPeriod/2, 0, 4500*time.Millisecond, 2)
		a.api.Cut()
		pass(renewDeadline) // half a retry period after the deadline
		check(renewDeadline+retryPeriod/2, retryPeriod/2, 4500*time.Millisecond+retryPeriod/2, 2)
		a.clock.suspend(time.Minute) // seen by who asks before the loop wakes
		if s := a.Status(); s.LeaderlessFor < time.Minute || s.LeaderlessTotal < time.Minute {
			t.Errorf("after a suspension: %+v", s)
		}
		a.api.Heal()
		until(t, 3*retryPeriod, "a leads again", a.leads)
		if s := a.Status(); s.LeaderlessFor != 0 || s.Transitions != 2 || s.LeaderlessTotal < time.Minute || s.LeaderlessTotal > time.Minute+15*time.Second {
			t.Errorf("led again: %+v", s)
		}
	})
}
