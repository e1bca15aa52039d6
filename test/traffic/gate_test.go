// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// gate is the type of the condition.
const gate = "example.com/leads"

// conditionOf is a condition of a pod; of no status where there is none.
func conditionOf(pod *corev1.Pod, kind string) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if string(c.Type) == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// conditioned waits until a condition of a pod has a status.
func (s *scenario) conditioned(m member, kind string, status corev1.ConditionStatus) corev1.PodCondition {
	s.Helper()
	var c corev1.PodCondition
	s.await(fmt.Sprintf("the condition of %s to be %s", m.name, status), func() error {
		if c = conditionOf(s.pod(m), kind); c.Status != status {
			return fmt.Errorf("it is %v", c)
		}
		return nil
	})
	return c
}

// gated creates the pod number n with the gate.
func (s *scenario) gated(n int) member {
	s.Helper()
	return s.createPod(n, func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	})
}

// The condition is false on a follower and true on the leader, and false again before the release. Other conditions stay.
func TestReadinessGate(t *testing.T) {
	t.Parallel()
	for how, parting := range partings {
		t.Run(how, func(t *testing.T) {
			s := begin(t, calm)
			s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
			direct := s.config
			network := s.proxied()
			env, part := parting(s)
			m, n := s.gated(0), s.gated(1)
			scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, Reason: "Somehow",
				LastProbeTime: metav1.NewTime(time.Unix(1, 0)), LastTransitionTime: metav1.NewTime(time.Unix(2, 0))}
			s.kubelet(m, func(status *corev1.PodStatus) { status.Conditions = []corev1.PodCondition{scheduled} })
			pods, leases := s.podHistory(), s.leaseHistory()
			web := s.start(m, env...)
			first := web.Leads()
			is := s.conditioned(m, gate, corev1.ConditionTrue)
			lease := cluster.Namespace + "/" + s.lease.Name
			if is.Reason != "Leading" || !strings.Contains(is.Message, lease) || !strings.Contains(is.Message, fmt.Sprint(first.FencingToken)) {
				t.Errorf("the leader's condition is %v", is)
			}
			s.config = direct
			next := s.start(n)
			next.Follows(web.Name)
			is = s.conditioned(n, gate, corev1.ConditionFalse)
			if is.Reason != "NotLeading" || !strings.Contains(is.Message, lease) {
				t.Errorf("a follower's condition is %v", is)
			}
			lowering := network.Hold(podWrites)
			part(web)
			lowering.Came()
			s.pass(window)
			if lease := s.lease.Get(); cluster.Holder(lease) != m.identity() {
				t.Error("the lease is released while its holder's condition is true")
			}
			lowering.End()
			next.Leads()
			s.conditioned(n, gate, corev1.ConditionTrue)
			is = s.conditioned(m, gate, corev1.ConditionFalse)
			if is.Reason != "NotLeading" || !strings.Contains(is.Message, fmt.Sprint(first.FencingToken)) {
				t.Errorf("the former leader's condition is %v", is)
			}
			released := rv(leases.await("a release", free))
			for _, pod := range pods.untilNow() {
				if pod.Name == m.name && conditionOf(pod, gate).Status == corev1.ConditionTrue && rv(pod) > released {
					t.Errorf("as of %d, after the release, the former leader's condition is %v", rv(pod), conditionOf(pod, gate))
				}
				if c := conditionOf(pod, string(corev1.PodScheduled)); pod.Name == m.name &&
					(c.Reason != scheduled.Reason || !c.LastProbeTime.Equal(&scheduled.LastProbeTime) || !c.LastTransitionTime.Equal(&scheduled.LastTransitionTime)) {
					t.Errorf("as of %d another condition is %v", rv(pod), c)
				}
			}
		})
	}
}

// lastTransitionTime is of the last change of the status, not of the message.
func TestTransitionTimeOfTheCondition(t *testing.T) {
	s := begin(t, calm)
	s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
	m := s.gated(0)
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	s.kubelet(m, func(status *corev1.PodStatus) {
		status.Conditions = []corev1.PodCondition{{Type: gate, Status: corev1.ConditionTrue, Reason: "Leading", Message: "of a term before", LastTransitionTime: long}}
	})
	pods := s.podHistory()
	began := time.Now().Truncate(time.Second)
	s.lease.HeldBy("web-9", 2*time.Second)
	web := s.start(m)
	if is := s.conditioned(m, gate, corev1.ConditionFalse); is.LastTransitionTime.Time.Before(began) {
		t.Errorf("the condition has changed, and is %v", is)
	}
	// The same status, with another message: the time has to stay.
	s.kubelet(m, func(status *corev1.PodStatus) {
		for i := range status.Conditions {
			if status.Conditions[i].Type == gate {
				status.Conditions[i].Status, status.Conditions[i].LastTransitionTime = corev1.ConditionTrue, long
			}
		}
	})
	leader := web.Leads()
	pods.await("the message of this term", func(pod *corev1.Pod) bool {
		return strings.Contains(conditionOf(pod, gate).Message, fmt.Sprint(leader.FencingToken))
	})
	if is := conditionOf(s.pod(m), gate); is.Status != corev1.ConditionTrue || !is.LastTransitionTime.Equal(&long) {
		t.Errorf("only the message has changed, and the condition is %v; want the time %s", is, long)
	}
}

// What somebody does to the condition is mended; a leader that lapses makes it false.
func TestConditionOnLapse(t *testing.T) {
	s := begin(t, brisk)
	s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
	network := s.proxied()
	m := s.gated(0)
	web := s.start(m)
	web.Leads()
	s.conditioned(m, gate, corev1.ConditionTrue)
	s.kubelet(m, func(status *corev1.PodStatus) { status.Conditions = nil })
	s.conditioned(m, gate, corev1.ConditionTrue)
	failing := network.Refuse(http.StatusInternalServerError, leaseWrites)
	defer failing.End()
	web.Await("it does not lead", notLeading)
	s.conditioned(m, gate, corev1.ConditionFalse)
}

// A sidecar that starts makes the condition false, whatever was left.
func TestConditionOfADeadLeaderIsMendedByItsRestart(t *testing.T) {
	s := begin(t, brisk)
	s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
	m, n := s.gated(0), s.gated(1)
	web := s.start(m)
	web.Leads()
	s.conditioned(m, gate, corev1.ConditionTrue)
	next := s.start(n)
	next.Follows(web.Name)
	web.Is(sigkill)
	next.Leads()
	s.conditioned(n, gate, corev1.ConditionTrue)
	s.conditioned(m, gate, corev1.ConditionTrue) // nobody else may say so of it
	s.start(m).Follows(next.Name)
	s.conditioned(m, gate, corev1.ConditionFalse)
}
