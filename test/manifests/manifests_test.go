// SPDX-License-Identifier: Apache-2.0

// Package manifests_test renders what is in manifests/ as users would, and holds it to what the sidecar needs: no right
// too many, no probe that waits for the API server, and pods that the restricted pod security standard admits.
package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const root = "../.."

// names is the ConfigMap by which users state the names.
func names(lease, serviceAccount string) string {
	return `
apiVersion: v1
kind: ConfigMap
metadata:
  name: elector-sidecar
  annotations:
    config.kubernetes.io/local-config: "true"
data:
  leaseName: ` + lease + `
  serviceAccountName: ` + serviceAccount + "\n"
}

// kustomization is one of a user, with the component of the given name.
func kustomization(component, more string) string { return kustomizationOf([]string{component}, more) }

// kustomizationOf is one with several components, in that order.
func kustomizationOf(components []string, more string) string {
	var list strings.Builder
	for _, component := range components {
		list.WriteString("  - ../manifests/components/" + component + "\n")
	}
	return "resources: [elector.yaml, app.yaml]\nnamespace: shop\ncomponents:\n" + list.String() + more
}

// app is a workload of a user: the least that one may consist of.
func app(kind, name, more string) string {
	text := `
---
apiVersion: apps/v1
kind: ` + kind + `
metadata:
  name: ` + name + `
  labels: {` + more + `}
spec:
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec:
      containers: [{name: app, image: app}]
`
	if kind == "StatefulSet" {
		text += "  serviceName: " + name + "\n"
	}
	return text
}

// components are the ways in which the sidecar is added, with how to find it in a pod.
var components = map[string]func(corev1.PodSpec) []corev1.Container{
	"native-sidecar": func(pod corev1.PodSpec) []corev1.Container { return pod.InitContainers },
	"container":      func(pod corev1.PodSpec) []corev1.Container { return pod.Containers },
}

// TestEachKustomizationRenders finds those that nobody has thought of testing.
func TestEachKustomizationRenders(t *testing.T) {
	for _, path := range kustomizations(t) {
		t.Run(path, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(root, path, "kustomization.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(content), "kind: Component") {
				if len(render(t, path, nil).all) == 0 {
					t.Error("there is nothing in it")
				}
				return
			}
			got := render(t, "app", map[string]string{
				"kustomization.yaml": kustomization(filepath.Base(path), ""),
				"elector.yaml":       allNames("web", "default"),
				"app.yaml":           app("Deployment", "web", ""),
			})
			want := 1
			if filepath.Base(path) == "role-names" { // what the others have in common
				want = 0
			}
			if len(got.roles) != want {
				t.Errorf("it has %d Roles, not %d", len(got.roles), want)
			}
		})
	}
}

// TestTheLeaseIsNamedOnce: what the ConfigMap says is what the pods contend for and what the Role allows.
func TestTheLeaseIsNamedOnce(t *testing.T) {
	for component := range components {
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			t.Run(component+"/"+kind, func(t *testing.T) {
				got := render(t, "app", map[string]string{
					"kustomization.yaml": kustomization(component, ""),
					"elector.yaml":       names("some.lease-1", "default"),
					"app.yaml":           app(kind, "web", ""),
				})
				got.checkNames(t, "some.lease-1", "default", "shop")
				if len(got.configMaps) > 0 {
					t.Error("the ConfigMap reaches the cluster")
				}
			})
		}
	}
}

