// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// App is how the app in a pod behaves.
type App struct {
	Env   map[string]string // what test/e2e/app documents: APP_DRAIN and so on
	Grace time.Duration     // terminationGracePeriodSeconds; 30 s where 0
}

// Deployment is one of the app. Change it as you like before you give it to New.
func Deployment(name string, replicas int32, app App) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: app.template(name),
		},
	}
}

// StatefulSet is one of the app.
func StatefulSet(name string, replicas int32, app App) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template:    app.template(name),
		},
	}
}

// template is a pod of the app. Its PID namespace is shared and its user is the sidecar's, so that the app can kill the
// sidecar for a test; nothing else needs that.
func (a App) template(name string) corev1.PodTemplateSpec {
	env := []corev1.EnvVar{
		{Name: "POD_NAME", ValueFrom: field("metadata.name")},
		{Name: "POD_UID", ValueFrom: field("metadata.uid")},
	}
	for _, key := range slices.Sorted(maps.Keys(a.Env)) {
		env = append(env, corev1.EnvVar{Name: key, Value: a.Env[key]})
	}
	pod := program("app", env...)
	pod.ShareProcessNamespace = new(true)
	if a.Grace > 0 {
		pod.TerminationGracePeriodSeconds = new(int64(a.Grace / time.Second))
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: pod}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

// program is a pod that runs test/e2e/app as one of its programs.
func program(name string, env ...corev1.EnvVar) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: name, Image: shared.appImage, Args: []string{name}, ImagePullPolicy: corev1.PullIfNotPresent, Env: env,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(port)}},
				PeriodSeconds: 1,
			},
			// More than the sidecar's, so that on a busy node the programs are not the first to get no time: a pod without any
			// request has next to none.
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// port is where the programs answer, and api where the sidecar does.
const (
	port = 8080
	api  = 4040
)
