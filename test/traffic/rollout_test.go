// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// The ways to make a pod ready only while it leads.
var (
	httpGet = func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/is-leader", Port: intstr.FromInt32(4040)}}}
	}
	command = func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"/elector-sidecar", "is-leader"}}}}
	}
	inASidecar = func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		httpGet(pod)
		pod.Spec.InitContainers = []corev1.Container{{Name: "elector-sidecar", Image: "x", RestartPolicy: &always,
			ReadinessProbe: pod.Spec.Containers[0].ReadinessProbe}}
		pod.Spec.Containers[0].ReadinessProbe = nil
	}
	readinessGate = func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	}
	otherProbe = func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(4040)}}}
	}
)

// template is one that the API server accepts.
func (s *scenario) template() (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{appLabel: s.app}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
}

func controlledBy(kind string, object metav1.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: object.GetName(), UID: object.GetUID(), Controller: new(true)}}
}

// deployment creates a Deployment and its ReplicaSet, as the controller would, and returns what a pod of it is owned by. A
// nil strategy is the default.
func (s *scenario) deployment(replicas int32, strategy *appsv1.DeploymentStrategy) []metav1.OwnerReference {
	s.Helper()
	apps := client.AppsV1()
	selector, template := s.template()
	spec := appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}
	if strategy != nil {
		spec.Strategy = *strategy
	}
	deployment, err := apps.Deployments(cluster.Namespace).Create(s.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: s.app}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	set, err := apps.ReplicaSets(cluster.Namespace).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.app + "-1", OwnerReferences: controlledBy("Deployment", deployment)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		s.forgiveGone(apps.Deployments(cluster.Namespace).Delete(context.Background(), deployment.Name, metav1.DeleteOptions{}))
		s.forgiveGone(apps.ReplicaSets(cluster.Namespace).Delete(context.Background(), set.Name, metav1.DeleteOptions{}))
	})
	return controlledBy("ReplicaSet", set)
}

func (s *scenario) statefulSet(replicas int32) []metav1.OwnerReference {
	s.Helper()
	sets := client.AppsV1().StatefulSets(cluster.Namespace)
	selector, template := s.template()
	set, err := sets.Create(s.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.app},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.forgiveGone(sets.Delete(context.Background(), set.Name, metav1.DeleteOptions{})) })
	return controlledBy("StatefulSet", set)
}

func rolling(surge, unavailable any) *appsv1.DeploymentStrategy {
	part := func(v any) *intstr.IntOrString { return new(intstr.Parse(fmt.Sprint(v))) }
	return &appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: part(surge), MaxUnavailable: part(unavailable)}}
}

// warnings are the lines of the log that warn.
func warnings(web *sidecar.Sidecar) []string {
	var all []string
	for _, line := range web.LogLines() {
		if strings.HasPrefix(line.Msg, "warning: ") {
			all = append(all, strings.TrimPrefix(line.Msg, "warning: "))
		}
	}
	return all
}

// events are the Events about a pod.
func (s *scenario) events(m member) []corev1.Event {
	s.Helper()
	list, err := client.CoreV1().Events(cluster.Namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + m.uid})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		for _, event := range list.Items {
			s.forgiveGone(client.CoreV1().Events(cluster.Namespace).Delete(context.Background(), event.Name, metav1.DeleteOptions{}))
		}
	})
	return list.Items
}

