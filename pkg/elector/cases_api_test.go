// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// Errors of the API server, and of the way to it.
var (
	leases         = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	errServer      = apierrors.NewInternalError(errors.New("etcd has no leader"))
	errConflict    = apierrors.NewConflict(leases, leaseName, errors.New("the object has been modified"))
	errForbidden   = apierrors.NewForbidden(leases, leaseName, errors.New("no Role allows it"))
	errUnreachable = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)

// refuse fails the calls with one of the verbs.
func refuse(err error, verbs ...string) electortest.Interceptor {
	return func(_ context.Context, verb string, call func() error) error {
		if slices.Contains(verbs, verb) {
			return err
		}
		return call()
	}
}

// C3: a Lease is deleted while nobody watches, and those who watch again from where they were never hear of it.
func TestCaseC3DeletedInAWatchGap(t *testing.T) {
	gap := func(t *testing.T, store *electortest.Store, c *candidate, change func()) {
		t.Helper()
		c.api.Intercept(refuse(errUnreachable, "list", "watch", "get"))
		c.api.BreakWatches()
		pass(500 * time.Millisecond)
		change()
		store.ForgetHistory()
		pass(500 * time.Millisecond)
		c.api.Intercept(nil)
	}
	remove := func(t *testing.T, store *electortest.Store) {
		t.Helper()
		if err := store.Delete(namespace, leaseName); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a follower takes it", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			held(t, store, "other_1", 60)
			b := start(t, store, "b_1")
			pass(time.Second)
			gap(t, store, b, func() { remove(t, store) })
			until(t, retryPeriod+crowd+2*time.Millisecond, "b leads", b.leads)
		})
	})
	t.Run("a leader gives way to who created it", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1")
			settle()
			gap(t, store, a, func() {
				remove(t, store)
				held(t, store, "other_1", 60)
			})
			until(t, retryPeriod+2*time.Millisecond, "a follows", func() bool { return !a.leads() && a.Status().Leader == "other_1" })
		})
	})
	t.Run("a leader alone creates it", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1")
			settle()
			token := a.Status().FencingToken
			gap(t, store, a, func() { remove(t, store) })
			until(t, retryPeriod+crowd+2*time.Millisecond, "a leads a later term", func() bool { return a.Status().FencingToken > token })
			if got := holder(store); got != "a_1" {
				t.Errorf("the Lease names %q", got)
			}
		})
	})
	t.Run("the history has gone", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			held(t, store, "other_1", 60)
			b := start(t, store, "b_1")
			pass(time.Second)
			// The list is from before the deletion, the watch from after it.
			b.api.Intercept(once("watch", func(_ context.Context, _ string, call func() error) error {
				remove(t, store)
				store.ForgetHistory()
				return call()
			}))
			b.api.BreakWatches()
			until(t, 2*retryPeriod+crowd, "b leads", b.leads)
		})
	})
}

// C4: a name that no Lease can have, or none, is tried for ever.
func TestCaseC4BadLeaseNamesAreRefusedAtOnce(t *testing.T) {
	for _, name := range []string{"", "My_App.", "a/b", "-web", "web-", strings.Repeat("w", 254)} {
		t.Run(name, func(t *testing.T) {
			_, err := elector.New(elector.Config{
				Client: electortest.NewStore().Leases(namespace), Namespace: namespace, Name: name, Identity: "a_1",
				LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			})
			if err == nil {
				t.Errorf("an elector contends for a Lease named %q", name)
			}
		})
	}
}

// E1: reads work and writes do not. Another leads, and the old leader never learns that it lost.
func TestCaseE1WritesAloneFail(t *testing.T) {
	for name, failure := range map[string]error{"403": errForbidden, "409": errConflict, "500": errServer, "no answer": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1")
				settle()
				deadline := a.deadline()
				b := start(t, store, "b_1")
				both := []*candidate{a, b}
				news := a.news(t)
				a.api.Intercept(refuse(failure, "update"))
				neverBoth(t, time.Minute, "b leads", both, func() bool {
					if a.leads() && !time.Now().Before(deadline) {
						t.Fatalf("a leads %s after its deadline", time.Since(deadline))
					}
					return b.leads()
				})
				if named := a.Status().Leader; named != "b_1" {
					t.Errorf("a names %q", named)
				}
				a.api.Intercept(nil)
				lapse(t, time.Minute, both...)
				if told := turns(news(), true); len(told) != 1 || !b.leads() {
					t.Errorf("b leads: %t; those who wait for a's news were told %+v", b.leads(), told)
				}
			})
		})
	}
}

