// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const patience = 30 * time.Second

// controlPlane is the cluster of all tests, started when it is first asked for and stopped by TestMain.
var controlPlane struct {
	start sync.Once
	*cluster.Cluster
	err error
}

func startCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	controlPlane.start.Do(func() { controlPlane.Cluster, controlPlane.err = cluster.Start() })
	if controlPlane.err != nil {
		t.Fatal(controlPlane.err)
	}
	return controlPlane.Cluster
}

// stage is what one test plays on: a Lease and a Service of its own, and pods without a kubelet.
type stage struct {
	*testing.T
	cluster        *cluster.Cluster
	admin          kubernetes.Interface
	lease, service string
	ports          []corev1.ServicePort
}

func newStage(t *testing.T) *stage {
	c := startCluster(t)
	return &stage{T: t, cluster: c, admin: kubernetes.NewForConfigOrDie(c.Config()), lease: c.Lease(t).Name,
		service: "live-" + rand.String(6), ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}}
}

// role is what kustomize makes of a component for this stage.
func (s *stage) role(component, more string) *rbacv1.Role {
	s.Helper()
	got := render(s.T, "app", map[string]string{
		"kustomization.yaml": strings.Replace(kustomization(component, more), "namespace: shop", "namespace: "+cluster.Namespace, 1),
		"elector.yaml":       strings.Replace(allNames(s.lease, "default"), serviceName, s.service, 1),
		"app.yaml":           app("Deployment", "web", ""),
	})
	if len(got.roles) != 1 {
		s.Fatalf("%s has %d Roles", component, len(got.roles))
	}
	return got.roles[0]
}

// user is somebody with what the election needs and with that Role.
func (s *stage) user(role *rbacv1.Role) *cluster.User {
	s.Helper()
	user := s.cluster.User(s.T)
	user.Grant(cluster.LeaseRole(s.lease, "get", "list", "watch", "create", "update"))
	if len(role.Rules) > 0 {
		user.Grant(role)
	}
	return user
}

