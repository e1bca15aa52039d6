// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ready tells whether a pod is ready and not told to stop.
func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func bracketed(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		return "[" + address + "]"
	}
	return address
}

// Pods are the pods of the stage.
func (s *Stage) Pods() []corev1.Pod {
	s.T.Helper()
	list, err := s.CoreV1().Pods(s.Namespace).List(s.T.Context(), metav1.ListOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// Pod is one of them.
func (s *Stage) Pod(name string) *corev1.Pod {
	s.T.Helper()
	pod, err := s.CoreV1().Pods(s.Namespace).Get(s.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return pod
}

// Delete begins to delete a pod, in good order.
func (s *Stage) Delete(pod string) { s.delete(pod, metav1.DeleteOptions{}) }

// ForceDelete takes a pod's object away at once, whether or not its processes have ended.
func (s *Stage) ForceDelete(pod string) {
	s.delete(pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

func (s *Stage) delete(pod string, o metav1.DeleteOptions) {
	s.T.Helper()
	if err := s.CoreV1().Pods(s.Namespace).Delete(s.T.Context(), pod, o); err != nil {
		s.T.Fatal(err)
	}
}

// Scale sets the replicas of a Deployment.
func (s *Stage) Scale(deployment string, replicas int32) {
	s.T.Helper()
	deployments := s.AppsV1().Deployments(s.Namespace)
	s.AwaitNil("the Deployment can be scaled", func() error {
		scale, err := deployments.GetScale(s.T.Context(), deployment, metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = replicas
		_, err = deployments.UpdateScale(s.T.Context(), deployment, scale, metav1.UpdateOptions{})
		return err
	})
}

// Kill sends SIGKILL to the processes of "sidecar", "app" or "both" in a pod.
func (s *Stage) Kill(pod, who string) { s.Post(pod, "kill/"+who, nil) }

// Post sends a POST to the app in a pod.
func (s *Stage) Post(pod, path string, parameters map[string]string) {
	s.T.Helper()
	request := s.CoreV1().RESTClient().Post().Namespace(s.Namespace).Resource("pods").SubResource("proxy").
		Name("http:" + pod + ":" + strconv.Itoa(port)).Suffix(path)
	for name, value := range parameters {
		request = request.Param(name, value)
	}
	if err := request.Do(s.T.Context()).Error(); err != nil {
		s.T.Fatalf("POST %s of %s: %v", path, pod, err)
	}
}

// Get decodes what the app in a pod answers.
func (s *Stage) Get(pod, path string, into any) error { return s.get(pod, port, path, into) }

// Ask decodes what the sidecar in a pod answers.
func (s *Stage) Ask(pod, path string, into any) error { return s.get(pod, api, path, into) }

func (s *Stage) get(pod string, port int, path string, into any) error {
	content, err := s.raw(pod, port, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func (s *Stage) raw(pod string, port int, path string) ([]byte, error) {
	return s.CoreV1().Pods(s.Namespace).ProxyGet("http", pod, strconv.Itoa(port), path, nil).DoRaw(s.T.Context())
}
