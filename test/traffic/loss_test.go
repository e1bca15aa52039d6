// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/http"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

var (
	anything    = proxy.To("", "")
	leaseWrites = func(r proxy.Request) bool { return proxy.To("", "/leases")(r) && r.Method != http.MethodGet }
)

func notLeading(l process.Leader) bool { return !l.IsLeader }

// A leader that is killed is led to until the next one leads.
func TestServiceOnDeath(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	slices := s.sliceHistory()
	web := s.start(s.member(0))
	first := web.Leads()
	s.leadsTo(s.member(0))
	next := s.start(s.member(1))
	next.Follows(web.Name)
	web.Is(sigkill)
	second := next.Leads()
	led := time.Now()
	s.leadsTo(s.member(1))
	s.within(soon, time.Since(led), "the Service's move")
	s.story(slices.untilNow(),
		chapter{s.member(0).address, first.FencingToken, second.FencingToken},
		chapter{s.member(1).address, second.FencingToken, 0})
}

// A leader that cannot renew, but can write the rest, takes itself out at its deadline, and comes back with its next term.
func TestServiceOnLapse(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	network := s.proxied()
	slices := s.sliceHistory()
	web := s.start(s.member(0))
	first := web.Leads()
	s.leadsTo(s.member(0))
	failing := network.Refuse(http.StatusInternalServerError, leaseWrites)
	web.Await("it does not lead", notLeading)
	s.leadsToNobody()
	failing.End()
	second := web.Leads()
	s.leadsTo(s.member(0))
	s.story(slices.untilNow(),
		chapter{s.member(0).address, first.FencingToken, second.FencingToken},
		chapter{"nobody", first.FencingToken, second.FencingToken},
		chapter{s.member(0).address, second.FencingToken, 0})
}

// The same where it cannot write the rest for a while either: it takes itself out when it can.
func TestServiceOnLapseInAnOutage(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	network := s.proxied()
	web := s.start(s.member(0))
	web.Leads()
	s.leadsTo(s.member(0))
	leases := network.Refuse(http.StatusInternalServerError, leaseWrites)
	defer leases.End()
	rest := network.Refuse(http.StatusInternalServerError, proxy.To("", "/endpointslices"))
	web.Await("it does not lead", notLeading)
	web.AwaitGets("/healthz?verbose", 200, "[-]service/"+s.service)
	rest.End()
	s.leadsToNobody()
	web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
}

// A leader that was frozen finds that another has been shown, and changes nothing.
func TestFrozenLeaderChangesNothing(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	slices := s.sliceHistory()
	a, b := s.member(0), s.member(1)
	web := s.start(a)
	web.Leads()
	next := s.start(b)
	next.Follows(web.Name)
	for range 3 {
		s.leadsTo(a)
		web.Is(sigstop)
		next.Leads()
		slice := s.leadsTo(b)
		web.Is(sigcont)
		web.Follows(next.Name)
		s.pass(brisk.retry * 2) // for it to do what it wants to
		if last := slices.untilNow(); rv(last[len(last)-1]) != rv(slice) {
			t.Errorf("after %s it was changed: %s", shown(slice), shown(last[len(last)-1]))
		}
		a, b, web, next = b, a, next, web
	}
}

// A write of the leader is on its way while it loses the lease, and arrives when the next leader is shown.
func TestLateWriteOfAFormerLeader(t *testing.T) {
	t.Parallel()
	for _, created := range []bool{true, false} {
		t.Run(map[bool]string{true: "update", false: "creation"}[created], func(t *testing.T) {
			s := begin(t, brisk)
			service := s.aService()
			if created {
				s.createSlice(&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
					ObjectMeta: ours(service)})
			}
			direct := s.config
			network := s.proxied()
			late := network.Hold(func(r proxy.Request) bool {
				return proxy.To("", "/endpointslices")(r) && r.Method != http.MethodGet
			})
			web := s.start(s.member(0))
			web.Leads()
			late.Came()
			cut := network.Hold(anything)
			defer cut.End()
			s.config = direct
			slices := s.sliceHistory()
			next := s.start(s.member(1))
			next.Leads()
			s.leadsTo(s.member(1))
			codes := late.End()
			if len(codes) == 0 || codes[0] != http.StatusConflict {
				t.Errorf("the late write was answered %d", codes)
			}
			for _, slice := range slices.untilNow() {
				if shown(slice) == s.member(0).address {
					t.Errorf("as of %d it leads to the former leader", rv(slice))
				}
			}
		})
	}
}
