// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// terminating is a stage of two pods of which only the leader is ready, with a Service of ready pods and one that follows the
// leader, and a client of each.
type terminating struct {
	*stage.Stage
	ready, path           *stage.Path
	byReadiness, byLeader *stage.Client
	old                   journal.Reign
	successor             stage.Member
}

func newTerminating(t *testing.T, by gate, shape stage.Shape, app stage.App) *terminating {
	setup := gatedSetup(by, stage.StatefulSet("web", 2, app), stage.Service("web", map[string]string{"app": "web"}), stage.Service("web-leader", nil))
	setup.Shape, setup.Sidecar = shape, map[string]string{"ELECTOR_APP_HEALTH": "http://127.0.0.1:8080/healthz", "ELECTOR_APP_HEALTH_PERIOD": "1s"}
	setup.Components, setup.Names["serviceName"] = append(setup.Components, "leader-service"), "web-leader"
	s := &terminating{Stage: stage.New(t, setup)}
	s.ready, s.path = s.WatchEndpoints("web"), s.WatchEndpoints("web-leader")
	s.successor = only(t, settled(s.Stage, 2), func(m stage.Member) bool { return !m.Leads })
	s.old = s.AtWork()
	s.byReadiness, s.byLeader = s.NewClient(s.URL("web")), s.NewClient(s.URL("web-leader"))
	s.byReadiness.Reached(s.old.First.Token)
	s.byLeader.Reached(s.old.First.Token)
	return s
}

// deleteLeader makes the successor a slow one, which stays out of the election until it is well, and deletes the leader's pod.
func (s *terminating) deleteLeader() {
	s.T.Helper()
	s.Post(s.successor.Name, "sick", nil)
	s.Await("the successor stays out of the election", func() bool {
		var sidecar struct{ Reason string }
		return s.Ask(s.successor.Name, "leader", &sidecar) == nil && sidecar.Reason != ""
	})
	s.Delete(s.old.First.Pod)
}

// released waits until the lease is free.
func (s *terminating) released() {
	s.T.Helper()
	s.Await("the lease is released", func() bool {
		records := s.Records()
		return records[len(records)-1].Holder() == ""
	})
}

// endpoint is the old leader's in the Service of ready pods, and whether it is there.
func (s *terminating) endpoint() (stage.Endpoint, bool) {
	list := s.ready.Now()
	i := slices.IndexFunc(list, func(e stage.Endpoint) bool { return e.Pod == s.old.First.Pod })
	if i < 0 {
		return stage.Endpoint{}, false
	}
	return list[i], true
}

// succeed lets the successor lead, waits until clients reach it, and judges what they have seen.
func (s *terminating) succeed() (byReadiness, byLeader journal.Requests) {
	s.T.Helper()
	s.Post(s.successor.Name, "well", nil)
	next := s.AtWork()
	s.byReadiness.Reached(next.First.Token)
	s.byLeader.Reached(next.First.Token)
	follows(s.Stage, s.path)
	return judge(s.Stage, "readiness", s.byReadiness), judge(s.Stage, "ELECTOR_SERVICE", s.byLeader)
}

// refusedBy is the requests that a pod has refused since it does not lead.
func refusedBy(pod string, requests journal.Requests) (n int) {
	for _, r := range requests {
		if r.Pod == pod && r.Outcome == journal.Unavailable {
			n++
		}
	}
	return n
}

