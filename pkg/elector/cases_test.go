// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// The tests TestCase… make the faults that others have reported; docs/guarantees.md has the table. This file holds the
// cases about who leads and who is told, cases_release_test.go those about the end, cases_clock_test.go those about
// time, and cases_api_test.go those about the API server.

// journal is a candidate's log, which a test can read and hold up.
type journal struct {
	mu    sync.Mutex
	lines []string
	held  chan struct{} // nil: lines are taken at once
}

func (j *journal) take(_, line string) {
	j.mu.Lock()
	j.lines = append(j.lines, line)
	held := j.held
	j.mu.Unlock()
	if held != nil {
		<-held
	}
}

// hold lets the next line, and with it the goroutine that logs it, wait until the journal is let go: a pipe that nobody
// reads.
func (j *journal) hold() (letGo func()) {
	held := make(chan struct{})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = held
	return sync.OnceFunc(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.held = nil
		close(held)
	})
}

// saying returns the lines with any of the texts.
func (j *journal) saying(texts ...string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, line := range j.lines {
		for _, text := range texts {
			if strings.Contains(line, text) {
				found = append(found, line)
				break
			}
		}
	}
	return found
}

// startLogged starts a candidate as start does, with a log that the test can read.
func startLogged(t *testing.T, store *electortest.Store, identity string, change ...func(*elector.Config)) (*candidate, *journal) {
	t.Helper()
	log := &journal{}
	return launch(t, klog.NewContext(t.Context(), funcr.New(log.take, funcr.Options{})), store, identity, change...), log
}

// notice is what somebody who waits for news was told, and when.
type notice struct {
	elector.Status
	at time.Time
}

// news collects what somebody who waits for news is told from now on. What it returns gives the notices so far.
func (c *candidate) news(t *testing.T) (soFar func() []notice) {
	var mu sync.Mutex
	var notices []notice
	last := c.Status().Revision
	go func() {
		for {
			status, err := c.Wait(t.Context(), func(s elector.Status) bool { return s.Revision != last })
			if err != nil {
				return
			}
			last = status.Revision
			mu.Lock()
			notices = append(notices, notice{status, time.Now()})
			mu.Unlock()
		}
	}()
	synctest.Wait()
	return func() []notice {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return append([]notice(nil), notices...)
	}
}

// turns are the notices at which leadership began or ended, given whether it was held before.
func turns(notices []notice, led bool) []notice {
	var found []notice
	for _, n := range notices {
		if n.IsLeader != led {
			led = n.IsLeader
			found = append(found, n)
		}
	}
	return found
}

// neverBoth waits as until does, and fails if two candidates lead at one instant.
func neverBoth(t *testing.T, within time.Duration, what string, candidates []*candidate, condition func() bool) time.Duration {
	t.Helper()
	return until(t, within, what, func() bool {
		leaders := 0
		for _, c := range candidates {
			if c.leads() {
				leaders++
			}
		}
		if leaders > 1 {
			t.Fatalf("%d lead at once", leaders)
		}
		return condition()
	})
}

// deadline is until when a leader leads without another renewal.
func (c *candidate) deadline() time.Time { return time.Now().Add(c.Status().ValidFor) }

// lapse lets time pass like pass, and fails if two candidates lead at one instant.
func lapse(t *testing.T, d time.Duration, candidates ...*candidate) {
	t.Helper()
	end := time.Now().Add(d)
	neverBoth(t, 2*d, "the end of the wait", candidates, func() bool { return !time.Now().Before(end) })
}

