// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// held stores a Lease that another holds and does not renew.
func held(t *testing.T, store *electortest.Store, by string, duration int32) {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &by, LeaseDurationSeconds: &duration, LeaseTransitions: new(int32(4)),
			AcquireTime: &metav1.MicroTime{Time: time.Now()}, RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}
	if _, err := store.Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestFreeLeaseIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		status := a.Status()
		if !status.IsLeader || status.Leader != "a_1" || status.State != elector.Leading || status.Term != 0 {
			t.Errorf("status %+v", status)
		}
		lease := store.Peek(namespace, leaseName)
		if *lease.Spec.HolderIdentity != "a_1" || *lease.Spec.LeaseDurationSeconds != 15 || *lease.Spec.LeaseTransitions != 0 {
			t.Errorf("lease %+v", lease.Spec)
		}
		if status.ValidFor > renewDeadline || status.ValidFor < renewDeadline-2*crowd {
			t.Errorf("valid for %s", status.ValidFor)
		}
	})
}

func TestLeaderRenewsAndKeepsItsRevision(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		before := a.Status()
		writes := len(store.Writes())
		pass(time.Minute)
		after := a.Status()
		if !after.IsLeader || after.Revision != before.Revision || after.FencingToken != before.FencingToken {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if !after.RenewTime.After(before.RenewTime.Add(50 * time.Second)) {
			t.Errorf("renewed at %s, then at %s", before.RenewTime, after.RenewTime)
		}
		if n := len(store.Writes()) - writes; n < 29 || n > 31 {
			t.Errorf("%d renewals in a minute, want one each %s", n, retryPeriod)
		}
	})
}

// Rule S4: the record's own duration counts, from when it was seen, whatever its times say.
func TestExpiredLeaseIsTakenAtTheInstantOfExpiry(t *testing.T) {
	for _, duration := range []int32{3, 15, 40} {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			held(t, store, "dead_1", duration)
			pass(10 * time.Second) // the holder's times are old: they are not to be looked at
			b := start(t, store, "b_1")
			synctest.Wait()
			if s := b.Status(); s.Leader != "dead_1" || s.IsLeader || s.State != elector.Following {
				t.Fatalf("status %+v", s)
			}
			took := until(t, time.Minute, "b leads", b.leads)
			want := time.Duration(duration) * time.Second
			if took < want || took > want+crowd+2*time.Millisecond {
				t.Errorf("took it after %s, want %s", took, want)
			}
			if s := b.Status(); s.Term != 5 {
				t.Errorf("term %d, want 5: the holder changed", s.Term)
			}
		})
	}
}

func TestReleasedLeaseIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		b := start(t, store, "b_1")
		pass(5 * time.Second)
		a.stop()
		until(t, crowd+2*time.Millisecond, "b leads", b.leads)
		if s := b.Status(); s.Term != 1 || s.FencingToken <= 0 {
			t.Errorf("status %+v", s)
		}
		if a.leads() {
			t.Error("a leads too")
		}
	})
}

func TestStopAsLeader(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		held := store.Peek(namespace, leaseName)
		told := make(chan elector.Status, 1)
		go func() {
			status, _ := a.Wait(t.Context(), func(s elector.Status) bool { return !s.IsLeader })
			told <- status
		}()
		a.api.Intercept(func(_ context.Context, verb string, call func() error) error {
			if verb == "update" {
				synctest.Wait()
				if a.leads() {
					t.Error("says that it leads while it releases")
				}
				if s := <-told; s.State != elector.HandingOver {
					t.Errorf("the waiter was told %+v", s)
				}
			}
			return call()
		})
		a.stop()
		<-a.ended
		if a.err != nil {
			t.Errorf("Run: %v", a.err)
		}
		lease := store.Peek(namespace, leaseName)
		if *lease.Spec.HolderIdentity != "" || *lease.Spec.LeaseDurationSeconds != 1 ||
			*lease.Spec.LeaseTransitions != *held.Spec.LeaseTransitions {
			t.Errorf("released lease %+v", lease.Spec)
		}
		if s := a.Status(); s.State != elector.Stopped || s.IsLeader || s.Leader != "" {
			t.Errorf("status %+v", s)
		}
		if err := a.Health(); err != nil {
			t.Errorf("unhealthy after an orderly end: %v", err)
		}
	})
}

