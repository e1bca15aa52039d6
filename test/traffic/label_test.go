// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

// roleKey is the key of the label in all tests, so that the pods of one are others' pods to the rest.
const roleKey = "example.com/role"

func labelled(pod *corev1.Pod) string { return pod.Labels[roleKey] }

// labelled waits until a pod is labelled so.
func (s *scenario) labelled(m member, key, value string) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.await(m.name+" to be labelled "+value, func() error {
		if pod = s.pod(m); pod.Labels[key] != value {
			return fmt.Errorf("it is labelled %v", pod.Labels)
		}
		return nil
	})
	return pod
}

// labels is the scenario of the label.
func labels(t *testing.T, timing timing) *scenario {
	t.Helper()
	s := begin(t, timing)
	s.env = append(s.env, "ELECTOR_POD_LABEL="+roleKey)
	return s
}

// leaders checks that no two pods were labelled as the leader at any time, and returns the names of those that were, in
// their order.
func leaders(s *scenario, versions []*corev1.Pod) []string {
	s.Helper()
	var order []string
	now := map[string]bool{}
	for _, pod := range versions {
		before := now[pod.Name]
		if delete(now, pod.Name); labelled(pod) == "leader" {
			if now[pod.Name] = true; !before {
				order = append(order, pod.Name)
			}
		}
		if len(now) > 1 {
			s.Errorf("as of %d these are all labelled as the leader: %v", rv(pod), now)
		}
	}
	return order
}

// The label moves on each kind of handover: taken away before the release, given before anything else.
func TestLabelOnHandover(t *testing.T) {
	t.Parallel()
	for how, parting := range partings {
		t.Run(how, func(t *testing.T) {
			s := labels(t, calm)
			pods, leases := s.podHistory(), s.leaseHistory()
			direct := s.config
			network := s.proxied()
			env, part := parting(s)
			m, n := s.createPod(0, nil), s.createPod(1, nil)
			web := s.start(m, env...)
			first := web.Leads()
			s.labelled(m, roleKey, "leader")
			s.config = direct
			next := s.start(n)
			next.Follows(web.Name)
			follower := s.labelled(n, roleKey, "follower")
			if follower.Annotations[traffic.LeaseAnnotation] != cluster.Namespace+"/"+s.lease.Name {
				t.Errorf("a follower is annotated with %v", follower.Annotations)
			}
			unlabelling := network.Hold(podWrites)
			part(web)
			unlabelling.Came()
			s.pass(window)
			if lease := s.lease.Get(); cluster.Holder(lease) != m.identity() {
				t.Error("the lease is released while its holder is labelled as the leader")
			}
			unlabelling.End()
			second := next.Leads()
			s.labelled(n, roleKey, "leader")
			s.labelled(m, roleKey, "follower")
			released := rv(leases.await("a release", free))
			versions := pods.untilNow()
			if order := leaders(s, versions); len(order) != 2 || order[0] != m.name || order[1] != n.name {
				t.Errorf("those labelled as the leader were %v", order)
			}
			for _, pod := range versions {
				switch {
				case labelled(pod) != "leader":
				case pod.Name == m.name && (rv(pod) <= first.FencingToken || rv(pod) >= released), pod.Name == n.name && rv(pod) <= second.FencingToken:
					t.Errorf("%s is labelled as the leader as of %d; the lease was released as of %d", pod.Name, rv(pod), released)
				}
			}
		})
	}
}

// The label of a leader that is dead is taken away by the next, before it takes its own. Pods of other Leases keep theirs.
func TestLabelOnDeath(t *testing.T) {
	s := labels(t, brisk)
	others := map[string]string{traffic.LeaseAnnotation: cluster.Namespace + "/other", traffic.TokenAnnotation: "1"}
	for name, annotations := range map[string]map[string]string{"other": others, "nobodys": nil} {
		s.createStranger(name, annotations)
	}
	pods := s.podHistory()
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	next := s.start(n)
	next.Follows(web.Name)
	web.Is(sigkill)
	next.Leads()
	s.labelled(n, roleKey, "leader")
	s.labelled(m, roleKey, "follower")
	if order := leaders(s, pods.untilNow()); len(order) != 2 || order[0] != m.name || order[1] != n.name {
		t.Errorf("those labelled as the leader were %v", order)
	}
	for _, name := range []string{"other", "nobodys"} {
		if pod := s.stranger(name); labelled(pod) != "leader" {
			t.Errorf("the pod %s of another Lease is labelled %v", name, pod.Labels)
		}
	}
}