func (s *stage) addService() {
	s.Helper()
	_, err := s.admin.CoreV1().Services(cluster.Namespace).Create(s.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.service}, Spec: corev1.ServiceSpec{Ports: s.ports}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) addPod(change func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8123}},
		}}},
	}
	if change != nil {
		change(pod)
	}
	pod, err := s.admin.CoreV1().Pods(cluster.Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

func (s *stage) pod(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.admin.CoreV1().Pods(cluster.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// start starts the sidecar of a pod, as a user.
func (s *stage) start(pod *corev1.Pod, user *cluster.User, env ...string) *sidecar.Sidecar {
	s.Helper()
	return s.startOf(built(s.T), pod, user, env...)
}

func (s *stage) startOf(binary string, pod *corev1.Pod, user *cluster.User, env ...string) *sidecar.Sidecar {
	s.Helper()
	return sidecar.Start(s.T, binary, pod.Name, append([]string{
		"ELECTOR_LEASE_NAME=" + s.lease, "POD_NAMESPACE=" + cluster.Namespace, "POD_UID=" + string(pod.UID), "POD_IP=" + addressOf(pod),
		"ELECTOR_RETRY_PERIOD=200ms", "KUBECONFIG=" + cluster.Kubeconfig(s.T, user.Config),
	}, env...)...)
}

func addressOf(pod *corev1.Pod) string {
	return fmt.Sprintf("10.1.%d.%d", pod.UID[0], pod.UID[1])
}

// talkative is a sidecar that logs each request and its answer.
func talkative(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "elector-sidecar")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec '"+built(t)+"' -v=8\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// await waits until something is so.
func (s *stage) await(what string, is func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		s.Fatalf("waiting that %s: %v", what, err)
	}
}

// performances are what the signs look like in the cluster.
var performances = map[string]struct {
	env   func(*stage) string
	name  func(*stage) string // on /healthz
	setUp func(*stage)
	shows func(s *stage, pod string) bool // that it leads
}{
	"leader-service": {
		env:   func(s *stage) string { return "ELECTOR_SERVICE=" + s.service },
		name:  func(s *stage) string { return "service/" + s.service },
		setUp: (*stage).addService,
		shows: func(s *stage, pod string) bool {
			slice, err := s.admin.DiscoveryV1().EndpointSlices(cluster.Namespace).Get(s.Context(), s.service+"-leader", metav1.GetOptions{})
			return err == nil && len(slice.Endpoints) == 1 && slice.Endpoints[0].TargetRef.Name == pod
		},
	},
	"pod-label": {
		env:  func(*stage) string { return "ELECTOR_POD_LABEL=" + podLabel },
		name: func(*stage) string { return "label/" + podLabel },
		shows: func(s *stage, pod string) bool {
			return s.pod(pod).Labels[podLabel] == "leader"
		},
	},
	"readiness-gate": {
		env:  func(*stage) string { return "ELECTOR_READINESS_GATE=" + gate },
		name: func(*stage) string { return "condition/" + gate },
		shows: func(s *stage, pod string) bool {
			return slices.ContainsFunc(s.pod(pod).Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == gate && c.Status == corev1.ConditionTrue
			})
		},
	},
}

// TestTheRoleOfASign is enough for it.
func TestTheRoleOfASign(t *testing.T) {
	for component, sign := range performances {
		t.Run(component, func(t *testing.T) {
			s := newStage(t)
			if sign.setUp != nil {
				sign.setUp(s)
			}
			user, pods := s.user(s.role(component, "")), []*corev1.Pod{s.addPod(nil), s.addPod(nil)}
			first := s.start(pods[0], user, sign.env(s))
			first.Leads()
			s.await("the first is shown", func() bool { return sign.shows(s, pods[0].Name) })
			second := s.start(pods[1], user, sign.env(s))
			second.Follows(pods[0].Name)
			first.AwaitGets("/healthz?verbose", 200, "[+]"+sign.name(s)+" ok")
			first.Is(sigterm)
			first.Exits(0)
			second.Leads()
			s.await("the second is shown and the first is not", func() bool {
				return sign.shows(s, pods[1].Name) && !sign.shows(s, pods[0].Name)
			})
			for _, sidecar := range []*sidecar.Sidecar{first, second} {
				// Whether a rollout can complete is looked at without being asked for, where that is allowed.
				for line := range strings.Lines(sidecar.Log()) {
					if strings.Contains(line, "permission missing") || strings.Contains(line, "cannot show who leads") {
						t.Errorf("%s was denied something: %s", sidecar.Name, line)
					}
				}
			}
		})
	}
}

// without is each Role with one verb on one resource less.
func without(role *rbacv1.Role) (less []*rbacv1.Role, verbs, resources []string) {
	for i, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				lesser := role.DeepCopy()
				lesser.Name = "" // several of them are there at a time
				lesser.GenerateName = "less-"
				var rules []rbacv1.PolicyRule
				for j, other := range lesser.Rules {
					if j == i {
						for _, r := range other.Resources {
							one := other
							one.Resources = []string{r}
							one.Verbs = slices.DeleteFunc(slices.Clone(other.Verbs), func(v string) bool { return r == resource && v == verb })
							if len(one.Verbs) > 0 {
								rules = append(rules, one)
							}
						}
						continue
					}
					rules = append(rules, other)
				}
				lesser.Rules = rules
				less, verbs, resources = append(less, lesser), append(verbs, verb), append(resources, resource)
			}
		}
	}
	return less, verbs, resources
}

// TestEachVerbOfASign is needed: without it the sign is not right, and the sidecar says what it lacks.
func TestEachVerbOfASign(t *testing.T) {
	for component, sign := range performances {
		less, verbs, resources := without(newStage(t).role(component, ""))
		for i := range less {
			t.Run(component+"/"+verbs[i]+" "+resources[i], func(t *testing.T) {
				s := newStage(t)
				if sign.setUp != nil {
					sign.setUp(s)
				}
				if verbs[i] == "update" {
					s.addSlice()
				}
				less, _, _ := without(s.role(component, ""))
				pod := s.addPod(nil)
				sidecar := s.start(pod, s.user(less[i]), sign.env(s))
				sidecar.Leads()
				answer := sidecar.AwaitGets("/healthz?verbose", 200, fmt.Sprintf("cannot %s resource %q", verbs[i], resources[i]))
				if !strings.Contains(answer.Body, "[-]"+sign.name(s)+": ") {
					t.Errorf("/healthz says %s", answer.Body)
				}
				sidecar.Logs("permission missing: the API server forbids what shows the leader")
				if sign.shows(s, pod.Name) {
					t.Error("it is shown all the same")
				}
			})
		}
	}
}