// D1: two live processes of one identity, since a pod's spec was copied or a StatefulSet's pod was forced to go. "It is
// my name, so it is me" would let both lead.
func TestCaseD1TwoProcessesOfOneIdentity(t *testing.T) {
	for name, sandbox := range map[string][2]string{"in two pods": {"here", "there"}, "in unknown places": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a, log := startLogged(t, store, "web-0_1", func(c *elector.Config) { c.Sandbox = sandbox[0] })
				settle()
				twin := start(t, store, "web-0_1", func(c *elector.Config) { c.Sandbox = sandbox[1] })
				both := []*candidate{a, twin}
				lapse(t, 2*time.Minute, both...)
				if !a.leads() {
					t.Fatal("the first does not lead")
				}
				if s := twin.Status(); s.Leader != "" || s.State != elector.Following {
					t.Errorf("the twin says %+v", s)
				}
				for _, write := range store.Writes() {
					if write.Client != a.api {
						t.Fatalf("the twin wrote %+v", write.Lease.Spec)
					}
				}
				// The other way round: while the first is cut off, the lease expires for the twin like any other's.
				a.api.Cut()
				took := neverBoth(t, time.Minute, "the twin leads", both, twin.leads)
				if took < leaseDuration-retryPeriod {
					t.Errorf("the twin took the lease after %s, before it expired", took)
				}
				a.api.Heal()
				lapse(t, time.Minute, both...)
				if !twin.leads() {
					t.Error("the twin lost the lease to its own name")
				}
				// Whoever leads and sees its name on another's record says what to mend.
				twin.stop()
				until(t, time.Second, "the first leads again", a.leads)
				edit(t, store, func(l *coordinationv1.Lease) {
					l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Second)}
				})
				synctest.Wait()
				if a.leads() || len(log.saying("each candidate needs an identity of its own")) != 1 {
					t.Errorf("leads: %t; log: %q", a.leads(), log.saying(""))
				}
			})
		})
	}
}

// E3: those who did not win go on naming the leader of the past.
func TestCaseE3LosersNameTheNewLeader(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		b, c := start(t, store, "b_1"), start(t, store, "c_1")
		pass(time.Second)
		a.api.Cut() // for good: it is dead to the others
		until(t, time.Minute, "b or c leads", func() bool { return b.leads() || c.leads() })
		winner, loser := b, c
		if c.leads() {
			winner, loser = c, b
		}
		if named := loser.Status().Leader; named != winner.Status().Leader {
			t.Errorf("the loser names %q, the leader is %q", named, winner.Status().Leader)
		}
	})
}

// E3: nobody is named while nobody leads, in particular not the dead.
func TestCaseE3TheDeadAreNotNamed(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "dead_1", 5)
		b := start(t, store, "b_1")
		b.api.Intercept(refuse(errServer, "update")) // so that the lease stays expired
		synctest.Wait()
		if named := b.Status().Leader; named != "dead_1" {
			t.Fatalf("names %q", named)
		}
		news := b.news(t)
		pass(5*time.Second - time.Millisecond)
		if named := b.Status().Leader; named != "dead_1" {
			t.Errorf("names %q before the lease has expired", named)
		}
		pass(time.Millisecond)
		for range 1000 {
			if s := b.Status(); s.Leader != "" || s.IsLeader {
				t.Fatalf("status %+v", s)
			}
			pass(17 * time.Millisecond)
		}
		if told := news(); len(told) == 0 || told[0].Leader != "" {
			t.Errorf("those who wait were told %+v", told)
		}
		edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") })
		synctest.Wait()
		if named := b.Status().Leader; named != "" {
			t.Errorf("names %q of a free lease", named)
		}
	})
}

// E5: "lost" without "won", news twice or never, data races between the loop and its readers.
func TestCaseE5NewsAlternates(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a, log := startLogged(t, store, "a_1")
		type content struct {
			state    elector.State
			isLeader bool
			leader   string
			term     int32
		}
		var mu sync.Mutex
		contents := map[string]content{} // by revision
		check := func(s elector.Status) {
			now := content{s.State, s.IsLeader, s.Leader, s.Term}
			mu.Lock()
			defer mu.Unlock()
			if before, known := contents[s.Revision]; known && before != now {
				t.Errorf("revision %s is %+v, and %+v", s.Revision, before, now)
			}
			contents[s.Revision] = now
			if s.IsLeader != (s.FencingToken > 0) || s.IsLeader != (s.ValidFor > 0) || s.IsLeader && s.Leader != "a_1" {
				t.Errorf("a reader is told %+v", s)
			}
		}
		var readers sync.WaitGroup
		for i := range 100 {
			readers.Go(func() { // half of them wait for news, half look every now and then
				for last := a.Status(); last.State != elector.Stopped; check(last) {
					var err error
					if i%2 == 0 {
						last, err = a.Wait(t.Context(), func(s elector.Status) bool { return s.Revision != last.Revision })
					} else {
						time.Sleep(time.Duration(i) * 10 * time.Millisecond)
						last, err = a.Status(), t.Context().Err()
					}
					if err != nil {
						return
					}
				}
			})
		}
		settle()
		for range 10 {
			edit(t, store, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }) // led again at once
			pass(time.Second)
			if err := store.Delete(namespace, leaseName); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			edit(t, store, func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("intruder"), new(int32(3))
			})
			pass(time.Second)
			edit(t, store, func(l *coordinationv1.Lease) { *l.Spec.LeaseTransitions++ }) // the term alone
			pass(4 * time.Second)
			a.api.Cut()
			pass(12 * time.Second)
			a.api.Heal()
			pass(3 * time.Second)
			if !a.leads() {
				t.Fatal("does not lead")
			}
		}
		a.stop()
		<-a.ended
		readers.Wait()

		const begins, ends, handsOver = `"msg"="leading"`, `"msg"="not leading any more"`, `"msg"="handing over"`
		lines := log.saying(begins, ends, handsOver)
		for i, line := range lines {
			if begun := strings.Contains(line, begins); begun != (i%2 == 0) {
				t.Fatalf("line %d of leadership is out of turn: %q", i, lines)
			}
		}
		if len(lines) != 2*41 || !strings.Contains(lines[len(lines)-1], handsOver) {
			t.Errorf("%d lines about 41 leaderships: %q", len(lines), lines)
		}
	})
}