// Rule S6: whatever ends the loop, the status says "not leader", those who wait are told, and the elector is unhealthy.
func TestPanicInTheLoopEndsLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		told := make(chan elector.Status, 1)
		go func() {
			status, _ := a.Wait(t.Context(), func(s elector.Status) bool { return !s.IsLeader })
			told <- status
		}()
		synctest.Wait()
		a.clock.panicOnce()
		<-a.ended
		if a.err == nil || !strings.Contains(a.err.Error(), "panicked") {
			t.Errorf("Run: %v", a.err)
		}
		if s := <-told; s.State != elector.Stopped || s.IsLeader || s.Leader != "" || !s.Stopping {
			t.Errorf("the waiter was told %+v", s)
		}
		if a.Health() == nil {
			t.Error("healthy without a loop")
		}
	})
}

func TestStopAsFollowerLeavesTheLeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "other_1", 15)
		b := start(t, store, "b_1")
		pass(time.Second)
		before := store.Peek(namespace, leaseName)
		b.stop()
		<-b.ended
		if b.err != nil || store.Peek(namespace, leaseName).ResourceVersion != before.ResourceVersion {
			t.Errorf("error %v, lease %+v", b.err, store.Peek(namespace, leaseName))
		}
	})
}

func TestHandoverKeepsTheLeaseUntilTheAppIsDone(t *testing.T) {
	for name, test := range map[string]struct {
		release bool
		want    time.Duration
	}{"timeout": {false, 20 * time.Second}, "released": {true, 7 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1", func(c *elector.Config) { c.HandoverTimeout = 20 * time.Second })
				settle()
				b := start(t, store, "b_1")
				settle()
				begun := time.Now()
				a.stop()
				pass(7 * time.Second)
				if s := a.Status(); s.State != elector.HandingOver || s.IsLeader || b.leads() {
					t.Fatalf("status %+v, b leads: %t", s, b.leads())
				}
				if test.release {
					if err := a.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
				until(t, time.Minute, "b leads", b.leads)
				if took := time.Since(begun); took < test.want || took > test.want+20*time.Millisecond {
					t.Errorf("handed over after %s, want %s", took, test.want)
				}
			})
		})
	}
}

func TestHandoverEndsAtTheDeadlineWhenTheLeaseCannotBeKept(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1", func(c *elector.Config) { c.HandoverTimeout = time.Hour })
		settle()
		a.api.Cut()
		a.stop()
		until(t, 21*time.Second, "a ends", func() bool {
			select {
			case <-a.ended:
				return true
			default:
				return false
			}
		})
		if a.err == nil {
			t.Error("no error, though the lease names it")
		}
	})
}

func TestResign(t *testing.T) {
	const cooldown = 20 * time.Second
	t.Run("another takes over", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1", func(c *elector.Config) { c.HandoverTimeout = 5 * time.Second })
			settle()
			b := start(t, store, "b_1")
			settle()
			if err := a.Resign(t.Context(), cooldown); err != nil {
				t.Fatal(err)
			}
			pass(4 * time.Second)
			if s := a.Status(); s.State != elector.HandingOver || s.IsLeader || s.Stopping || b.leads() {
				t.Errorf("status %+v; b leads: %t", s, b.leads())
			}
			until(t, 2*time.Second, "b leads", b.leads)
			b.stop() // the cooldown holds, whoever leads meanwhile
			pass(cooldown - time.Second)
			if a.leads() {
				t.Error("a leads within its cooldown")
			}
			until(t, 2*time.Second, "a leads again", a.leads)
		})
	})
	t.Run("nobody follows", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1")
			settle()
			token := a.Status().FencingToken
			if err := a.Resign(t.Context(), cooldown); err != nil {
				t.Fatal(err)
			}
			took := until(t, time.Minute, "a leads again", a.leads)
			if took < cooldown || took > cooldown+20*time.Millisecond || a.Status().FencingToken <= token {
				t.Errorf("took it back after %s, with token %d after %d", took, a.Status().FencingToken, token)
			}
		})
	})
	t.Run("a follower has nothing to resign from", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			held(t, store, "other_1", 3)
			b := start(t, store, "b_1")
			settle()
			if err := b.Resign(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			until(t, 4*time.Second, "b leads when the lease expires", b.leads)
		})
	})
}