// readmeDocument is the example of manifests/README.md of that kind, for this stage's Service.
func (s *stage) readmeDocument(kind string, into any) {
	s.Helper()
	for _, block := range readmeBlocks(s.T) {
		if strings.Contains(block, "kind: "+kind+"\n") {
			block = strings.ReplaceAll(block, "web-leader", s.service)
			if err := yaml.UnmarshalStrict([]byte(block), into); err != nil {
				s.Fatal(err)
			}
			return
		}
	}
	s.Fatalf("manifests/README.md has no %s", kind)
}

// addSlice makes the EndpointSlice of the README.
func (s *stage) addSlice() {
	s.Helper()
	slice := &discoveryv1.EndpointSlice{}
	s.readmeDocument("EndpointSlice", slice)
	if _, err := s.admin.DiscoveryV1().EndpointSlices(cluster.Namespace).Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestAnEndpointSliceMadeBeforehand spares the right to create any, by the README's patch.
func TestAnEndpointSliceMadeBeforehand(t *testing.T) {
	s, sign := newStage(t), performances["leader-service"]
	service := &corev1.Service{}
	s.readmeDocument("Service", service)
	checkLeaderService(t, service)
	s.ports = service.Spec.Ports
	s.addService()
	s.addSlice()
	role := s.role("leader-service", readmePatch(t, "op: remove"))
	if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Verbs, "create") }) {
		t.Errorf("the rules are %+v", role.Rules)
	}
	pod := s.addPod(nil)
	first := s.start(pod, s.user(role), sign.env(s))
	first.Leads()
	s.await("it is shown", func() bool { return sign.shows(s, pod.Name) })
	first.Is(sigterm)
	first.Exits(0)
	if sign.shows(s, pod.Name) {
		t.Error("it is shown after its end")
	}
}

// TestANamedTargetPort needs to read the pod, which the README's patch allows.
func TestANamedTargetPort(t *testing.T) {
	for patch, want := range map[string]string{
		"":                              "the name \"web\", which stands for a port of the pod",
		readmePatch(t, "[pods], verbs"): "ok",
	} {
		t.Run(want, func(t *testing.T) {
			s, sign := newStage(t), performances["leader-service"]
			s.ports[0].TargetPort = intstr.FromString("web")
			s.addService()
			pod := s.addPod(nil)
			sidecar := s.start(pod, s.user(s.role("leader-service", patch)), sign.env(s))
			sidecar.Leads()
			if want != "ok" {
				answer := sidecar.AwaitGets("/healthz?verbose", 200, want)
				if !strings.Contains(answer.Body, `cannot get resource "pods"`) {
					t.Errorf("/healthz says %s", answer.Body)
				}
				return
			}
			s.await("it is shown", func() bool { return sign.shows(s, pod.Name) })
			list, err := s.admin.DiscoveryV1().EndpointSlices(cluster.Namespace).List(t.Context(),
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.service})
			if err != nil {
				t.Fatal(err)
			}
			if ports := list.Items[0].Ports; len(ports) != 1 || *ports[0].Port != 8123 || *ports[0].Name != "http" {
				t.Errorf("the ports are %+v", ports)
			}
		})
	}
}

// addWorkload adds a pod that is ready only while it leads, under a workload of that kind that cannot be updated then.
func (s *stage) addWorkload(kind string) *corev1.Pod {
	s.Helper()
	name, controller := "app-"+rand.String(6), true
	own := func(group, kind, name string, object metav1.Object) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: group, Kind: kind, Name: name, UID: object.GetUID(), Controller: &controller}}
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	selector, replicas := &metav1.LabelSelector{MatchLabels: template.Labels}, int32(3)
	var owners []metav1.OwnerReference
	var err error
	switch apps := s.admin.AppsV1(); kind {
	case "Deployment":
		var deployment *appsv1.Deployment
		var set *appsv1.ReplicaSet
		deployment, err = apps.Deployments(cluster.Namespace).Create(s.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		if err == nil {
			set, err = apps.ReplicaSets(cluster.Namespace).Create(s.Context(), &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: own("apps/v1", "Deployment", name, deployment)},
				Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template},
			}, metav1.CreateOptions{})
		}
		if err == nil {
			owners = own("apps/v1", "ReplicaSet", name, set)
		}
	case "StatefulSet":
		var set *appsv1.StatefulSet
		set, err = apps.StatefulSets(cluster.Namespace).Create(s.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template, ServiceName: name},
		}, metav1.CreateOptions{})
		if err == nil {
			owners = own("apps/v1", "StatefulSet", name, set)
		}
	}
	if err != nil {
		s.Fatal(err)
	}
	return s.addPod(func(pod *corev1.Pod) {
		pod.OwnerReferences = owners
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/is-leader", Port: intstr.FromInt32(4040)},
		}}
	})
}

