// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
)

// The names that allNames states.
const (
	serviceName = "my-web-live"
	podLabel    = "example.com/role"
	gate        = "example.com/leads"
)

// allNames is the ConfigMap with what the signs need as well.
func allNames(lease, serviceAccount string) string {
	return names(lease, serviceAccount) + "  serviceName: " + serviceName + "\n  podLabel: " + podLabel + "\n  readinessGate: " + gate + "\n"
}

// sign is what a component adds, beside the sidecar, for a Lease "web".
type sign struct {
	role       string
	setting    string // in the ConfigMap
	variable   string
	annotation string // where the variable is from
	value      string
	rules      func(*testing.T) []rbacv1.PolicyRule
}

var signs = map[string]sign{
	"leader-service": {"elector-sidecar-service:web", "serviceName", "ELECTOR_SERVICE", "elector-sidecar/service", serviceName,
		askedBy(traffic.NewService(nil, serviceName, "shop/web", traffic.Pod{}))},
	"pod-label": {"elector-sidecar-label:web", "podLabel", "ELECTOR_POD_LABEL", "elector-sidecar/pod-label", podLabel,
		askedBy(traffic.NewLabel(nil, podLabel, "shop/web", traffic.Pod{}))},
	"readiness-gate": {"elector-sidecar-readiness-gate:web", "readinessGate", "ELECTOR_READINESS_GATE", "elector-sidecar/readiness-gate", gate,
		askedBy(traffic.NewGate(nil, gate, "shop/web", traffic.Pod{}))},
	"rollout-warning": {role: "elector-sidecar-rollout-warning:web", rules: func(*testing.T) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			{APIGroups: []string{"apps"}, Resources: []string{"replicasets", "deployments", "statefulsets"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}
	}},
}

var signComponents = slices.Sorted(maps.Keys(signs))

// withSigns are those of everything that have Roles of signs.
var withSigns = []string{"overlays/leader-service", "native-sidecar with all signs", "container with all signs"}

// askedBy is what the sidecar says, when it is denied something, that it needs.
func askedBy(s traffic.Sign) func(*testing.T) []rbacv1.PolicyRule {
	return func(t *testing.T) []rbacv1.PolicyRule {
		t.Helper()
		role := rbacv1.Role{}
		if err := json.Unmarshal([]byte(s.Role()), &role); err != nil || len(role.Rules) == 0 {
			t.Fatalf("the Role of %s is %s: %v", s, s.Role(), err)
		}
		return role.Rules
	}
}

// settings are what the annotations of a pod set.
func settings(pod corev1.PodTemplateSpec) map[string]string {
	set := map[string]string{}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, "elector-sidecar/") {
			set[key] = value
		}
	}
	return set
}

// TestASign adds its setting, its Role and nothing else.
func TestASign(t *testing.T) {
	for component := range components {
		for name, sign := range signs {
			t.Run(component+"/"+name, func(t *testing.T) {
				got := render(t, "app", map[string]string{
					"kustomization.yaml": kustomizationOf([]string{component, name}, ""),
					"elector.yaml":       allNames("web", "web"),
					"app.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n" +
						app("Deployment", "web", "") + app("StatefulSet", "store", ""),
				})
				got.checkSigns(t, "web", "shop", name)
				for _, w := range got.workloads {
					set := settings(w.pod)
					want := map[string]string{}
					if sign.setting != "" {
						want[sign.annotation] = sign.value
					}
					if !maps.Equal(set, want) {
						t.Errorf("%s: the pod's annotations are %v, want %v", w.name, set, want)
					}
					var gates []corev1.PodReadinessGate
					if name == "readiness-gate" {
						gates = []corev1.PodReadinessGate{{ConditionType: gate}}
					}
					if !equality.Semantic.DeepEqual(w.pod.Spec.ReadinessGates, gates) {
						t.Errorf("%s: the readiness gates are %v, want %v", w.name, w.pod.Spec.ReadinessGates, gates)
					}
				}
			})
		}
	}
}