// heldClock is a clock whose readings can be held up, and with them the loop.
type heldClock struct {
	*bubbleClock
	hold atomic.Pointer[chan struct{}]
}

func (c *heldClock) Now() elector.Instant {
	if hold := c.hold.Load(); hold != nil {
		<-*hold
	}
	return c.bubbleClock.Now()
}

// What follows a command finds it carried out: an app that resigns and then releases must not be told that there is
// nothing to release.
func TestCommandReturnsOnceItIsCarriedOut(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		clock := &heldClock{bubbleClock: &bubbleClock{start: time.Now()}}
		a := start(t, store, "a_1", func(c *elector.Config) { c.Clock, c.HandoverTimeout = clock, time.Minute })
		settle()
		hold := make(chan struct{})
		clock.hold.Store(&hold)
		var returned atomic.Bool
		go func() {
			if err := a.Resign(t.Context(), 0); err != nil {
				t.Error(err)
			}
			returned.Store(true)
		}()
		synctest.Wait()
		early := returned.Load()
		clock.hold.Store(nil)
		close(hold)
		synctest.Wait()
		if early || !returned.Load() || a.Status().State != elector.HandingOver {
			t.Errorf("it returned before the step: %t; after it: %t; the state is %s", early, returned.Load(), a.Status().State)
		}
	})
}

func TestAnUnhealthyAppDoesNotLead(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		ill := errors.New("connection refused")
		a := start(t, store, "a_1")
		if err := a.SetHealth(t.Context(), ill); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if a.leads() {
			t.Fatal("leads before its app was ever healthy")
		}
		_ = a.SetHealth(t.Context(), nil)
		until(t, 20*time.Millisecond, "a leads", a.leads)
		b := start(t, store, "b_1")
		settle()
		_ = a.SetHealth(t.Context(), ill)
		until(t, 20*time.Millisecond, "b leads", b.leads)
		b.stop()
		pass(time.Minute)
		if a.leads() || a.Status().Leader != "" {
			t.Errorf("status %+v", a.Status())
		}
	})
}

// Rule S5: an intruder's write ends leadership when it is seen.
func TestTamperingEndsLeadershipAtOnce(t *testing.T) {
	tests := map[string]func(t *testing.T, store *electortest.Store){
		"another holder": func(t *testing.T, store *electortest.Store) {
			edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("intruder") })
		},
		"emptied": func(t *testing.T, store *electortest.Store) {
			edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
		},
		"our name, another's write": func(t *testing.T, store *electortest.Store) {
			edit(t, store, func(l *coordinationv1.Lease) {
				l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Second)}
			})
		},
		"deleted": func(t *testing.T, store *electortest.Store) {
			if err := store.Delete(namespace, leaseName); err != nil {
				t.Fatal(err)
			}
		},
		"deleted and created by another": func(t *testing.T, store *electortest.Store) {
			if err := store.Delete(namespace, leaseName); err != nil {
				t.Fatal(err)
			}
			held(t, store, "other_1", 15)
		},
	}
	for name, tamper := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				token := a.Status().FencingToken
				tamper(t, store)
				synctest.Wait()
				if a.leads() {
					t.Fatal("still leads")
				}
				until(t, 20*time.Second, "a leads again", a.leads)
				if again := a.Status().FencingToken; again <= token {
					t.Errorf("fencing token %d after %d", again, token)
				}
			})
		})
	}
}

func TestForeignFieldsAreKeptAndPodOwnersRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "dead_1", 1)
		edit(t, store, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"team": "a"}
			l.Annotations = map[string]string{"note": "b"}
			l.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "1"},
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"},
			}
		})
		a := start(t, store, "a_1")
		until(t, 2*time.Second, "a leads", a.leads)
		check := func() {
			t.Helper()
			l := store.Peek(namespace, leaseName)
			if l.Labels["team"] != "a" || l.Annotations["note"] != "b" ||
				len(l.OwnerReferences) != 1 || l.OwnerReferences[0].Kind != "Deployment" {
				t.Errorf("lease %+v", l)
			}
		}
		check()
		revision := a.Status().Revision
		edit(t, store, func(l *coordinationv1.Lease) { l.Annotations["later"] = "c" })
		pass(5 * time.Second)
		if s := a.Status(); !s.IsLeader || s.Revision != revision {
			t.Errorf("an annotation ended leadership: %+v", s)
		}
		if store.Peek(namespace, leaseName).Annotations["later"] != "c" {
			t.Error("a later annotation was lost")
		}
		a.stop()
		<-a.ended
		check()
	})
}

