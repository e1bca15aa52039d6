// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestRender: the sidecar of manifests/ is in the pod, with the settings of the case and the image of the run.
func TestRender(t *testing.T) {
	shared = &cluster{appImage: "app:v1"}
	for _, shape := range Shapes {
		t.Run(shape.String(), func(t *testing.T) {
			setup := Setup{Shape: shape, Timings: Short, Sidecar: map[string]string{"ELECTOR_APP_HEALTH": "tcp://127.0.0.1:1"},
				Objects: []runtime.Object{Deployment("web", 2, App{Env: map[string]string{"APP_DRAIN": "5s"}, Grace: 7 * time.Second}), StatefulSet("db", 1, App{})}}
			objects, err := setup.render("../../..", "ns", "some.registry:5000/elector-sidecar:v7")
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, object := range objects {
				seen[object.GetKind()] = true
				if object.GetNamespace() != "ns" {
					t.Errorf("%s %s is in %q", object.GetKind(), object.GetName(), object.GetNamespace())
				}
				var pod corev1.PodTemplateSpec
				switch object.GetKind() {
				case "Deployment":
					var d appsv1.Deployment
					decode(t, object.Object, &d)
					pod = d.Spec.Template
					if *d.Spec.Replicas != 2 || *pod.Spec.TerminationGracePeriodSeconds != 7 {
						t.Errorf("the Deployment is %+v", d.Spec)
					}
				case "StatefulSet":
					var s appsv1.StatefulSet
					decode(t, object.Object, &s)
					pod = s.Spec.Template
				case "Role":
					var r rbacv1.Role
					decode(t, object.Object, &r)
					if r.Rules[1].ResourceNames[0] != LeaseName {
						t.Errorf("the Role is for %v", r.Rules)
					}
					continue
				default:
					continue
				}
				checkPod(t, shape, pod)
			}
			if !seen["Role"] || !seen["RoleBinding"] || !seen["Deployment"] || !seen["StatefulSet"] || seen["ConfigMap"] {
				t.Errorf("there is %v", seen)
			}
		})
	}
}

func checkPod(t *testing.T, shape Shape, pod corev1.PodTemplateSpec) {
	t.Helper()
	all := pod.Spec.InitContainers
	if shape == Ordinary {
		all = pod.Spec.Containers
	}
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == "elector-sidecar" })
	j := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "app" })
	if i < 0 || j < 0 || pod.Spec.Containers[j].Image != "app:v1" {
		t.Fatalf("the containers are %+v and %+v", pod.Spec.InitContainers, pod.Spec.Containers)
	}
	c := all[i]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{"ELECTOR_LEASE_NAME": LeaseName, "ELECTOR_LEASE_DURATION": "5s", "ELECTOR_RENEW_DEADLINE": "3s",
		"ELECTOR_RETRY_PERIOD": "1s", "ELECTOR_APP_HEALTH": "tcp://127.0.0.1:1"} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if shape == Ordinary && env["ELECTOR_HANDOVER_TIMEOUT"] != HandoverTimeout.String() {
		t.Errorf("the handover timeout of manifests/ is %q, not %s", env["ELECTOR_HANDOVER_TIMEOUT"], HandoverTimeout)
	}
	if c.Image != "some.registry:5000/elector-sidecar:v7" || c.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("the image is %s (%s)", c.Image, c.ImagePullPolicy)
	}
}

func decode(t *testing.T, from map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, true); err != nil {
		t.Fatal(err)
	}
}

func TestHandover(t *testing.T) {
	for _, c := range []struct {
		setup Setup
		want  time.Duration
	}{
		{Setup{Shape: Native}, 0}, {Setup{Shape: Ordinary}, HandoverTimeout},
		{Setup{Shape: Native, Sidecar: map[string]string{"ELECTOR_HANDOVER_TIMEOUT": "2s"}}, 2 * time.Second},
	} {
		if got := c.setup.handover(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.setup, got, c.want)
		}
	}
}
