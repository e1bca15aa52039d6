// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/util/retry"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// appLabel is on the pods of a test.
const appLabel = "app"

// serviceOf creates the Service of a spec, with a name that no other test has, and tells the sidecars that are started from
// now on to lead it to the leader.
func (s *scenario) serviceOf(spec corev1.ServiceSpec) *corev1.Service {
	s.Helper()
	s.service = "svc-" + rand.String(10)
	service := s.createService(spec)
	s.env = append(s.env, "ELECTOR_SERVICE="+s.service)
	return service
}

// aService is serviceOf for any will do.
func (s *scenario) aService() *corev1.Service {
	s.Helper()
	return s.serviceOf(corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
}

func (s *scenario) createService(spec corev1.ServiceSpec) *corev1.Service {
	s.Helper()
	services := client.CoreV1().Services(cluster.Namespace)
	service, err := services.Create(s.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.service}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx := context.Background()
		s.forgiveGone(services.Delete(ctx, service.Name, metav1.DeleteOptions{}))
		s.forgiveGone(client.DiscoveryV1().EndpointSlices(cluster.Namespace).Delete(ctx, s.sliceName(), metav1.DeleteOptions{}))
	})
	return service
}

func (s *scenario) deleteService() {
	s.Helper()
	if err := client.CoreV1().Services(cluster.Namespace).Delete(s.Context(), s.service, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) changeService(change func(*corev1.Service)) {
	s.Helper()
	services := client.CoreV1().Services(cluster.Namespace)
	service, err := services.Get(s.Context(), s.service, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	change(service)
	if _, err := services.Update(s.Context(), service, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) sliceName() string { return traffic.SliceName(s.service) }

// slice is the EndpointSlice now, nil where there is none.
func (s *scenario) slice() *discoveryv1.EndpointSlice {
	s.Helper()
	slice, err := client.DiscoveryV1().EndpointSlices(cluster.Namespace).Get(s.Context(), s.sliceName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return slice
}

func (s *scenario) changeSlice(change func(*discoveryv1.EndpointSlice)) {
	s.Helper()
	endpointSlices := client.DiscoveryV1().EndpointSlices(cluster.Namespace)
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		slice, err := endpointSlices.Get(s.Context(), s.sliceName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(slice)
		_, err = endpointSlices.Update(s.Context(), slice, metav1.UpdateOptions{})
		return err
	}); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) createSlice(slice *discoveryv1.EndpointSlice) {
	s.Helper()
	slice.Name = s.sliceName()
	if _, err := client.DiscoveryV1().EndpointSlices(cluster.Namespace).Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) deleteSlice() {
	s.Helper()
	if err := client.DiscoveryV1().EndpointSlices(cluster.Namespace).Delete(s.Context(), s.sliceName(), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// shown is to whom an EndpointSlice leads: addresses, or "nobody".
func shown(slice *discoveryv1.EndpointSlice) string {
	if slice == nil || len(slice.Endpoints) == 0 {
		return "nobody"
	}
	text := ""
	for _, endpoint := range slice.Endpoints {
		for _, address := range endpoint.Addresses {
			text += "," + address
		}
	}
	return text[1:]
}

// leadsTo waits until the Service leads to a pod, and to no other.
func (s *scenario) leadsTo(m member) *discoveryv1.EndpointSlice {
	s.Helper()
	return s.leads(m.address)
}

// leadsToNobody waits until the Service leads to no pod.
func (s *scenario) leadsToNobody() *discoveryv1.EndpointSlice {
	s.Helper()
	return s.leads("nobody")
}

func (s *scenario) leads(to string) *discoveryv1.EndpointSlice {
	s.Helper()
	var slice *discoveryv1.EndpointSlice
	s.await("the Service to lead to "+to, func() error {
		if slice = s.slice(); shown(slice) != to {
			return fmt.Errorf("it leads to %s", shown(slice))
		}
		return nil
	})
	return slice
}

// createPod creates the pod number n in the cluster. The change may be nil.
func (s *scenario) createPod(n int, change func(*corev1.Pod)) member {
	s.Helper()
	m := s.member(n)
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{appLabel: s.app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	if change != nil {
		change(object)
	}
	pods := client.CoreV1().Pods(cluster.Namespace)
	pod, err := pods.Create(s.Context(), object, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	m.uid = string(pod.UID)
	s.Cleanup(func() { s.forgiveGone(pods.Delete(context.Background(), m.name, atOnce(pod.UID))) })
	return m
}

// atOnce deletes a pod as somebody does who does not wait for its kubelet.
func atOnce(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}}
}

// pod is the pod in the cluster.
func (s *scenario) pod(m member) *corev1.Pod {
	s.Helper()
	pod, err := client.CoreV1().Pods(cluster.Namespace).Get(s.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

func (s *scenario) changePod(m member, change func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pods := client.CoreV1().Pods(cluster.Namespace)
	var changed *corev1.Pod
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := pods.Get(s.Context(), m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(pod)
		changed, err = pods.Update(s.Context(), pod, metav1.UpdateOptions{})
		return err
	}); err != nil {
		s.Fatal(err)
	}
	return changed
}

// ours is what an EndpointSlice of the Service is known by.
func ours(service *corev1.Service) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "elector-sidecar"}}
}