// warnings are the Events of a pod.
func (s *stage) warnings(pod *corev1.Pod) (messages []string) {
	s.Helper()
	list, err := s.admin.CoreV1().Events(cluster.Namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	if err != nil {
		s.Fatal(err)
	}
	for _, event := range list.Items {
		messages = append(messages, event.Message)
	}
	return messages
}

// TestTheRoleOfTheWarning is enough for it, in the log and as an Event.
func TestTheRoleOfTheWarning(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		t.Run(kind, func(t *testing.T) {
			s := newStage(t)
			pod := s.addWorkload(kind)
			sidecar := s.startOf(talkative(t), pod, s.user(s.role("rollout-warning", "")))
			sidecar.Logs("warning: this pod is ready only while it leads")
			s.await("there is an Event", func() bool { return len(s.warnings(pod)) > 0 })
			if messages := s.warnings(pod); len(messages) != 1 || !strings.Contains(messages[0], kind) {
				t.Errorf("the Events are %q", messages)
			}
			if log := sidecar.Log(); strings.Contains(log, "403 Forbidden") {
				t.Errorf("it was denied something")
			}
		})
	}
}

// TestEachVerbOfTheWarning is needed: without it there is no Event.
func TestEachVerbOfTheWarning(t *testing.T) {
	_, verbs, resources := without(newStage(t).role("rollout-warning", ""))
	for i := range verbs {
		t.Run(verbs[i]+" "+resources[i], func(t *testing.T) {
			s := newStage(t)
			less, _, _ := without(s.role("rollout-warning", ""))
			kind := "Deployment"
			if resources[i] == "statefulsets" {
				kind = "StatefulSet"
			}
			pod := s.addWorkload(kind)
			sidecar := s.startOf(talkative(t), pod, s.user(less[i]))
			sidecar.Logs(fmt.Sprintf(`cannot %s resource \"%s\"`, verbs[i], resources[i])) // as it is quoted there
			sidecar.Leads()
			sidecar.Is(sigterm)
			sidecar.Exits(0)
			if messages := s.warnings(pod); len(messages) > 0 {
				t.Errorf("the Events are %q", messages)
			}
		})
	}
}

// TestWhoCanHandOutTheRoles: an administrator of a namespace has not all of these rights, and so cannot.
func TestWhoCanHandOutTheRoles(t *testing.T) {
	s := newStage(t)
	user := s.cluster.User(t)
	for _, name := range []string{"view", "edit", "admin"} { // what the ClusterRole admin is made of, by a controller
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user.Name + "-" + name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user.Name}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-" + name},
		}
		if _, err := s.admin.RbacV1().RoleBindings(cluster.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	roles := kubernetes.NewForConfigOrDie(user.Config).RbacV1().Roles(cluster.Namespace)
	for component, allowed := range map[string]bool{
		"names": true, "pod-label": true, "rollout-warning": true, "leader-service": false, "readiness-gate": false,
	} {
		role := s.role(component, "")
		s.await(fmt.Sprintf("it may apply the Role of %s: %t", component, allowed), func() bool {
			_, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
			status := apierrors.APIStatus(nil)
			if allowed {
				return err == nil || apierrors.IsAlreadyExists(err)
			}
			// Forbidden for what the Role grants, and not for want of the right to create Roles.
			return errors.As(err, &status) && strings.Contains(status.Status().Message, "attempting to grant RBAC permissions not currently held")
		})
	}
}