// TestTheUsersOwnServiceAccount is named in the RoleBinding as it is called in the end, in its namespace.
func TestTheUsersOwnServiceAccount(t *testing.T) {
	got := render(t, "app", map[string]string{
		"kustomization.yaml": kustomization("native-sidecar", "namePrefix: dev-\n"),
		"elector.yaml":       names("web", "web"),
		"app.yaml":           "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n" + app("Deployment", "web", ""),
	})
	got.checkNames(t, "web", "dev-web", "shop")
	got = render(t, "app", map[string]string{
		"kustomization.yaml": kustomizationOf(append(signComponents, "native-sidecar"), "namePrefix: dev-\n"),
		"elector.yaml":       allNames("web", "web"),
		"app.yaml":           "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n" + app("Deployment", "web", ""),
	})
	for _, binding := range got.bindings {
		if !slices.ContainsFunc(got.roles, func(r *rbacv1.Role) bool { return r.Name == binding.RoleRef.Name }) || binding.Subjects[0].Name != "dev-web" {
			t.Errorf("%s is of %+v to %+v", binding.Name, binding.RoleRef, binding.Subjects)
		}
	}
}

// TestAServiceAccountFromElsewhere is given its namespace by the patch of the README.
func TestAServiceAccountFromElsewhere(t *testing.T) {
	got := render(t, "app", map[string]string{
		"kustomization.yaml": kustomization("native-sidecar", readmePatch(t, "kind: RoleBinding")),
		"elector.yaml":       names("web", "others"),
		"app.yaml":           app("Deployment", "web", ""),
	})
	got.checkNames(t, "web", "others", "shop")
	got = render(t, "app", map[string]string{
		"kustomization.yaml": kustomizationOf(append(signComponents, "native-sidecar"), readmePatch(t, "kind: RoleBinding")),
		"elector.yaml":       allNames("web", "others"),
		"app.yaml":           app("Deployment", "web", ""),
	})
	got.checkSigns(t, "others", "shop", signComponents...)
}

// TestSettings are patched in as the README shows.
func TestSettings(t *testing.T) {
	got := render(t, "app", map[string]string{
		"kustomization.yaml": kustomization("native-sidecar", readmePatch(t, "ELECTOR_LEASE_DURATION")),
		"elector.yaml":       names("web", "default"),
		"app.yaml":           app("Deployment", "web", ""),
	})
	env := environment(got.sidecars(t)[0])
	if env["ELECTOR_LEASE_DURATION"] != "30s" || env["ELECTOR_RENEW_DEADLINE"] != "20s" || env["ELECTOR_LEASE_NAME"] != "web" {
		t.Errorf("the sidecar's environment is %v", env)
	}
}

// TestTwoAppsOfOneNamespace have Roles of their own: with one name, the later would take away the earlier's rights.
func TestTwoAppsOfOneNamespace(t *testing.T) {
	seen := map[string]bool{}
	for _, lease := range []string{"web", "worker"} {
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomizationOf(append([]string{"native-sidecar"}, signComponents...), ""),
			"elector.yaml":       allNames(lease, "default"),
			"app.yaml":           app("Deployment", lease, ""),
		})
		for i := range got.roles {
			for _, name := range []string{"Role/" + got.roles[i].Name, "RoleBinding/" + got.bindings[i].Name} {
				if seen[name] {
					t.Errorf("both have a %s", name)
				}
				seen[name] = true
			}
		}
	}
}

// TestAWorkloadThatIsLeftOut stays as it is.
func TestAWorkloadThatIsLeftOut(t *testing.T) {
	for component, of := range components {
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomization(component, ""),
			"elector.yaml":       names("web", "default"),
			"app.yaml":           app("Deployment", "web", "") + app("Deployment", "cache", `elector-sidecar/inject: "false"`),
		})
		for _, workload := range got.workloads {
			has := slices.ContainsFunc(of(workload.pod.Spec), isSidecar)
			if want := workload.name == "web"; has != want || (len(workload.pod.Spec.Volumes) > 0) != want {
				t.Errorf("%s: %s has the sidecar: %t, want %t", component, workload.name, has, want)
			}
		}
	}
}

