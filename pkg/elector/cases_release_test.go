// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// once intercepts the first call of a verb.
func once(verb string, first electortest.Interceptor) electortest.Interceptor {
	var done atomic.Bool
	return func(ctx context.Context, v string, call func() error) error {
		if v == verb && !done.Swap(true) {
			return first(ctx, v, call)
		}
		return call()
	}
}

// stops stops a candidate and checks that it ends in good order within a time.
func (c *candidate) stops(t *testing.T, within time.Duration) (took time.Duration) {
	t.Helper()
	begun := time.Now()
	c.stop()
	<-c.ended
	took = time.Since(begun)
	if c.err != nil || took > within {
		t.Errorf("ended after %s: %v", took, c.err)
	}
	return took
}

// A1: the release meets a conflict, is not tried again, and the dead pod keeps the lease.
func TestCaseA1ReleaseMeetsAConflict(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, store *electortest.Store, a *candidate)
		holder  string
		label   string
	}{
		"a renewal is stored, its answer held, and the watch silent": {prepare: func(t *testing.T, store *electortest.Store, a *candidate) {
			a.api.Deafen()
			before := store.Peek(namespace, leaseName).ResourceVersion
			a.api.Intercept(once("update", func(ctx context.Context, _ string, call func() error) error {
				_ = call()
				<-ctx.Done()
				return ctx.Err()
			}))
			pass(retryPeriod)
			if store.Peek(namespace, leaseName).ResourceVersion == before {
				t.Fatal("nothing was renewed")
			}
		}},
		"somebody adds a label just before": {label: "blue", prepare: func(t *testing.T, store *electortest.Store, a *candidate) {
			a.api.Intercept(once("update", func(_ context.Context, _ string, call func() error) error {
				edit(t, store, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"team": "blue"} })
				return call()
			}))
		}},
		"another has taken it": {holder: "intruder", prepare: func(t *testing.T, store *electortest.Store, a *candidate) {
			a.api.Intercept(once("update", func(_ context.Context, _ string, call func() error) error {
				edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("intruder") })
				return call()
			}))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				test.prepare(t, store, a)
				a.stops(t, renewDeadline/2)
				if got := holder(store); got != test.holder {
					t.Errorf("the Lease names %q", got)
				}
				if got := store.Peek(namespace, leaseName).Labels["team"]; got != test.label {
					t.Errorf("the label is %q", got)
				}
			})
		})
	}
}

// A2: the release is given the context that has just ended, or the process does not wait for it.
func TestCaseA2ReleaseOutlivesTheContextThatEndedTheElection(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		const latency = 800 * time.Millisecond
		a := start(t, store, "a_1")
		settle()
		var reading atomic.Bool
		a.api.Intercept(func(ctx context.Context, verb string, call func() error) error {
			switch {
			case verb == "get": // hangs
				reading.Store(true)
				<-ctx.Done()
				return ctx.Err()
			case verb == "update" && !reading.Load(): // makes the leader read
				return errConflict
			case verb == "update":
				select {
				case <-time.After(latency):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return call()
		})
		until(t, 2*retryPeriod, "it reads", reading.Load)
		if took := a.stops(t, latency+100*time.Millisecond); took < latency {
			t.Errorf("Run returned after %s: it did not wait for the release", took)
		}
		if got := holder(store); got != "" {
			t.Errorf("the Lease names %q", got)
		}
	})
}

// A3: what was on the wire when the candidate was told to stop lands afterwards, and a dead pod owns the lease.
func TestCaseA3WriteOnTheWireLandsAfterTheStop(t *testing.T) {
	// How the write that is under way ends after the stop.
	wires := map[string]electortest.Interceptor{
		"stored late": func(ctx context.Context, _ string, call func() error) error {
			time.Sleep(time.Second)
			return call()
		},
		"stored late, the answer lost": func(ctx context.Context, _ string, call func() error) error {
			time.Sleep(time.Second)
			_ = call()
			<-ctx.Done()
			return ctx.Err()
		},
		"given up, and stored after that": func(ctx context.Context, _ string, call func() error) error {
			go func() {
				time.Sleep(6 * time.Second)
				_ = call()
			}()
			<-ctx.Done()
			return ctx.Err()
		},
	}
	for how, wire := range wires {
		for _, verb := range []string{"create", "update"} {
			t.Run("an acquisition, "+verb+", "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, store *electortest.Store) {
					if verb == "update" {
						held(t, store, "dead_1", 5)
						edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
					}
					sent := make(chan struct{})
					a := start(t, store, "a_1", func(c *elector.Config) {
						c.Client.(*electortest.Client).Intercept(once(verb, func(ctx context.Context, v string, call func() error) error {
							close(sent)
							return wire(ctx, v, call)
						}))
					})
					news := a.news(t)
					<-sent
					a.stops(t, renewDeadline)
					pass(time.Minute)
					if got := holder(store); got != "" {
						t.Errorf("the Lease names %q", got)
					}
					if told := turns(news(), false); len(told) > 0 {
						t.Errorf("it led: %+v", told)
					}
				})
			})
		}
		t.Run("a renewal, "+how, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				sent := make(chan struct{})
				a.api.Intercept(once("update", func(ctx context.Context, v string, call func() error) error {
					close(sent)
					return wire(ctx, v, call)
				}))
				<-sent
				a.stops(t, renewDeadline)
				pass(time.Minute)
				if got := holder(store); got != "" {
					t.Errorf("the Lease names %q", got)
				}
			})
		})
	}
}