// Who is ready only while it leads, under a workload whose rolling update cannot complete then, is warned; nobody else is.
func TestRolloutWarning(t *testing.T) {
	t.Parallel()
	recreate := &appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	of := func(replicas int32, strategy *appsv1.DeploymentStrategy) func(*scenario) []metav1.OwnerReference {
		return func(s *scenario) []metav1.OwnerReference { return s.deployment(replicas, strategy) }
	}
	ofSet := func(replicas int32) func(*scenario) []metav1.OwnerReference {
		return func(s *scenario) []metav1.OwnerReference { return s.statefulSet(replicas) }
	}
	for what, test := range map[string]struct {
		gated func(*corev1.Pod)
		owner func(*scenario) []metav1.OwnerReference // nil: none
		warns []string                                // parts of the warning; none: there is no warning
	}{
		"a Deployment of one":              {httpGet, of(1, nil), []string{"readinessProbe of the container app", "Deployment", "never completes", "maxUnavailable: 1"}},
		"by a command":                     {command, of(1, nil), []string{"readinessProbe of the container app"}},
		"by the sidecar's probe":           {inASidecar, of(1, nil), []string{"readinessProbe of the container elector-sidecar"}},
		"by a readiness gate":              {readinessGate, of(1, nil), []string{"readinessGates has " + gate}},
		"another probe":                    {otherProbe, of(1, nil), nil},
		"Recreate":                         {httpGet, of(1, recreate), nil},
		"one may be unavailable":           {httpGet, of(1, rolling(1, 1)), nil},
		"no surge":                         {httpGet, of(1, rolling(0, "25%")), nil},
		"a surge and none unavailable":     {httpGet, of(1, rolling("50%", 0)), []string{"never completes"}},
		"a Deployment of three":            {httpGet, of(3, nil), []string{"3 replicas", "all but one are never ready"}},
		"three, of which two may be away":  {httpGet, of(3, rolling(0, 2)), []string{"3 replicas"}},
		"a StatefulSet of one":             {httpGet, ofSet(1), nil},
		"a StatefulSet of three":           {httpGet, ofSet(3), []string{"StatefulSet", "3 replicas"}},
		"a pod of its own":                 {httpGet, nil, nil},
		"a gate of a pod that has not one": {otherProbe, of(1, nil), nil},
	} {
		t.Run(what, func(t *testing.T) {
			s := begin(t, calm)
			s.env = append(s.env, "ELECTOR_READINESS_GATE="+gate)
			m := s.createPod(0, func(pod *corev1.Pod) {
				test.gated(pod)
				if test.owner != nil {
					pod.OwnerReferences = test.owner(s)
				}
			})
			network := s.proxied()
			web := s.start(m)
			web.Leads()
			s.conditioned(m, gate, corev1.ConditionTrue)
			if len(s.pod(m).Spec.ReadinessGates) == 0 { // it is told so, and that comes after all else
				web.Logs("does not require")
			}
			if test.warns == nil {
				s.looked(network)
			} else {
				web.Logs("this pod is ready only while it leads")
			}
			var said []string
			for _, warning := range warnings(web) {
				if !strings.Contains(warning, "does not require") {
					said = append(said, warning)
				}
			}
			if len(said) != min(len(test.warns), 1) {
				t.Fatalf("the warnings are %q", said)
			}
			for _, part := range test.warns {
				if !strings.Contains(said[0], part) {
					t.Errorf("the warning is %q, without %q", said[0], part)
				}
			}
		})
	}
}

// looked waits until the sidecar has looked at the pod's workload, as far as it does.
func (s *scenario) looked(network *proxy.Requests) {
	s.Helper()
	network.Await("the look at the pod", proxy.To("GET", "/pods/"))
	network.Quieten(soon/10, signRequests)
}

// The warning is an Event of the pod, and one only, however often the sidecar starts.
func TestRolloutEvent(t *testing.T) {
	s := begin(t, calm)
	m := s.createPod(0, func(pod *corev1.Pod) {
		httpGet(pod)
		pod.OwnerReferences = s.deployment(1, nil)
	})
	for range 3 {
		web := s.start(m)
		web.Leads()
		web.Logs("this pod is ready only while it leads")
		s.await("an Event", func() error {
			if len(s.events(m)) == 0 {
				return fmt.Errorf("there is none")
			}
			return nil
		})
		web.Is(sigterm)
		web.Exits(0)
		events := s.events(m)
		if len(events) != 1 {
			t.Fatalf("the Events are %v", events)
		}
		e := events[0]
		object := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: cluster.Namespace, Name: m.name, UID: s.pod(m).UID}
		if e.Type != corev1.EventTypeWarning || e.Reason != "LeaderReadiness" || e.Message != warnings(web)[0] ||
			e.InvolvedObject != object || e.Source.Component != "elector-sidecar" || e.Count != 1 || e.LastTimestamp.IsZero() {
			t.Errorf("the Event is %+v", e)
		}
	}
}

// Without permission it cannot look, and says nothing; each permission more, it goes as far as that leads.
func TestRolloutWithoutPermission(t *testing.T) {
	t.Parallel()
	rule := func(group, resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	pods, sets, deployments := rule("", "pods", "get"), rule("apps", "replicasets", "get"), rule("apps", "deployments", "get")
	for what, test := range map[string]struct {
		rules  []rbacv1.PolicyRule
		denied string // the request that is refused last
		warns  bool
	}{
		"nothing":        {nil, "/pods/", false},
		"the pod":        {[]rbacv1.PolicyRule{pods}, "/replicasets/", false},
		"the ReplicaSet": {[]rbacv1.PolicyRule{pods, sets}, "/deployments/", false},
		"all but Events": {[]rbacv1.PolicyRule{pods, sets, deployments}, "/events", true},
	} {
		t.Run(what, func(t *testing.T) {
			s := begin(t, lasting)
			m := s.createPod(0, func(pod *corev1.Pod) {
				httpGet(pod)
				pod.OwnerReferences = s.deployment(1, nil)
			})
			user := plane.User(t)
			user.Grant(s.leaseRole())
			user.Grant(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "rollout-", Namespace: cluster.Namespace}, Rules: test.rules})
			s.config = user.Config
			network := s.proxied()
			web := s.start(m)
			web.Leads()
			network.Await("the request that is refused", proxy.To("", test.denied))
			s.pass(brisk.retry * 3)
			if said := warnings(web); (len(said) == 1) != test.warns {
				t.Errorf("the warnings are %q", said)
			}
			if said := web.Complaints(); len(said) > 0 {
				t.Errorf("it complains: %+v", said)
			}
			if len(s.events(m)) > 0 {
				t.Errorf("there are Events")
			}
		})
	}
}