// TestWithoutNames nothing is rendered: a lease name that is nobody's choice would be shared by chance.
func TestWithoutNames(t *testing.T) {
	for component := range components {
		_, err := run(t, "app", map[string]string{
			"kustomization.yaml": strings.Replace(kustomization(component, ""), "elector.yaml, ", "", 1), "app.yaml": app("Deployment", "web", ""),
		})
		if err == nil || !strings.Contains(err.Error(), "elector-sidecar") || !strings.Contains(err.Error(), "ConfigMap") {
			t.Errorf("%s: the error is %v; it should tell of the ConfigMap that is missing", component, err)
		}
	}
}

// TestTheRole grants what the sidecar needs and no more, where no sign is asked for.
func TestTheRole(t *testing.T) {
	for _, got := range everything(t) {
		if slices.Contains(withSigns, got.name) {
			continue
		}
		if len(got.roles) != 1 || len(got.bindings) != 1 || len(got.all) != got.known {
			t.Fatalf("%s has %d Roles, %d RoleBindings and %d objects of other kinds; want 1, 1, 0", got.name, len(got.roles), len(got.bindings), len(got.all)-got.known)
		}
		role := got.roles[0]
		lease := strings.TrimPrefix(role.Name, "elector-sidecar:")
		want := []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "list", "watch", "update"}},
		}
		if !equality.Semantic.DeepEqual(role.Rules, want) {
			t.Errorf("%s: the Role's rules are %+v; want %+v", got.name, role.Rules, want)
		}
	}
}

// TestTheSidecar is what each kustomization adds.
func TestTheSidecar(t *testing.T) {
	known := variables(t)
	for _, got := range everything(t) {
		for _, c := range got.sidecars(t) {
			t.Run(got.name, func(t *testing.T) {
				checkProbes(t, c)
				for _, e := range c.Env {
					if !slices.Contains(known, e.Name) {
						t.Errorf("%s is no variable of elector-sidecar --help", e.Name)
					}
				}
				env := environment(c)
				for name, want := range map[string]string{
					"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid",
					"POD_IP": "status.podIPs", "NODE_NAME": "spec.nodeName",
				} {
					if env[name] != want {
						t.Errorf("%s is %q, want %q", name, env[name], want)
					}
				}
				if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("the resources are %+v: a request of CPU, and both of memory, are missing", c.Resources)
				}
				if !c.Resources.Limits.Cpu().IsZero() {
					t.Error("there is a CPU limit: a throttled leader renews late")
				}
				s := c.SecurityContext
				if s == nil || s.RunAsUser == nil || *s.RunAsUser == 0 || s.RunAsNonRoot == nil || !*s.RunAsNonRoot ||
					s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("the security context is %+v", s)
				}
				if c.Lifecycle != nil {
					t.Error("there is a lifecycle hook: preStop runs while the app is still at work")
				}
				native := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
				_, waits := env["ELECTOR_HANDOVER_TIMEOUT"]
				if native == waits {
					t.Errorf("native: %t, with ELECTOR_HANDOVER_TIMEOUT: %t; an ordinary container needs it, since SIGTERM reaches the app at the same time", native, waits)
				}
			})
		}
	}
}

// checkProbes: nothing may restart the sidecar, hold back the app or take the pod out of its Services because the API
// server is away.
func checkProbes(t *testing.T, c corev1.Container) {
	t.Helper()
	if c.StartupProbe != nil {
		t.Errorf("there is a startupProbe, %+v: the app's start waits for a native sidecar's", c.StartupProbe)
	}
	if c.ReadinessProbe != nil {
		t.Errorf("there is a readinessProbe, %+v: the pod's readiness waits for it", c.ReadinessProbe)
	}
	live := c.LivenessProbe
	if live == nil || live.HTTPGet == nil || live.HTTPGet.Path != "/healthz" {
		t.Fatalf("the livenessProbe is %+v, want one on /healthz", live)
	}
	port := live.HTTPGet.Port
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
		return p.ContainerPort == 4040 && (port == intstr.FromString(p.Name) || port == intstr.FromInt32(p.ContainerPort))
	}) {
		t.Errorf("the livenessProbe's port %s is not 4040, by %+v", port.String(), c.Ports)
	}
}