// A leader that lapses, while it can still write, labels itself a follower.
func TestLabelOnLapse(t *testing.T) {
	s := labels(t, brisk)
	network := s.proxied()
	m := s.createPod(0, nil)
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	failing := network.Refuse(http.StatusInternalServerError, leaseWrites)
	web.Await("it does not lead", notLeading)
	s.labelled(m, roleKey, "follower")
	failing.End()
	web.Leads()
	s.labelled(m, roleKey, "leader")
}

// A leader that was frozen does not label itself again.
func TestLabelOfAFrozenLeader(t *testing.T) {
	s := labels(t, brisk)
	pods := s.podHistory()
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	next := s.start(n)
	next.Follows(web.Name)
	web.Is(sigstop)
	next.Leads()
	s.labelled(n, roleKey, "leader")
	web.Is(sigcont)
	web.Follows(next.Name)
	s.pass(brisk.retry * 2)
	if order := leaders(s, pods.untilNow()); len(order) != 2 {
		t.Errorf("those labelled as the leader were %v", order)
	}
}

// The patch that labels a leader is on its way when it loses the lease, and arrives when the next leader is labelled. Where
// the pod was labelled before, as by its predecessor in the same pod, the next leader's patch has made it void.
func TestLateLabelOfALeaderThatWasShown(t *testing.T) {
	s := labels(t, brisk)
	pods := s.podHistory()
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	direct := s.config
	network := s.proxied()
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	s.changePod(m, func(pod *corev1.Pod) { delete(pod.Annotations, traffic.TokenAnnotation) }) // so that it is patched again
	late := network.Hold(podWrites)
	late.Came()
	cut := network.Hold(anything)
	defer cut.End()
	s.config = direct
	s.start(n).Leads()
	s.labelled(n, roleKey, "leader")
	if codes := late.End(); codes[0] != http.StatusConflict {
		t.Errorf("the late patch was answered %d", codes)
	}
	if order := leaders(s, pods.untilNow()); len(order) != 2 || labelled(s.pod(m)) != "follower" {
		t.Errorf("those labelled as the leader were %v; the former leader is labelled %v", order, s.pod(m).Labels)
	}
}

// A pod that was not labelled yet cannot be told from others, so the late patch is stored: the former leader takes it back
// when it gets through, and where it is dead the next leader does, within a lease duration.
func TestLateLabelOfALeaderThatWasNotShown(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{false, true} {
		t.Run(map[bool]string{true: "dead", false: "alive"}[dead], func(t *testing.T) {
			s := labels(t, brisk)
			m, n := s.createPod(0, nil), s.createPod(1, nil)
			direct := s.config
			network := s.proxied()
			late := network.Hold(podWrites)
			web := s.start(m)
			web.Leads()
			late.Came()
			cut := network.Hold(anything)
			s.config = direct
			next := s.start(n)
			next.Leads()
			s.labelled(n, roleKey, "leader")
			if dead {
				web.Is(sigkill)
				s.changePod(m, func(pod *corev1.Pod) { // what the late patch does
					pod.Labels[roleKey] = "leader"
					pod.Annotations = map[string]string{traffic.LeaseAnnotation: cluster.Namespace + "/" + s.lease.Name, traffic.TokenAnnotation: "1"}
				})
			}
			late.End()
			cut.End()
			s.labelled(m, roleKey, "follower")
			s.labelled(n, roleKey, "leader")
		})
	}
}