// TestCaseH4ExLeaderLingers: the deleted leader gives the lease up, and its app stays for the whole grace. No pod is ready, and
// kube-proxy then leads to pods that terminate and still serve: the app refuses by itself. A failing readinessProbe ends that; a
// readiness gate does not, since the kubelet does not look at it any more. A Service that follows the leader leads to nobody.
func TestCaseH4ExLeaderLingers(t *testing.T) {
	t.Parallel()
	for _, by := range []gate{byProbe, byGate} {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, "H4: deleted leader lingers, successor is slow, ready by "+string(by), stage.Ordinary, stage.Default)
			s := newTerminating(t, by, stage.Ordinary, stage.App{Env: map[string]string{"APP_IGNORE_SIGTERM": "1"}, Grace: 30 * time.Second})
			s.deleteLeader()
			s.released()
			fallback := stage.Endpoint{Pod: s.old.First.Pod, Serving: true, Terminating: true}
			s.Await("the Service of ready pods has the ex-leader as one that terminates and serves", func() bool {
				is, _ := s.endpoint()
				return is == fallback
			})
			s.Await("the Service that follows the leader leads to nobody", func() bool {
				requests := s.byLeader.Requests()
				last := requests[len(requests)-1]
				return last.Pod == "" && last.Outcome != journal.OK
			})
			from := len(s.byLeader.Requests())
			if by == byProbe {
				s.Await("the failing probe takes the ex-leader out", func() bool {
					is, _ := s.endpoint()
					return !is.Serving && is.Terminating
				})
			} else {
				lasts(s.Stage, func() string {
					is, _ := s.endpoint()
					return is.String()
				})
				s.lowered()
			}
			byReadiness, byLeader := s.succeed()
			a, b := refusedBy(s.old.First.Pod, byReadiness), refusedBy(s.old.First.Pod, byLeader)
			if a <= b {
				t.Errorf("%d requests have reached the ex-leader by its readiness, %d by ELECTOR_SERVICE: want more by readiness", a, b)
			}
			if n := refusedBy(s.old.First.Pod, byLeader[from:]); n > 0 {
				t.Errorf("%d requests have reached the ex-leader by a Service that leads to nobody", n)
			}
			row.Note(fmt.Sprintf("the ex-leader gets, and refuses, %d requests by its readiness, %d by ELECTOR_SERVICE", a, b))
		})
	}
}

// lowered requires that the old leader's condition is false, although the kubelet still says that the pod is ready.
func (s *terminating) lowered() {
	s.T.Helper()
	conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range s.Pod(s.old.First.Pod).Status.Conditions {
		conditions[c.Type] = c.Status
	}
	if conditions[leads] != corev1.ConditionFalse || conditions[corev1.PodReady] != corev1.ConditionTrue {
		s.T.Errorf("the ex-leader's conditions are %v", conditions)
	}
}

// TestCaseH4LeaderDrains: a native sidecar leads until its app has ended, and kube-proxy's fallback to pods that terminate is what
// keeps the requests coming.
func TestCaseH4LeaderDrains(t *testing.T) {
	t.Parallel()
	row := stage.NewRow(t, "H4: deleted leader works on for "+drain.String()+", ready by "+string(byGate), stage.Native, stage.Default)
	s := newTerminating(t, byGate, stage.Native, stage.App{Env: map[string]string{"APP_DRAIN": drain.String()}})
	s.deleteLeader()
	s.released()
	byReadiness, byLeader := s.succeed()
	drains := s.drains()
	served := func(requests journal.Requests) (n int) {
		for _, r := range requests {
			if r.Token == s.old.First.Token && r.Outcome == journal.OK && r.Sent > drains {
				n++
			}
		}
		return n
	}
	a, b := served(byReadiness), served(byLeader)
	if a == 0 || b == 0 {
		t.Errorf("the leader that drains has answered %d requests by its readiness, %d by ELECTOR_SERVICE", a, b)
	}
	row.Note(fmt.Sprintf("as it drains the leader answers %d requests by its readiness, %d by ELECTOR_SERVICE", a, b))
}

// drains is when the old leader's first write of its drain arrived.
func (s *terminating) drains() time.Duration {
	s.T.Helper()
	for _, e := range s.Journal().Entries {
		if e.Draining && s.old.Same(e) {
			return e.Arrived
		}
	}
	s.T.Fatal("the old leader has written nothing while it drained")
	return 0
}
