// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Evict asks for a pod's eviction, as kubectl drain does, and tells whether it is granted: a disruption budget refuses it with
// 429. A granted one begins to delete the pod.
func (s *Stage) Evict(pod string) (granted bool) {
	s.T.Helper()
	err := s.PolicyV1().Evictions(s.Namespace).Evict(s.T.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: s.Namespace}})
	if err != nil && !apierrors.IsTooManyRequests(err) {
		s.T.Fatalf("evict %s: %v", pod, err)
	}
	return err == nil
}

// Gone waits until a pod has gone; another of its name is another pod.
func (s *Stage) Gone(pod Member) {
	s.T.Helper()
	s.Await("the pod "+pod.Name+" has gone", func() bool {
		is, err := s.CoreV1().Pods(s.Namespace).Get(s.T.Context(), pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && string(is.UID) != pod.UID
	})
}

// Drain evicts the pods one after another, each again and again until it is granted, as kubectl drain does on a node with all of
// them. It goes on to the next when a pod has gone, and gives up on one that is refused for so long. It returns those.
func (s *Stage) Drain(pods []Member, refusedFor time.Duration) (refused []Member) {
	s.T.Helper()
	for _, pod := range pods {
		err := pollFor(s.T.Context(), refusedFor, "the eviction is granted", func() (bool, error) { return s.Evict(pod.Name), nil })
		if err != nil {
			refused = append(refused, pod)
			continue
		}
		s.Gone(pod)
	}
	return refused
}

// removePod deletes a pod of a namespace without waiting for its processes.
func (s *Stage) removePod(namespace, name string) error {
	err := s.CoreV1().Pods(namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Budget is a PodDisruptionBudget of the pods with the label app.
func Budget(app string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       spec,
	}
}

// Service is one of the apps. Without a selector it has no endpoints but those that a leader writes.
func Service(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: portNumber}}},
	}
}