// TestPodSecurity: the example's pod is admitted by the restricted standard, and a pod that is gains nothing that is not
// from a component.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, got := range everything(t) {
		for _, workload := range got.workloads {
			spec := workload.pod.Spec.DeepCopy()
			if !strings.HasPrefix(got.name, "overlays/") { // the user's container in a test is not
				spec.Containers = slices.DeleteFunc(spec.Containers, func(c corev1.Container) bool { return !isSidecar(c) })
			}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &workload.pod.ObjectMeta, spec))
			if !result.Allowed {
				t.Errorf("%s: %s: %s", got.name, workload.name, result.ForbiddenDetail())
			}
		}
	}
}

// TestTheToken is mounted where client-go looks for it, from the pod's own volumes: pods may have
// automountServiceAccountToken: false.
func TestTheToken(t *testing.T) {
	for _, got := range everything(t) {
		for _, workload := range got.workloads {
			for _, c := range workload.sidecars() {
				i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
					return m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" && m.ReadOnly
				})
				if i < 0 {
					t.Fatalf("%s: the mounts are %+v", got.name, c.VolumeMounts)
				}
				j := slices.IndexFunc(workload.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[i].Name })
				if j < 0 || workload.pod.Spec.Volumes[j].Projected == nil {
					t.Fatalf("%s: the volumes are %+v", got.name, workload.pod.Spec.Volumes)
				}
				var files []string
				for _, source := range workload.pod.Spec.Volumes[j].Projected.Sources {
					switch {
					case source.ServiceAccountToken != nil:
						files = append(files, source.ServiceAccountToken.Path)
					case source.ConfigMap != nil:
						files = append(files, source.ConfigMap.Items[0].Path)
					case source.DownwardAPI != nil:
						files = append(files, source.DownwardAPI.Items[0].Path)
					}
				}
				slices.Sort(files)
				if want := []string{"ca.crt", "namespace", "token"}; !slices.Equal(files, want) {
					t.Errorf("%s: the files are %v, want %v", got.name, files, want)
				}
			}
		}
	}
}

// TestBothComponentsAddTheSameContainer, but for what makes them two.
func TestBothComponentsAddTheSameContainer(t *testing.T) {
	var added []corev1.Container
	var volumes [][]corev1.Volume
	for component := range components {
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomization(component, ""), "elector.yaml": names("web", "default"), "app.yaml": app("Deployment", "web", ""),
		})
		c := got.sidecars(t)[0]
		c.RestartPolicy = nil
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "ELECTOR_HANDOVER_TIMEOUT" })
		added = append(added, c)
		volumes = append(volumes, got.workloads[0].pod.Spec.Volumes)
	}
	if !equality.Semantic.DeepEqual(added[0], added[1]) {
		t.Errorf("the containers differ:\n%+v\n%+v", added[0], added[1])
	}
	if !equality.Semantic.DeepEqual(volumes[0], volumes[1]) {
		t.Errorf("the volumes differ:\n%+v\n%+v", volumes[0], volumes[1])
	}
}

// TestTheImage is one name that users replace.
func TestTheImage(t *testing.T) {
	for component := range components {
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomization(component, "images: [{name: elector-sidecar, newName: mine/elector, newTag: v1}]\n"),
			"elector.yaml":       names("web", "default"),
			"app.yaml":           app("Deployment", "web", ""),
		})
		if image := got.sidecars(t)[0].Image; image != "mine/elector:v1" {
			t.Errorf("%s: the image is %s", component, image)
		}
	}
}

