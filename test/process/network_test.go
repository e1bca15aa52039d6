// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

// outages are the ways in which an API server is out of reach.
var outages = map[string]func(*proxy.Proxy){
	"refused":    (*proxy.Proxy).Cut,
	"black hole": (*proxy.Proxy).BlackHole,
	"mute":       (*proxy.Proxy).HoldReplies,
}

// The leader is cut off, time and again: it leads until its renew deadline and not a moment longer, lives on in good
// health, and leads again when the API server is back.
func TestLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range outages {
		t.Run(name, func(t *testing.T) {
			s := begin(t, brisk)
			network := s.proxied()
			web := s.start("web-0")
			leader := web.Leads()
			for range 2 {
				observed := web.Observe(5 * time.Millisecond)
				cut(network)
				web.Await("it does not lead", notLeading)
				// Of what the leader wrote, this is the last that it can know of.
				deadline := renewed(s.lease.Get()).Add(brisk.deadline + time.Millisecond)
				s.pass(brisk.duration)
				web.Gets("/healthz", 200)
				for _, answer := range observed() {
					if answer.IsLeader && answer.Sent.After(deadline) {
						t.Errorf("%s after its deadline it says that it leads", answer.Sent.Sub(deadline))
					}
				}
				network.Heal()
				healed := time.Now()
				again := web.Leads()
				s.within(soon, time.Since(healed), "leading again")
				if again.FencingToken <= leader.FencingToken {
					t.Errorf("it led as %+v, and again as %+v", leader, again)
				}
				leader = again
			}
		})
	}
}

// Who is cut off does not get in the way of others: the next leader is elected, and followed afterwards.
func TestAnotherLeadsWhileTheLeaderIsCutOff(t *testing.T) {
	s := begin(t, brisk)
	direct := s.config
	network := s.proxied()
	web := s.start("web-0")
	web.Leads()
	s.config = direct
	next := s.start("web-1")
	next.Follows("web-0")
	network.BlackHole()
	next.Leads()
	if leader := web.Leader(); leader.IsLeader {
		t.Errorf("both lead: %+v", leader)
	}
	network.Heal()
	web.Follows("web-1")
	next.Gets("/is-leader", 200)
}

// A follower that is cut off names nobody once it cannot know.
func TestFollowerIsCutOff(t *testing.T) {
	s := begin(t, brisk)
	s.lease.HeldBy("web-9", brisk.duration)
	network := s.proxied()
	web := s.start("web-0")
	web.Follows("web-9")
	network.Cut()
	if leader := web.Follows(""); leader.Identity != "" {
		t.Errorf("it names %+v", leader)
	}
	web.Gets("/healthz", 200)
	network.Heal()
	web.Leads()
}

// The open connections die silently, and nobody says so. New ones work: the leader has to use them in time.
func TestDeadConnectionOfTheLeader(t *testing.T) {
	s := begin(t, steady)
	network := s.proxied()
	web := s.start("web-0")
	leader := web.Leads()
	observed := web.Observe(10 * time.Millisecond)
	network.Deaden()
	s.lease.Await("was renewed", renewedAfter(s.lease.Await("was renewed", renewedAfter(s.lease.Get()))))
	for _, answer := range observed() {
		if !answer.IsLeader || answer.FencingToken != leader.FencingToken || answer.Term != leader.Term {
			t.Errorf("it led as %+v, and then says %+v", leader, answer.Leader)
		}
	}
}

// The same for a follower: its watch is deaf, and the lease is released meanwhile.
func TestDeadConnectionOfAFollower(t *testing.T) {
	s := begin(t, brisk)
	s.lease.HeldBy("web-9", 6*time.Second)
	network := s.proxied()
	web := s.start("web-0")
	web.Follows("web-9")
	network.Deaden()
	s.lease.Change(release)
	web.Leads()
	if lease := s.lease.Get(); podOf(cluster.Holder(lease)) != "web-0" {
		t.Errorf("the Lease is %v", lease.Spec)
	}
}

func TestAPIServerIsOutOfReachAtTheStart(t *testing.T) {
	t.Parallel()
	for name, cut := range outages {
		t.Run(name, func(t *testing.T) {
			s := begin(t, brisk)
			network := s.proxied()
			cut(network)
			web := s.start("web-0").Listens()
			s.pass(brisk.duration)
			leader := web.Leader()
			if leader.IsLeader || leader.Name != "" || leader.State != "starting" {
				t.Errorf("without having seen the Lease it says %+v", leader)
			}
			web.Gets("/healthz", 200)
			web.Gets("/is-leader", 503)
			web.Gets("/readyz", 503)
			if reply := web.Gets("/", 200); reply.Body != `{"name":""}` {
				t.Errorf("/ answers %s", reply.Body)
			}
			network.Heal()
			web.Leads()
			web.Gets("/readyz", 200)
		})
	}
}

// An API server that is slow, but fast enough, costs nobody the lease.
func TestSlowAPIServer(t *testing.T) {
	s := begin(t, steady)
	network := s.proxied()
	web := s.start("web-0")
	leader := web.Leads()
	network.Delay(300 * time.Millisecond)
	for range 3 {
		s.lease.Await("was renewed", renewedAfter(s.lease.Get()))
	}
	if now := web.Leader(); !now.IsLeader || now.FencingToken != leader.FencingToken {
		t.Errorf("it led as %+v, and now says %+v", leader, now)
	}
}