// A4: the record is cleared before the flag. TestStopAsLeader looks at the flag as the release is sent; here the release
// hangs, and everybody who asks meanwhile is told the same.
func TestCaseA4NobodyIsToldLeadingWhileTheReleaseHangs(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		news := a.news(t)
		var sent, done atomic.Bool
		a.api.Intercept(once("update", func(_ context.Context, _ string, call func() error) error {
			sent.Store(true)
			time.Sleep(3 * time.Second)
			err := call()
			done.Store(true)
			return err
		}))
		stopped := time.Now()
		a.stop()
		until(t, 4*time.Second, "the release is done", func() bool {
			if s := a.Status(); sent.Load() && !done.Load() && (s.IsLeader || s.ValidFor != 0 || s.FencingToken != 0 || s.State != elector.HandingOver) {
				t.Fatalf("status %+v", s)
			}
			return done.Load()
		})
		<-a.ended
		if told := turns(news(), true); len(told) != 1 || !told[0].at.Equal(stopped) {
			t.Errorf("told at %s to stop; those who wait were told %+v", stopped, told)
		}
	})
}

// A5: the API refuses the release for its duration of 0; or standbys wait out a duration, or ever longer.
func TestCaseA5ReleaseAfterALongIdleTime(t *testing.T) {
	const rounds = 500
	for name, idle := range map[string]func(b *candidate){
		"a standby at rest": func(*candidate) { pass(rounds * retryPeriod) },
		"a standby that was cut off": func(b *candidate) {
			b.api.Cut()
			pass(rounds * retryPeriod)
			b.api.Heal()
			pass(retryPeriod)
		},
		"a standby whose reads fail": func(b *candidate) {
			b.api.Intercept(refuse(errServer, "get", "list", "watch"))
			b.api.BreakWatches()
			pass(rounds * retryPeriod)
			b.api.Intercept(nil)
			pass(retryPeriod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				b := start(t, store, "b_1")
				pass(time.Second)
				idle(b)
				a.stops(t, time.Second)
				lease := store.Peek(namespace, leaseName)
				if holder(store) == "a_1" || lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds < 1 {
					t.Errorf("the released Lease is %+v", lease.Spec)
				}
				until(t, crowd+2*time.Millisecond, "b leads", b.leads)
			})
		})
	}
}

// E2: the loop has ended with the API server out of reach, so that the Lease still names the pod; it must never again
// say that it leads.
func TestCaseE2LoopHasEndedWithoutARelease(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		a.api.Cut()
		a.stop()
		until(t, renewDeadline+time.Millisecond, "the loop ends", func() bool {
			select {
			case <-a.ended:
				return true
			default:
				return false
			}
		})
		if a.err == nil || a.Health() == nil {
			t.Errorf("not released, and yet all is well: %v, %v", a.err, a.Health())
		}
		if got := holder(store); got != "a_1" {
			t.Fatalf("the Lease names %q", got)
		}
		for range 2 {
			if s := a.Status(); s.IsLeader || s.Leader != "" || s.FencingToken != 0 || s.State != elector.Stopped || !s.Stopping {
				t.Errorf("status %+v", s)
			}
			pass(10 * time.Minute)
		}
	})
}

// I2: the grace period is nearly over, and SIGKILL comes a second after SIGTERM: the release has to go out first.
func TestCaseI2ReleaseGoesOutFirst(t *testing.T) {
	const oneWay = 250 * time.Millisecond
	for name, wait := range map[string]time.Duration{"at rest": time.Second, "with a renewal just sent": retryPeriod + time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				renewed := a.deadline().Add(-renewDeadline)
				a.api.Intercept(func(_ context.Context, _ string, call func() error) error {
					time.Sleep(oneWay)
					defer time.Sleep(oneWay)
					return call()
				})
				pass(time.Until(renewed.Add(wait)))
				stopped := time.Now()
				a.stop()
				synctest.Wait()
				until(t, time.Second, "the lease is free", func() bool { return holder(store) == "" })
				if took := time.Since(stopped); took > 2*oneWay+10*time.Millisecond {
					t.Errorf("released after %s", took)
				}
			})
		})
	}
}