// TestTheExample completes: a rollout, and a drain.
func TestTheExample(t *testing.T) {
	got := render(t, "manifests/overlays/example", nil)
	got.checkNames(t, "app", "app", "elector-example")
	if len(got.workloads) != 1 || got.workloads[0].replicas < 2 {
		t.Fatalf("the workloads are %+v", got.workloads)
	}
	if account := got.workloads[0].pod.Spec.ServiceAccountName; account != "app" {
		t.Errorf("the pods run under %q, not under the account of the RoleBinding", account)
	}
	for _, budget := range got.budgets {
		if budget.Spec.MinAvailable != nil || budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() < 1 {
			t.Errorf("the budget is %+v: it can block a drain", budget.Spec)
		}
	}
	for _, c := range got.workloads[0].pod.Spec.Containers {
		if p := c.ReadinessProbe; p != nil && p.HTTPGet != nil && strings.Contains(p.HTTPGet.Path, "leader") {
			t.Error("only a leader is ready: that blocks a rolling update")
		}
	}
}

// everything is the base, the overlays, and a user's app by each component, also with all signs.
func everything(t *testing.T) []rendered {
	t.Helper()
	list := []rendered{render(t, "manifests/base", nil), render(t, "manifests/overlays/example", nil), render(t, "manifests/overlays/leader-service", nil)}
	for component := range components {
		all := render(t, "app", map[string]string{
			"kustomization.yaml": kustomizationOf(append([]string{component}, signComponents...), ""),
			"elector.yaml":       allNames("web", "default"),
			"app.yaml":           app("Deployment", "web", "") + app("StatefulSet", "store", ""),
		})
		all.name = component + " with all signs"
		list = append(list, all)
		got := render(t, "app", map[string]string{
			"kustomization.yaml": kustomization(component, ""),
			"elector.yaml":       names("web", "default"),
			"app.yaml":           app("Deployment", "web", "") + app("StatefulSet", "store", ""),
		})
		got.name = component
		list = append(list, got)
	}
	return list
}

// rendered is what kustomize makes of a folder.
type rendered struct {
	name       string
	all        []runtime.Object
	known      int // how many of them are of the kinds below
	roles      []*rbacv1.Role
	bindings   []*rbacv1.RoleBinding
	configMaps []*corev1.ConfigMap
	services   []*corev1.Service
	budgets    []*policyv1.PodDisruptionBudget
	workloads  []workload
}

type workload struct {
	name     string
	replicas int32
	pod      corev1.PodTemplateSpec
}

func isSidecar(c corev1.Container) bool { return c.Name == "elector-sidecar" }

func (w workload) sidecars() []corev1.Container {
	both := slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers)
	return slices.DeleteFunc(both, func(c corev1.Container) bool { return !isSidecar(c) })
}

// sidecars is that of each workload.
func (r rendered) sidecars(t *testing.T) []corev1.Container {
	t.Helper()
	var list []corev1.Container
	for _, w := range r.workloads {
		its := w.sidecars()
		if len(its) != 1 {
			t.Fatalf("%s: %s has %d containers elector-sidecar", r.name, w.name, len(its))
		}
		list = append(list, its...)
	}
	return list
}

func (r rendered) checkNames(t *testing.T, lease, account, namespace string) {
	t.Helper()
	if len(r.roles) != 1 || len(r.bindings) != 1 {
		t.Fatalf("there are %d Roles and %d RoleBindings", len(r.roles), len(r.bindings))
	}
	role, binding := r.roles[0], r.bindings[0]
	if got := role.Rules[1].ResourceNames; !slices.Equal(got, []string{lease}) {
		t.Errorf("the Role is for %q, want %q", got, lease)
	}
	for _, c := range r.sidecars(t) {
		if got := environment(c)["ELECTOR_LEASE_NAME"]; got != lease {
			t.Errorf("the pods contend for %q, want %q", got, lease)
		}
	}
	if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name || role.Namespace != namespace || binding.Namespace != namespace {
		t.Errorf("the RoleBinding %s/%s is to %+v, and the Role is %s/%s", binding.Namespace, binding.Name, binding.RoleRef, role.Namespace, role.Name)
	}
	if want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: namespace}}; !equality.Semantic.DeepEqual(binding.Subjects, want) {
		t.Errorf("the RoleBinding is for %+v, want %+v", binding.Subjects, want)
	}
}