// TestTheVariablesOfSigns are in the sidecar whichever components there are, and take what those set.
func TestTheVariablesOfSigns(t *testing.T) {
	for _, got := range everything(t) {
		for _, c := range got.sidecars(t) {
			env := environment(c)
			for name, sign := range signs {
				if sign.variable == "" {
					continue
				}
				if want := fmt.Sprintf("metadata.annotations['%s']", sign.annotation); env[sign.variable] != want {
					t.Errorf("%s: %s of %s is %q, want %q", got.name, sign.variable, name, env[sign.variable], want)
				}
			}
		}
	}
}

// checkSigns: beside the Role of the Lease there are those of the signs, for the same account.
func (r rendered) checkSigns(t *testing.T, account, namespace string, components ...string) {
	t.Helper()
	if len(r.roles) != 1+len(components) || len(r.bindings) != 1+len(components) {
		t.Fatalf("%s: there are %d Roles and %d RoleBindings for %v", r.name, len(r.roles), len(r.bindings), components)
	}
	for _, component := range components {
		sign := signs[component]
		i := slices.IndexFunc(r.roles, func(role *rbacv1.Role) bool { return role.Name == sign.role })
		j := slices.IndexFunc(r.bindings, func(b *rbacv1.RoleBinding) bool { return b.Name == sign.role })
		if i < 0 || j < 0 {
			t.Errorf("%s: there is no Role or RoleBinding %s", r.name, sign.role)
			continue
		}
		if rules := r.roles[i].Rules; !equality.Semantic.DeepEqual(rules, sign.rules(t)) {
			t.Errorf("%s: the rules of %s are %+v; want %+v", r.name, sign.role, rules, sign.rules(t))
		}
		if b := r.bindings[j]; b.RoleRef.Kind != "Role" || b.RoleRef.Name != sign.role ||
			!equality.Semantic.DeepEqual(b.Subjects, []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}) {
			t.Errorf("%s: the RoleBinding %s binds %+v to %+v", r.name, b.Name, b.RoleRef, b.Subjects)
		}
	}
}

// TestSignsInAnyOrder come out the same.
func TestSignsInAnyOrder(t *testing.T) {
	for component := range components {
		var first map[string]runtime.Object
		list := append([]string{component}, signComponents...)
		for range 2 {
			for range list {
				got := render(t, "app", map[string]string{
					"kustomization.yaml": kustomizationOf(list, ""),
					"elector.yaml":       allNames("web", "default"),
					"app.yaml":           app("Deployment", "web", "") + app("StatefulSet", "store", ""),
				})
				got.checkSigns(t, "default", "shop", signComponents...)
				objects := got.byName()
				if first == nil {
					first = objects
				}
				if !equality.Semantic.DeepEqual(objects, first) {
					t.Errorf("%v gives others: %+v; before: %+v", list, objects, first)
				}
				list = append(list[1:], list[0])
			}
			slices.Reverse(list)
		}
	}
}

func (r rendered) byName() map[string]runtime.Object {
	objects := map[string]runtime.Object{}
	for _, object := range r.all {
		objects[object.GetObjectKind().GroupVersionKind().Kind+"/"+object.(metav1.Object).GetName()] = object
	}
	return objects
}

