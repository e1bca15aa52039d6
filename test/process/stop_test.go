// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const (
	sigterm = syscall.SIGTERM
	sigkill = syscall.SIGKILL
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// blockedRequests are as many requests as ELECTOR_MAX_WAITERS allows.
type blockedRequests struct {
	scenario *scenario
	replies  []<-chan sidecar.Reply
}

// block asks for the paths, each of which blocks, and returns once all do: then there is no place for another. The
// sidecar must have been started with ELECTOR_MAX_WAITERS at their number.
func (s *scenario) block(web *sidecar.Sidecar, paths ...string) blockedRequests {
	s.Helper()
	b := blockedRequests{scenario: s}
	for _, path := range paths {
		reply := make(chan sidecar.Reply, 1)
		go func() { reply <- persist(s.Context(), web, path) }()
		b.replies = append(b.replies, reply)
	}
	web.AwaitGets("/leader?wait=1ms", 503, "ELECTOR_MAX_WAITERS")
	return b
}

// persist asks again where there was no place: the probe of block takes one for a moment.
func persist(ctx context.Context, web *sidecar.Sidecar, path string) sidecar.Reply {
	for {
		reply := web.Do(ctx, http.MethodGet, path)
		if reply.Err != nil || reply.Header.Get("Retry-After") == "" {
			return reply
		}
	}
}

// answered collects the answers, in the order of the paths.
func (b blockedRequests) answered() []sidecar.Reply {
	b.scenario.Helper()
	var answers []sidecar.Reply
	deadline := time.After(soon)
	for i, reply := range b.replies {
		select {
		case answer := <-reply:
			answers = append(answers, answer)
		case <-deadline:
			b.scenario.Fatalf("blocked request %d was not answered within %s", i, soon)
		}
	}
	return answers
}

func TestStopOfTheLeader(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "ELECTOR_MAX_WAITERS=3")
	leader := web.Leads()
	before := s.lease.Get()
	next := s.start("web-1")
	next.Follows("web-0")
	blocked := s.block(web, "/leader?wait=5m&revision="+leader.Revision, "/leader?wait=5m", "/wait?for=not-leading&timeout=5m")

	stopped := web.Is(sigterm)
	for i, reply := range blocked.answered() {
		if now, err := reply.Leader(); err != nil || now.IsLeader || now.Revision == leader.Revision {
			t.Errorf("blocked request %d was answered %+v, %v", i, reply, err)
		}
	}
	web.Exits(0)
	s.within(soon, time.Since(stopped), "stopping")
	took := next.Leads()
	s.within(soon, time.Since(stopped), "the handover")
	if took.Term != leader.Term+1 || took.FencingToken <= leader.FencingToken {
		t.Errorf("web-0 led as %+v, and then web-1 as %+v", leader, took)
	}
	if after := s.lease.Get(); after.UID != before.UID {
		t.Errorf("the Lease was replaced")
	}
}

func TestReleaseIsWritten(t *testing.T) {
	s := begin(t, calm)
	s.lease.HeldBy("web-9", time.Second)
	web := s.start("web-0")
	web.Leads()
	before := s.lease.Get()
	stopped := web.Is(sigterm)
	web.Exits(0)
	after := s.lease.Get()
	if cluster.Holder(after) != "" || *after.Spec.LeaseDurationSeconds != 1 || *after.Spec.LeaseTransitions != *before.Spec.LeaseTransitions || *before.Spec.LeaseTransitions != 1 {
		t.Errorf("the released Lease is %v", after.Spec)
	}
	s.after(stopped, acquired(after), "the Lease of the release says")
	s.after(stopped, renewed(after), "the Lease of the release says")
}

// However many requests are blocked, and whatever the clients do, the stop is fast.
func TestStopWithManyBlockedRequests(t *testing.T) {
	s := begin(t, calm)
	const many = 50
	web := s.start("web-0", fmt.Sprint("ELECTOR_MAX_WAITERS=", many))
	web.Leads()
	var paths []string
	for range many {
		paths = append(paths, "/leader?wait=5m")
	}
	blocked := s.block(web, paths...)
	stopped := web.Is(sigterm)
	for i, reply := range blocked.answered() {
		if now, err := reply.Leader(); err != nil || now.IsLeader {
			t.Errorf("blocked request %d was answered %+v, %v", i, reply, err)
		}
	}
	web.Exits(0)
	s.within(soon, time.Since(stopped), "stopping")
}

