// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// The requests by which the signs are changed.
var (
	sliceWrites = proxy.To(http.MethodPut, "/endpointslices/")
	podWrites   = proxy.To(http.MethodPatch, "/pods/")
)

func free(lease *coordinationv1.Lease) bool { return cluster.Holder(lease) == "" }

// app is a health check that can be told to fail.
type app struct {
	env []string // of a sidecar that looks after it
	ill atomic.Bool
}

// app starts a healthy app.
func (s *scenario) healthyApp() *app {
	s.Helper()
	a := &app{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if a.ill.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s.Cleanup(server.Close)
	a.env = []string{"ELECTOR_APP_HEALTH=" + server.URL, "ELECTOR_APP_HEALTH_PERIOD=500ms", "ELECTOR_APP_HEALTH_TIMEOUT=500ms",
		"ELECTOR_APP_HEALTH_FAILURES=1"}
	return a
}

// partings are the ways in which a leader gives the lease up in order: what its sidecar needs for that, and what makes it
// do so.
var partings = map[string]func(*scenario) (env []string, part func(*sidecar.Sidecar)){
	"SIGTERM": func(*scenario) ([]string, func(*sidecar.Sidecar)) {
		return nil, func(web *sidecar.Sidecar) { web.Is(sigterm) }
	},
	"resign": func(*scenario) ([]string, func(*sidecar.Sidecar)) {
		return nil, func(web *sidecar.Sidecar) { web.Post("/resign", http.StatusAccepted) }
	},
	"ill app": func(s *scenario) ([]string, func(*sidecar.Sidecar)) {
		a := s.healthyApp()
		return a.env, func(*sidecar.Sidecar) { a.ill.Store(true) }
	},
}

// window is a time in which a lease could be released, far below the second that a release waits for a sign.
const window = 100 * time.Millisecond

// The leader takes itself out of the Service before it releases the lease, however it comes to that, and the next leader
// comes in at once: nothing here waits for a retry or a renewal.
func TestServiceOnHandover(t *testing.T) {
	t.Parallel()
	for how, parting := range partings {
		for _, timeout := range []string{"0s", "60s"} {
			t.Run(how+", "+timeout, func(t *testing.T) {
				s := begin(t, calm)
				s.aService()
				direct := s.config
				network := s.proxied()
				slices, leases := s.sliceHistory(), s.leaseHistory()
				env, part := parting(s)
				web := s.start(s.member(0), append(env, "ELECTOR_HANDOVER_TIMEOUT="+timeout)...)
				first := web.Leads()
				s.leadsTo(s.member(0))
				s.config = direct
				next := s.start(s.member(1))
				next.Follows(web.Name)

				emptying := network.Hold(sliceWrites)
				part(web)
				emptying.Came()
				s.pass(window)
				if lease := s.lease.Get(); cluster.Holder(lease) != s.member(0).identity() {
					t.Error("the lease is released while the Service still leads to its holder")
				}
				if codes := emptying.End(); len(codes) != 1 || codes[0] != http.StatusOK {
					t.Errorf("the write that empties the EndpointSlice was answered %d", codes)
				}
				if timeout != "0s" {
					s.leadsToNobody() // and the app may take its time
					s.pass(window)
					if lease := s.lease.Get(); cluster.Holder(lease) != s.member(0).identity() {
						t.Errorf("during the handover the Lease is %v", lease.Spec)
					}
					web.Post("/release", http.StatusAccepted)
				}
				began := time.Now()
				second := next.Leads()
				s.leadsTo(s.member(1))
				s.within(soon, time.Since(began), "the Service's move")

				released := leases.await("a release", free)
				s.story(slices.untilNow(),
					chapter{s.member(0).address, first.FencingToken, rv(released)},
					chapter{"nobody", first.FencingToken, rv(released)},
					chapter{s.member(1).address, second.FencingToken, 0})
			})
		}
	}
}

// chapter is a version of the EndpointSlice: to whom it leads, and between which two resourceVersions it was stored; 0 is
// any.
type chapter struct {
	to            string
	after, before uint64
}

// story checks that the versions are these, and no others.
func (s *scenario) story(versions []*discoveryv1.EndpointSlice, chapters ...chapter) {
	s.Helper()
	if len(versions) != len(chapters) {
		s.Errorf("the EndpointSlice has had %d versions, not %d", len(versions), len(chapters))
	}
	for i, slice := range versions {
		if i >= len(chapters) {
			s.Errorf("version %d leads to %s, as of %d", i, shown(slice), rv(slice))
			continue
		}
		if c := chapters[i]; shown(slice) != c.to || rv(slice) <= c.after || c.before != 0 && rv(slice) >= c.before {
			s.Errorf("version %d leads to %s, as of %d; want %s, between %d and %d", i, shown(slice), rv(slice), c.to, c.after, c.before)
		}
	}
}

// The API server fails for a moment just then: the release waits for the write that succeeds.
func TestServiceOnHandoverInAnOutage(t *testing.T) {
	s := begin(t, calm)
	s.aService()
	leases, slices := s.leaseHistory(), s.sliceHistory()
	network := s.proxied()
	web := s.start(s.member(0))
	leader := web.Leads()
	s.leadsTo(s.member(0))
	failing := network.Refuse(http.StatusServiceUnavailable, proxy.To("", "/endpointslices/"))
	web.Is(sigterm)
	failing.Came()
	failing.End()
	web.Exits(0)
	released := rv(leases.await("a release", free))
	s.story(slices.untilNow(),
		chapter{s.member(0).address, leader.FencingToken, released},
		chapter{"nobody", leader.FencingToken, released})
}

// Who has resigned is led to again once it leads again.
func TestServiceAfterAResignation(t *testing.T) {
	s := begin(t, calm)
	s.aService()
	web := s.start(s.member(0))
	web.Leads()
	s.leadsTo(s.member(0))
	history := s.sliceHistory()
	web.Post("/resign?cooldown=100ms", http.StatusAccepted)
	history.await("the Service to lead to nobody", func(slice *discoveryv1.EndpointSlice) bool { return shown(slice) == "nobody" })
	again := web.Await("it leads again", func(l process.Leader) bool { return l.IsLeader })
	slice := s.leadsTo(s.member(0))
	if rv(slice) <= again.FencingToken {
		t.Errorf("the EndpointSlice is as of %d, before the term %+v", rv(slice), again)
	}
}

// ownTime is how long a write may hang by itself.
const ownTime = 3 * time.Second

// The lease is not kept for longer than it may be by a write that hangs: for a second, or half a renew deadline.
func TestStuckWriteDoesNotHoldBackTheRelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timing timing
		least  time.Duration
	}{
		"a second":              {calm, time.Second},
		"half a renew deadline": {brisk, brisk.deadline / 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, test.timing)
			s.aService()
			direct := s.config
			network := s.proxied()
			web := s.start(s.member(0))
			web.Leads()
			s.leadsTo(s.member(0))
			s.config = direct
			next := s.start(s.member(1))
			next.Follows(web.Name)
			stuck := network.Hold(sliceWrites)
			told := web.Is(sigterm)
			lease := s.lease.Await("is held by another, or by nobody", func(lease *coordinationv1.Lease) bool {
				return cluster.Holder(lease) != s.member(0).identity()
			})
			took := lease.Spec.AcquireTime.Sub(told)
			s.within(ownTime, took, "the release")
			if took < test.least {
				t.Errorf("the release took %s: nothing waited for the EndpointSlice", took)
			}
			web.Exits(0)
			lines := web.LogLines()
			s.within(ownTime, lines[len(lines)-1].Time.Sub(told), "the stop") // which a race detector's end comes after
			next.Leads()
			s.leadsTo(s.member(1))
			for _, code := range stuck.End() {
				if code != http.StatusConflict {
					t.Errorf("the late write was answered %d", code)
				}
			}
			if slice := s.slice(); shown(slice) != s.member(1).address {
				t.Errorf("after the late write the Service leads to %s", shown(slice))
			}
		})
	}
}
