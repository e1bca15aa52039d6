// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// B1: a virtual machine is paused, or its host sleeps. Timers stand still meanwhile, so the loop learns nothing of it:
// the first answer has to be right by itself.
func TestCaseB1FirstAnswerAfterAPause(t *testing.T) {
	for name, sleep := range map[string]func(*bubbleClock){
		"the monotonic clock stood still": func(c *bubbleClock) { c.stepWall(2 * time.Minute) },
		"suspended time is counted":       func(c *bubbleClock) { c.suspend(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				before := a.Status()
				news := a.news(t)
				var open atomic.Bool
				a.api.Intercept(func(_ context.Context, verb string, call func() error) error {
					if verb == "update" && !open.Load() {
						return errServer
					}
					return call()
				})
				sleep(a.clock)
				if s := a.Status(); s.IsLeader || s.ValidFor != 0 || s.FencingToken != 0 || s.Leader != "" || s.Revision == before.Revision {
					t.Errorf("the first answer is %+v", s)
				}
				for range 3000 {
					pass(time.Millisecond)
					if a.leads() {
						t.Fatal("leads without a renewal")
					}
				}
				open.Store(true)
				until(t, 2*retryPeriod, "a leads again", a.leads)
				if again := a.Status().FencingToken; again <= before.FencingToken {
					t.Errorf("token %d after %d", again, before.FencingToken)
				}
				if told := turns(news(), true); len(told) != 2 {
					t.Errorf("those who wait were told %+v", told)
				}
			})
		})
	}
}

// B1, once more: a time of day that jumps ahead and back again before the loop runs. "Not leader" was said, so it holds
// until a renewal succeeds.
func TestCaseB1JumpAheadAndBackAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		a.clock.stepWall(2 * time.Minute)
		if a.leads() {
			t.Fatal("leads after the jump")
		}
		a.clock.stepWall(-2 * time.Minute)
		if s := a.Status(); s.IsLeader || s.Leader != "" {
			t.Fatalf("leads again without a renewal: %+v", s)
		}
		until(t, 2*retryPeriod, "a leads after its next renewal", a.leads)
	})
}

// stall makes the election loop stand still where it is next to log something, until the test lets it go.
func stall(t *testing.T, log *journal) (letGo func()) {
	letGo = log.hold()
	t.Cleanup(letGo) // before the candidate's, which waits for the loop
	return letGo
}

// B2: the loop gets no time to run. The answers do not come from it, but are worked out as they are given.
func TestCaseB2LoopStandsStill(t *testing.T) {
	t.Run("of a leader", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a, log := startLogged(t, store, "a_1")
			settle()
			deadline := a.deadline()
			b := start(t, store, "b_1")
			both := []*candidate{a, b}
			news := a.news(t)
			letGo := stall(t, log)
			a.api.Intercept(once("update", refuse(errServer, "update"))) // which it has to log
			lapse(t, time.Until(deadline)-2*time.Millisecond, both...)
			if !a.leads() || len(log.saying("request failed")) != 1 {
				t.Fatalf("leads: %t; log: %q", a.leads(), log.saying(""))
			}
			pass(time.Until(deadline))
			if s := a.Status(); s.IsLeader || s.ValidFor != 0 || s.FencingToken != 0 {
				t.Errorf("at the deadline it says %+v", s)
			}
			if told := turns(news(), true); len(told) != 1 || !told[0].at.Equal(deadline) {
				t.Errorf("the deadline is %s; those who wait were told %+v", deadline, told)
			}
			if err := a.Health(); err == nil || !strings.Contains(err.Error(), "outlived") {
				t.Errorf("health: %v", err)
			}
			neverBoth(t, leaseDuration, "b leads", both, b.leads)
			letGo()
			lapse(t, time.Minute, both...)
			if s := a.Status(); !b.leads() || s.Leader != "b_1" {
				t.Errorf("b leads: %t; a says %+v", b.leads(), s)
			}
			if err := a.Health(); err != nil {
				t.Errorf("health: %v", err)
			}
		})
	})
	t.Run("of a follower", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			held(t, store, "dead_1", 6)
			b, log := startLogged(t, store, "b_1")
			synctest.Wait()
			news := b.news(t)
			stall(t, log)
			b.api.Intercept(refuse(errServer, "get")) // in doubt it reads, after 4 s
			pass(6*time.Second - time.Millisecond)
			if named := b.Status().Leader; named != "dead_1" || len(log.saying("request failed")) != 1 {
				t.Fatalf("names %q; log: %q", named, log.saying(""))
			}
			pass(time.Millisecond)
			if named := b.Status().Leader; named != "" {
				t.Errorf("names %q once its lease has expired", named)
			}
			if told := news(); len(told) != 1 || told[0].Leader != "" {
				t.Errorf("those who wait were told %+v", told)
			}
			if err := b.Health(); err != nil {
				t.Errorf("health: %v", err)
			}
			pass(renewDeadline)
			if err := b.Health(); err == nil || !strings.Contains(err.Error(), "has not run") {
				t.Errorf("health: %v", err)
			}
		})
	})
}

// B5: deadline, request timeout and pause add up, or a call that is never answered keeps "leader" alive.
func TestCaseB5CallHangsAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		deadline := a.deadline()
		renewed := deadline.Add(-renewDeadline)
		news := a.news(t)
		var number, last atomic.Int64 // of the writes, and when the last was sent, after the last renewal
		var underWay atomic.Bool
		a.api.Intercept(func(ctx context.Context, verb string, call func() error) error {
			if verb != "update" {
				return call()
			}
			underWay.Store(true)
			defer underWay.Store(false)
			last.Store(int64(time.Since(renewed)))
			switch number.Add(1) {
			case 1:
				time.Sleep(3500 * time.Millisecond) // so that the others come at 5.5 s, 7.5 s and 9.5 s
				return errServer
			case 2, 3:
				return errServer
			}
			<-ctx.Done()
			return ctx.Err()
		})
		pass(time.Until(deadline) - 1)
		if s := a.Status(); !s.IsLeader || s.ValidFor != 1 || !underWay.Load() {
			t.Errorf("just before the deadline: %+v", s)
		}
		pass(1)
		if s := a.Status(); s.IsLeader || s.ValidFor != 0 || s.State != elector.Following || !underWay.Load() {
			t.Errorf("at the deadline: %+v", s)
		}
		if sent := time.Duration(last.Load()); sent < renewDeadline-time.Second {
			t.Fatalf("the last write was sent at %s", sent)
		}
		pass(leaseDuration - renewDeadline)
		if told := turns(news(), true); len(told) != 1 || !told[0].at.Equal(deadline) {
			t.Errorf("the deadline is %s; those who wait were told %+v", deadline, told)
		}
	})
}