// A leader of the past is about to take the label from a pod, and does so late: that pod leads again by then, and keeps it.
func TestLateClearingOfTheLeader(t *testing.T) {
	s := labels(t, lasting)
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	lease := cluster.Namespace + "/" + s.lease.Name
	s.changePod(m, func(pod *corev1.Pod) { // it led, and was killed
		pod.Labels[roleKey] = "leader"
		pod.Annotations = map[string]string{traffic.LeaseAnnotation: lease, traffic.TokenAnnotation: "1"}
	})
	network := s.proxied()
	clearing := network.Hold(proxy.To(http.MethodGet, "/pods/"+m.name))
	web := s.start(n)
	web.Leads()
	clearing.Came()
	const later = "18446744073709551615"
	s.changePod(m, func(pod *corev1.Pod) { pod.Annotations[traffic.TokenAnnotation] = later })
	clearing.End()
	web.AwaitGets("/healthz?verbose", 200, "a later leader")
	if pod := s.pod(m); labelled(pod) != "leader" || pod.Annotations[traffic.TokenAnnotation] != later {
		t.Errorf("it is labelled %v and annotated with %v", pod.Labels, pod.Annotations)
	}
	if pod := s.pod(n); labelled(pod) == "leader" {
		t.Error("both are labelled as the leader")
	}
}

// What somebody does to the label is mended within a lease duration, on the leader's pod and on others of the Lease.
func TestLabelIsMended(t *testing.T) {
	s := labels(t, steady)
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	s.start(n).Follows(web.Name)
	s.labelled(n, roleKey, "follower")
	for _, tamper := range []func(*corev1.Pod){
		func(pod *corev1.Pod) { delete(pod.Labels, roleKey) },
		func(pod *corev1.Pod) { pod.Labels[roleKey] = "follower" },
	} {
		s.changePod(m, tamper)
		s.labelled(m, roleKey, "leader")
	}
	s.changePod(n, func(pod *corev1.Pod) { pod.Labels[roleKey] = "leader" })
	s.labelled(n, roleKey, "follower")
}

// A pod of the same name is another where its UID is: a process that was left behind by its predecessor keeps off.
func TestLabelOfARecreatedPod(t *testing.T) {
	s := labels(t, brisk)
	old := s.createPod(0, nil)
	web := s.start(old)
	web.Leads()
	pod := s.labelled(old, roleKey, "leader")
	if err := client.CoreV1().Pods(cluster.Namespace).Delete(t.Context(), old.name, atOnce(pod.UID)); err != nil {
		t.Fatal(err)
	}
	s.createPod(0, nil)
	web.AwaitGets("/healthz?verbose", 200, "it is another of that name")
	web.Is(sigterm)
	web.Exits(0)
	if pod := s.pod(old); labelled(pod) != "" || len(pod.Annotations) != 0 {
		t.Errorf("the new pod is labelled %v and annotated with %v", pod.Labels, pod.Annotations)
	}
}

// A kubelet writes the pod's status all the time.
func TestSignsBesideABusyKubelet(t *testing.T) {
	s := labels(t, calm)
	s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
	m := s.createPod(0, nil)
	network := s.proxied()
	web := s.start(m)
	web.Leads()
	s.labelled(m, roleKey, "leader")
	s.conditioned(m, gate, corev1.ConditionTrue)
	// Between the read and the patch of each sign the status changes.
	patches := network.Hold(podWrites)
	web.Is(sigterm)
	patches.Came()
	patches.Came()
	s.kubelet(m, func(status *corev1.PodStatus) { status.HostIP = "10.0.0.1" })
	patches.End()
	web.Exits(0)
	pod := s.pod(m)
	if labelled(pod) != "follower" || conditionOf(pod, gate).Status != corev1.ConditionFalse || pod.Status.HostIP != "10.0.0.1" {
		t.Errorf("it is labelled %v, with the status %v", pod.Labels, pod.Status)
	}
}

// kubelet changes the status of a pod.
func (s *scenario) kubelet(m member, change func(*corev1.PodStatus)) {
	s.Helper()
	pods := client.CoreV1().Pods(cluster.Namespace)
	s.await("the status to be written", func() error {
		pod := s.pod(m)
		change(&pod.Status)
		_, err := pods.UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
		return err
	})
}

// createStranger creates a pod that no sidecar speaks for, labelled as a leader.
func (s *scenario) createStranger(name string, annotations map[string]string) {
	s.Helper()
	pods := client.CoreV1().Pods(cluster.Namespace)
	pod, err := pods.Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.app + "-" + name, Annotations: annotations, Labels: map[string]string{roleKey: "leader"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.forgiveGone(pods.Delete(context.Background(), pod.Name, atOnce(pod.UID))) })
}

func (s *scenario) stranger(name string) *corev1.Pod {
	s.Helper()
	return s.pod(member{name: s.app + "-" + name})
}