// environment is a container's, with the field for what comes from one.
func environment(c corev1.Container) map[string]string {
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			env[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	return env
}

// render renders a folder, and decodes what comes out strictly: a field that does not exist is an error.
func render(t *testing.T, folder string, files map[string]string) rendered {
	t.Helper()
	documents, err := run(t, folder, files)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	r := rendered{name: strings.TrimPrefix(folder, "manifests/")}
	for _, document := range documents {
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", folder, err, document)
		}
		r.all = append(r.all, object)
		r.known++
		switch o := object.(type) {
		case *rbacv1.Role:
			r.roles = append(r.roles, o)
		case *rbacv1.RoleBinding:
			r.bindings = append(r.bindings, o)
		case *corev1.ConfigMap:
			r.configMaps = append(r.configMaps, o)
		case *corev1.Service:
			r.services = append(r.services, o)
		case *policyv1.PodDisruptionBudget:
			r.budgets = append(r.budgets, o)
		case *appsv1.Deployment:
			r.workloads = append(r.workloads, workload{o.Name, valueOr(o.Spec.Replicas, 1), o.Spec.Template})
		case *appsv1.StatefulSet:
			r.workloads = append(r.workloads, workload{o.Name, valueOr(o.Spec.Replicas, 1), o.Spec.Template})
		case *corev1.Namespace, *corev1.ServiceAccount:
		default:
			r.known--
		}
	}
	return r
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// run runs kustomize on a folder of the repository; files, if any, are what is in it instead.
func run(t *testing.T, folder string, files map[string]string) ([][]byte, error) {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	err := filepath.WalkDir(filepath.Join(root, "manifests"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return fs.WriteFile("/"+strings.TrimPrefix(path, root+"/"), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := fs.WriteFile(filepath.Join("/", folder, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/"+folder)
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, object := range objects.Resources() {
		document, err := object.AsYAML()
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return documents, nil
}

// kustomizations is each folder under manifests/ that has one, from the repository's root.
func kustomizations(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "manifests"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "kustomization.yaml" {
			folders = append(folders, strings.TrimPrefix(filepath.Dir(path), root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// readmePatch is the example of manifests/README.md that contains a text.
func readmePatch(t *testing.T, text string) string {
	t.Helper()
	for _, block := range readmeBlocks(t) {
		if strings.HasPrefix(block, "patches:") && strings.Contains(block, text) {
			return block
		}
	}
	t.Fatalf("manifests/README.md has no patch with %q", text)
	return ""
}

// readmeBlocks are the examples of manifests/README.md.
func readmeBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "manifests/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// variables is what the sidecar's --help names.
func variables(t *testing.T) (list []string) {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), built(t), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^([A-Z][A-Z_]+)  `).FindAllStringSubmatch(string(help), -1) {
		list = append(list, match[1])
	}
	if !slices.Contains(list, "ELECTOR_LEASE_NAME") {
		t.Fatalf("--help names the variables %v:\n%s", list, help)
	}
	return list
}

// binary is the sidecar of this tree, built when it is first asked for.
var binary = sync.OnceValues(func() (string, error) { return sidecar.Build(root, buildDir) })

var buildDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "manifests-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		buildDir = dir
		code := m.Run()
		if controlPlane.Cluster != nil {
			if err := controlPlane.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
				return 1
			}
		}
		return code
	}())
}

func built(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDocumentation: the variables that the texts speak of exist.
func TestDocumentation(t *testing.T) {
	known := variables(t)
	err := filepath.WalkDir(filepath.Join(root, "manifests"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`ELECTOR_[A-Z_]+`).FindAllString(string(content), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s speaks of %s, which elector-sidecar --help does not name", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