// E5: who never led is not told that it lost.
func TestCaseE5StopBeforeEverLeading(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		held(t, store, "other_1", 15)
		b, log := startLogged(t, store, "b_1")
		news := b.news(t)
		settle()
		b.stop()
		<-b.ended
		if lines := log.saying("leading", "handing over"); len(lines) > 0 {
			t.Errorf("the log says %q", lines)
		}
		if told := turns(news(), false); len(told) > 0 {
			t.Errorf("those who wait were told %+v", told)
		}
	})
}

// G1: after one lost renewal it never contends again.
func TestCaseG1ContendsAgainAfterEachLoss(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		b := start(t, store, "b_1")
		both := []*candidate{a, b}
		leader, next := a, b
		token := uint64(0)
		for range 6 {
			pass(5 * time.Second)
			if s := leader.Status(); !s.IsLeader || s.FencingToken <= token {
				t.Fatalf("status %+v after token %d", s, token)
			}
			token = leader.Status().FencingToken
			leader.api.Cut()
			neverBoth(t, leaseDuration+crowd+time.Second, "the other leads", both, next.leads)
			leader.api.Heal()
			leader, next = next, leader
		}
		if err := errors.Join(a.Health(), b.Health()); err != nil {
			t.Error(err)
		}
	})
}

// G2: a panic in a background task ends the election but not the process. What runs beside the loop, here the observer,
// must take the process with it; TestPanicInTheLoopEndsLeadership is about the loop itself.
func TestCaseG2PanicInABackgroundTaskEndsTheProcess(t *testing.T) {
	const inChild = "ELECTOR_TEST_PANIC"
	if os.Getenv(inChild) == "" {
		for _, verb := range []string{"list", "watch", "create"} {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=20s")
			child.Env = append(os.Environ(), inChild+"="+verb)
			out, err := child.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "panic: broken "+verb) {
				t.Errorf("%s: the process ended with %v:\n%s", verb, err, out)
			}
		}
		return
	}
	api := electortest.NewStore().Leases(namespace)
	api.Intercept(func(_ context.Context, verb string, call func() error) error {
		if verb == os.Getenv(inChild) {
			panic("broken " + verb)
		}
		return call()
	})
	e, err := elector.New(elector.Config{Client: api, Namespace: namespace, Name: leaseName, Identity: "a_1",
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := e.Run(ctx); err != nil { // it is not to get here
		t.Log(err)
	}
}

// H2: an isolated node cannot report anything. The pod on it has to stop by itself, before another leads.
func TestCaseH2IsolatedLeaderStopsByItself(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1")
		settle()
		b := start(t, store, "b_1")
		both := []*candidate{a, b}
		lapse(t, 3*time.Second, both...)
		a.api.Cut()
		neverBoth(t, renewDeadline, "a does not lead", both, func() bool { return !a.leads() })
		alone := neverBoth(t, leaseDuration, "b leads", both, b.leads)
		if gap := leaseDuration - renewDeadline; alone < gap-2*time.Millisecond {
			t.Errorf("nobody led for %s, want at least %s", alone, gap)
		}
		lapse(t, time.Minute, both...)
		if s := a.Status(); s.IsLeader || s.Leader != "" {
			t.Errorf("the isolated pod says %+v", s)
		}
		a.api.Heal()
		lapse(t, time.Minute, both...)
		if named := a.Status().Leader; named != "b_1" {
			t.Errorf("back again it names %q", named)
		}
	})
}
