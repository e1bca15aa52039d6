// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

// once matches the first request that another rule matches.
func once(match proxy.Match) proxy.Match {
	matched := false // a proxy asks about one request at a time
	return func(r proxy.Request) bool {
		first := !matched && match(r)
		matched = matched || first
		return first
	}
}

// usurped lets a leader believe that it leads while the next one does already: somebody has emptied its Lease, and it does not
// hear of it. It is about to look after its sign again, and has sent the first request that matches, which is let through only
// when the next leader is shown.
func (s *scenario) usurped(m, n member, first proxy.Match, isShown func(member)) (began, next process.Leader) {
	s.Helper()
	direct := s.config
	network := s.proxied()
	deaf := network.Hold(func(r proxy.Request) bool { return r.Watch })
	s.Cleanup(func() { deaf.End() })
	web := s.start(m)
	began = web.Leads()
	isShown(m)
	s.config = direct
	other := s.start(n)
	other.Follows(web.Name)

	checking := network.Hold(first)
	checking.Came()
	mute := network.Hold(leaseWrites)
	s.Cleanup(func() { mute.End() })
	s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("") })
	next = other.Leads()
	isShown(n)
	if leader := web.Leader(); leader.FencingToken != began.FencingToken {
		s.Fatalf("it knows already: %+v", leader)
	}
	checking.End()
	web.AwaitGets("/healthz?verbose", 200, "a later leader is shown")
	return began, next
}

// unhurried is slow enough for a story between two renewals, and for a check within a few seconds.
var unhurried = timing{6 * time.Second, 5 * time.Second, 500 * time.Millisecond}

// A leader that does not know yet that it has been one finds the next leader shown, and changes nothing.
func TestLeaderThatDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	t.Run("Service", func(t *testing.T) {
		s := begin(t, unhurried)
		s.aService()
		history := s.sliceHistory()
		m, n := s.member(0), s.member(1)
		began, next := s.usurped(m, n, proxy.To(http.MethodGet, "/services/"), func(m member) { s.leadsTo(m) })
		s.story(history.untilNow(), chapter{m.address, began.FencingToken, next.FencingToken}, chapter{n.address, next.FencingToken, 0})
	})
	t.Run("label", func(t *testing.T) {
		s := labels(t, unhurried)
		pods := s.podHistory()
		m, n := s.createPod(0, nil), s.createPod(1, nil)
		s.usurped(m, n, proxy.To(http.MethodGet, "/pods/"+m.name), func(m member) { s.labelled(m, roleKey, "leader") })
		if order := leaders(s, pods.untilNow()); len(order) != 2 {
			t.Errorf("those labelled as the leader were %v", order)
		}
	})
}

// A leader is told to stop while the write that shows it is on its way: that is not waited for, and what arrives is void.
func TestStopWhileBeingShown(t *testing.T) {
	s := begin(t, calm)
	s.aService()
	leases, slices := s.leaseHistory(), s.sliceHistory()
	network := s.proxied()
	late := network.Hold(once(proxy.To(http.MethodPost, "/endpointslices")))
	web := s.start(s.member(0))
	leader := web.Leads()
	late.Came()
	web.Is(sigterm)
	web.Exits(0)
	released := rv(leases.await("a release", free))
	if codes := late.End(); codes[0] != http.StatusConflict {
		t.Errorf("the late write was answered %d", codes)
	}
	s.story(slices.untilNow(), chapter{"nobody", leader.FencingToken, released})
}

// lapsed starts a leader whose first write of that kind is held until it has lapsed and another has been stored, and returns
// the codes of the answers to the late one.
func (s *scenario) lapsed(m member, kind proxy.Match, log string) []int {
	s.Helper()
	network := s.proxied()
	late := network.Hold(once(kind))
	web := s.start(m)
	web.Leads()
	late.Came()
	failing := network.Refuse(http.StatusInternalServerError, leaseWrites)
	s.Cleanup(func() { failing.End() })
	web.Await("it does not lead", notLeading)
	web.Logs(log)
	return late.End()
}

// A leader lapses while the write that shows it is on its way, and nobody else leads: it sees to it that it comes to nothing,
// also where it was not shown before.
func TestLateWriteOfALapsedLeader(t *testing.T) {
	t.Parallel()
	writes := func(r proxy.Request) bool {
		return r.Method != http.MethodGet && proxy.To("", "/endpointslices")(r)
	}
	for _, there := range []bool{true, false} {
		t.Run(map[bool]string{true: "update", false: "creation"}[there], func(t *testing.T) {
			s := begin(t, brisk)
			service := s.aService()
			if there {
				s.createSlice(&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: ours(service)})
			}
			if codes := s.lapsed(s.member(0), writes, "does not lead to this pod any more"); codes[0] != http.StatusConflict {
				t.Errorf("the late write was answered %d", codes)
			}
			if slice := s.slice(); slice == nil || shown(slice) != "nobody" {
				t.Errorf("the Service leads to %s", shown(slice))
			}
		})
	}
	t.Run("label", func(t *testing.T) {
		s := labels(t, brisk)
		m := s.createPod(0, func(pod *corev1.Pod) {
			pod.Labels[roleKey] = "follower"
			pod.Annotations = map[string]string{traffic.LeaseAnnotation: cluster.Namespace + "/" + s.lease.Name}
		})
		if codes := s.lapsed(m, podWrites, `"label":"`+roleKey+`=follower"`); codes[0] != http.StatusConflict {
			t.Errorf("the late patch was answered %d", codes)
		}
		s.labelled(m, roleKey, "follower")
	})
	t.Run("condition", func(t *testing.T) {
		s := begin(t, brisk)
		s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
		m := s.gated(0)
		s.kubelet(m, func(status *corev1.PodStatus) {
			status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionFalse, Reason: "NotLeading",
				Message: "does not hold the Lease " + cluster.Namespace + "/" + s.lease.Name}}
		})
		if codes := s.lapsed(m, podWrites, `"status":"False"`); codes[0] != http.StatusConflict {
			t.Errorf("the late patch was answered %d", codes)
		}
		s.conditioned(m, gate, corev1.ConditionFalse)
	})
}

// The connections die silently, and nobody says so: what is tampered with is mended over new ones.
func TestDeadConnection(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	network := proxy.Start(s, plane.Address())
	s.config = cluster.Via(s.config, network.Address)
	s.start(s.member(0)).Leads()
	s.leadsTo(s.member(0))
	network.Deaden()
	s.deleteSlice()
	s.leadsTo(s.member(0))
}