// F5: a missing permission is tried quietly for weeks while all looks well.
func TestCaseF5MissingPermissionIsNamed(t *testing.T) {
	for verb, test := range map[string]struct{ lease, leads bool }{
		"get":    {lease: true, leads: true}, // in doubt about another's lease
		"list":   {lease: true, leads: true},
		"watch":  {lease: true, leads: true},
		"create": {lease: false},
		"update": {lease: true},
	} {
		t.Run(verb, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				if test.lease {
					held(t, store, "dead_1", 3)
				}
				a, log := startLogged(t, store, "a_1", func(c *elector.Config) {
					c.Client.(*electortest.Client).Intercept(refuse(errForbidden, verb))
				})
				until(t, 4*time.Second, "it names the verb", func() bool { return slices.Equal(a.Denied(), []string{verb}) })
				pass(10 * time.Minute)
				if a.leads() != test.leads {
					t.Errorf("leads: %t, want %t", a.leads(), test.leads)
				}
				if err := a.Health(); err != nil {
					t.Errorf("unhealthy: %v", err)
				}
				lines := log.saying("permission missing")
				if len(lines) != 1 || !strings.Contains(lines[0], `"verbs"="`+verb+`"`) || !strings.Contains(lines[0], `"roleNeeded"=`) {
					t.Errorf("the log says %q", lines)
				}
				if test.leads {
					a.getsAlong(t, store)
					return
				}
				a.api.Intercept(nil)
				if took := until(t, time.Minute, "a leads", a.leads); took > retryPeriod+crowd+2*time.Millisecond {
					t.Errorf("with the permission it leads after %s", took)
				}
				if denied := a.Denied(); len(denied) > 0 {
					t.Errorf("still lacks %s", denied)
				}
			})
		})
	}
}

// getsAlong checks that a leader that lacks a permission does all that it has to do by other ways.
func (c *candidate) getsAlong(t *testing.T, store *electortest.Store) {
	t.Helper()
	// A renewal meets a conflict, of which the watch says nothing.
	before := c.Status()
	c.api.Deafen()
	edit(t, store, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"team": "blue"} })
	pass(time.Minute)
	if after := c.Status(); !after.IsLeader || after.FencingToken != before.FencingToken {
		t.Errorf("a label ended leadership: before %+v, after %+v", before, after)
	}
	c.api.Hear()
	// Another takes the lease and gives it back.
	edit(t, store, func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("other_1"), new(int32(60))
	})
	until(t, retryPeriod+2*time.Millisecond, "it follows", func() bool { return c.Status().Leader == "other_1" })
	pass(5 * time.Second)
	edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
	until(t, retryPeriod+crowd+2*time.Millisecond, "it leads again", c.leads)
}

// F7: the API server is out of reach in the first seconds, before a mesh's proxy is up, and the pod crash-loops.
// TestLeaderIsNoneAtItsDeadlineAndLeadsAgain is about an outage while leading.
func TestCaseF7OutOfReachAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		const outage = 20 * time.Second
		var attempts atomic.Int64
		a, log := startLogged(t, store, "a_1", func(c *elector.Config) {
			c.Client.(*electortest.Client).Intercept(func(context.Context, string, func() error) error {
				attempts.Add(1)
				return errUnreachable
			})
		})
		for range outage / time.Second {
			pass(time.Second)
			if s := a.Status(); s.State != elector.Starting || s.IsLeader || s.Known || s.Leader != "" {
				t.Fatalf("status %+v", s)
			}
			if a.Health() != nil || a.Trouble() == nil {
				t.Fatalf("health %v, trouble %v", a.Health(), a.Trouble())
			}
		}
		if n := attempts.Load(); n < int64(outage/retryPeriod) || n > int64(2*outage/retryPeriod)+1 {
			t.Errorf("%d attempts in %s, one each %s are due", n, outage, retryPeriod)
		}
		if lines := log.saying("cannot follow the lease"); len(lines) != 1 {
			t.Errorf("the log says %q", lines)
		}
		a.api.Intercept(nil)
		if took := until(t, time.Minute, "a leads", a.leads); took > retryPeriod+crowd+2*time.Millisecond {
			t.Errorf("leads %s after the API server came back", took)
		}
		synctest.Wait()
		if err := a.Trouble(); err != nil {
			t.Errorf("trouble %v", err)
		}
	})
}