func TestStopOfAFollower(t *testing.T) {
	s := begin(t, calm)
	written := s.lease.HeldBy("web-9", time.Minute)
	web := s.start("web-0", "ELECTOR_MAX_WAITERS=2")
	leader := web.Follows("web-9")
	blocked := s.block(web, "/wait?for=leading&timeout=5m", "/leader?wait=5m&revision="+leader.Revision)

	stopped := web.Is(sigterm)
	answers := blocked.answered()
	if answers[0].Code != 503 || !strings.Contains(answers[0].Body, "stopping") {
		t.Errorf("who waits to lead is answered %+v", answers[0])
	}
	if now, err := answers[1].Leader(); err != nil || now.IsLeader || now.State != "stopped" {
		t.Errorf("who waits for news is answered %+v, %v", answers[1], err)
	}
	web.Exits(0)
	s.within(soon, time.Since(stopped), "stopping")
	if lease := s.lease.Get(); lease.ResourceVersion != written.ResourceVersion {
		t.Errorf("the follower's stop changed the Lease: %v", lease)
	}
}

func TestStopBeforeTheLeaseWasRead(t *testing.T) {
	t.Parallel()
	for name, unreachable := range outages {
		t.Run(name, func(t *testing.T) {
			s := begin(t, calm)
			unreachable(s.proxied())
			web := s.start("web-0").Listens()
			stopped := web.Is(sigterm)
			web.Exits(0)
			s.within(soon, time.Since(stopped), "stopping")
			if s.lease.Exists() {
				t.Error("there is a Lease")
			}
		})
	}
}

func TestInterruptIsAStopToo(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	web.Is(syscall.SIGINT)
	web.Exits(0)
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("the Lease is %v", lease.Spec)
	}
}

// The stored renewal whose answer is held up makes the version that the release was decided on an old one.
func TestReleaseWithARenewalOnTheWire(t *testing.T) {
	s := begin(t, steady)
	network := s.proxied()
	web := s.start("web-0")
	web.Leads()
	network.HoldReplies()
	s.lease.Await("was renewed", renewedAfter(s.lease.Get()))
	web.Is(sigterm)
	web.Await("it does not lead", notLeading)
	network.Heal()
	web.Exits(0)
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("the dead pod keeps the lease: %v", lease.Spec)
	}
}

// The candidate is told to stop while the write that makes it the leader is under way.
func TestStopWithAnAcquisitionOnTheWire(t *testing.T) {
	s := begin(t, steady)
	network := s.proxied()
	s.lease.HeldBy("web-9", time.Minute)
	web := s.start("web-0")
	web.Follows("web-9")
	s.lease.Change(func(lease *leaseObject) { lease.Spec.HolderIdentity = new("web-8") })
	web.Follows("web-8") // it watches
	network.HoldRequests()
	observed := web.Observe(5 * time.Millisecond)
	s.lease.Change(release)
	web.Logs("taking the lease")
	web.Is(sigterm)
	web.Logs("told to stop")
	network.Heal()
	web.Exits(0)
	for _, answer := range observed() {
		if answer.IsLeader {
			t.Errorf("it led: %+v", answer.Leader)
		}
	}
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("the dead pod owns the lease: %v", lease.Spec)
	}
}

// The release is worth waiting for; meanwhile nobody is told that this pod leads.
func TestSlowRelease(t *testing.T) {
	s := begin(t, calm)
	network := s.proxied()
	web := s.start("web-0")
	web.Leads()
	network.Delay(400 * time.Millisecond)
	observed := web.Observe(10 * time.Millisecond)
	stopped := web.Is(sigterm)
	web.Exits(0)
	for _, answer := range observed() {
		if answer.IsLeader && answer.Sent.After(stopped.Add(soon/10)) {
			t.Errorf("it still leads %s after the signal", answer.Sent.Sub(stopped))
		}
	}
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("the dead pod keeps the lease: %v", lease.Spec)
	}
}

// blockAndLeave blocks as many requests, and returns a function that drops their connections.
func (s *scenario) blockAndLeave(web *sidecar.Sidecar, number int, path string) (leave func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	var clients sync.WaitGroup
	for range number {
		clients.Go(func() { persist(ctx, web, path) })
	}
	web.AwaitGets("/leader?wait=1ms", 503, "ELECTOR_MAX_WAITERS")
	return func() {
		cancel()
		clients.Wait()
	}
}