// Rule S3, and the case of an API that is out of reach for a while.
func TestLeaderIsNoneAtItsDeadlineAndLeadsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		pass(7 * time.Second)
		renewed := a.Status().RenewTime
		a.api.Cut()
		until(t, renewDeadline, "a does not lead", func() bool {
			leads := a.leads()
			if held := time.Since(renewed); leads && held >= renewDeadline {
				t.Errorf("leads %s after the last renewal", held)
			}
			return !leads
		})
		if err := a.Health(); err != nil {
			t.Errorf("an API server out of reach is no illness: %v", err)
		}
		pass(90 * time.Second)
		a.api.Heal()
		if took := until(t, time.Minute, "a leads again", a.leads); took > retryPeriod+20*time.Millisecond {
			t.Errorf("leads again after %s, want a retry period", took)
		}
	})
}

// A hundred candidates that see a lease become free do not all write, and fewer do each time.
func TestCrowdDoesNotAllWriteForOneRelease(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		const crowdSize, latency = 100, 3 * time.Millisecond
		var attempts atomic.Int32
		var standbys []*candidate
		for range crowdSize {
			s := start(t, store, fmt.Sprintf("c_%d", len(standbys)))
			s.api.Intercept(func(_ context.Context, verb string, call func() error) error {
				if verb != "update" {
					return call()
				}
				attempts.Add(1)
				time.Sleep(latency)
				return call()
			})
			standbys = append(standbys, s)
		}
		pass(time.Second)
		var wrote []int32
		for range 8 {
			i := slices.IndexFunc(standbys, (*candidate).leads)
			if i < 0 {
				t.Fatal("nobody leads")
			}
			attempts.Store(-1) // the release is an update, too
			standbys[i].stop()
			<-standbys[i].ended
			standbys = slices.Delete(standbys, i, i+1)
			pass(time.Second)
			wrote = append(wrote, attempts.Load())
		}
		t.Logf("of %d standbys wrote, handover by handover: %v", crowdSize, wrote)
		if wrote[0] > crowdSize*4/5 || slices.Min(wrote) > crowdSize/4 {
			t.Error("too many")
		}
	})
}

func TestFollowerAtRestAsksAtMostOnceAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		start(t, store, "a_1")
		settle()
		b := start(t, store, "b_1")
		settle()
		var requests atomic.Int32
		b.api.Intercept(func(_ context.Context, _ string, call func() error) error {
			requests.Add(1)
			return call()
		})
		pass(3 * time.Hour)
		t.Logf("%d requests in three hours", requests.Load())
		if requests.Load() > 3*60 {
			t.Error("more than one a minute")
		}
	})
}

func TestRestartInTheSamePodResumes(t *testing.T) {
	for name, test := range map[string]struct {
		sandbox string
		want    time.Duration
	}{"same pod": {"here", 0}, "same name elsewhere": {"there", leaseDuration}, "only the same name": {"", leaseDuration}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				held(t, store, "a_1", 15)
				edit(t, store, func(l *coordinationv1.Lease) {
					l.Annotations = map[string]string{elector.SandboxAnnotation: "here"}
				})
				a := start(t, store, "a_1", func(c *elector.Config) { c.Sandbox = test.sandbox })
				took := until(t, time.Minute, "a leads", a.leads)
				if took < test.want || took > test.want+20*time.Millisecond {
					t.Errorf("leads after %s, want %s", took, test.want)
				}
				if s := a.Status(); s.Term != 4 {
					t.Errorf("term %d, want 4: the holder is the same", s.Term)
				}
			})
		})
	}
}

func TestWaitReturnsTheCauseOfTheContextsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "other_1", 15)
		b := start(t, store, "b_1")
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if _, err := b.Wait(ctx, isLeader); !errors.Is(err, gone) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRunTwiceIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		if err := a.Run(t.Context()); err == nil {
			t.Error("no error")
		}
		if !a.leads() {
			t.Error("the first Run was disturbed")
		}
	})
}