// TestWhatAPodHasAlready stays beside what the signs add.
func TestWhatAPodHasAlready(t *testing.T) {
	got := render(t, "app", map[string]string{
		"kustomization.yaml": kustomizationOf(append([]string{"native-sidecar"}, signComponents...), ""),
		"elector.yaml":       allNames("web", "default"),
		"app.yaml": strings.Replace(strings.Replace(app("Deployment", "web", ""),
			"    metadata: {", "    metadata: {annotations: {mine: is-here}, ", 1),
			"    spec:\n", "    spec:\n      readinessGates: [{conditionType: example.com/mine}]\n", 1),
	})
	pod := got.workloads[0].pod
	if pod.Annotations["mine"] != "is-here" || len(pod.Annotations) != 4 {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
	if want := []corev1.PodReadinessGate{{ConditionType: "example.com/mine"}, {ConditionType: gate}}; !slices.Equal(pod.Spec.ReadinessGates, want) {
		t.Errorf("the readiness gates are %v, want %v", pod.Spec.ReadinessGates, want)
	}
}

// TestAWorkloadThatIsLeftOutHasNoSigns, of either kind.
func TestAWorkloadThatIsLeftOutHasNoSigns(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomizationOf(append(signComponents, "container"), ""),
			"elector.yaml":       allNames("web", "default"),
			"app.yaml":           app(kind, "cache", `elector-sidecar/inject: "false"`),
		})
		if pod := got.workloads[0].pod; len(pod.Annotations) > 0 || len(pod.Spec.ReadinessGates) > 0 {
			t.Errorf("%s: %+v", kind, pod)
		}
	}
}

// TestASignWithoutItsName is not rendered: the sidecar would not show the leader, and nobody would know.
func TestASignWithoutItsName(t *testing.T) {
	for name, sign := range signs {
		if sign.setting == "" {
			continue
		}
		_, err := run(t, "app", map[string]string{
			"kustomization.yaml": kustomizationOf([]string{"native-sidecar", name}, ""),
			"elector.yaml":       names("web", "default"),
			"app.yaml":           app("Deployment", "web", ""),
		})
		if err == nil || !strings.Contains(err.Error(), "data."+sign.setting) {
			t.Errorf("%s: the error is %v; it should tell of %s, which is missing", name, err, sign.setting)
		}
	}
}

// TestTheLeaderServiceOverlay has a Service that the sidecar can lead to its leader.
func TestTheLeaderServiceOverlay(t *testing.T) {
	got := render(t, "manifests/overlays/leader-service", nil)
	if len(got.workloads) != 1 || got.workloads[0].replicas != 3 || len(got.services) != 1 {
		t.Fatalf("the workloads are %+v, the Services %+v", got.workloads, got.services)
	}
	service := got.services[0]
	checkLeaderService(t, service)
	if set := settings(got.workloads[0].pod); !maps.Equal(set, map[string]string{"elector-sidecar/service": service.Name}) {
		t.Errorf("the pod's annotations are %v, and the Service is %s", set, service.Name)
	}
	want := askedBy(traffic.NewService(nil, service.Name, "", traffic.Pod{}))(t)
	for i, name := range []string{"elector-sidecar:app", "elector-sidecar-service:app"} {
		role, binding := got.roles[i], got.bindings[i]
		if role.Name != name || role.Namespace != service.Namespace || i == 1 && !equality.Semantic.DeepEqual(role.Rules, want) {
			t.Errorf("Role %s/%s has the rules %+v", role.Namespace, role.Name, role.Rules)
		}
		if binding.RoleRef.Name != role.Name || binding.Namespace != service.Namespace ||
			!equality.Semantic.DeepEqual(binding.Subjects, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "app", Namespace: service.Namespace}}) {
			t.Errorf("the RoleBinding is %+v", binding)
		}
	}
}

// checkLeaderService: the sidecar can do with a Service, and with the component's Role alone.
func checkLeaderService(t *testing.T, service *corev1.Service) {
	t.Helper()
	if len(service.Spec.Selector) > 0 || service.Spec.Type == corev1.ServiceTypeExternalName || len(service.Spec.Ports) == 0 {
		t.Errorf("the Service is %+v", service.Spec)
	}
	for _, port := range service.Spec.Ports {
		if port.TargetPort.Type == intstr.String {
			t.Errorf("the targetPort of %s is a name: that needs to get pods", port.Name)
		}
	}
}
