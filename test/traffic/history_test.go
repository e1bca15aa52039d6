// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// history is every version of some objects that a watch sees, in the order in which they were stored.
type history[T metav1.Object] struct {
	s    *scenario
	list func(context.Context, metav1.ListOptions) ([]T, error)

	mu       sync.Mutex
	versions []T
	changed  chan struct{} // closed at the next
}

// record begins a history; it ends with the test.
func record[T metav1.Object](s *scenario, options metav1.ListOptions,
	list func(context.Context, metav1.ListOptions) ([]T, error),
	see func(context.Context, metav1.ListOptions) (watch.Interface, error)) *history[T] {
	s.Helper()
	h := &history[T]{s: s, changed: make(chan struct{})}
	h.list = func(ctx context.Context, _ metav1.ListOptions) ([]T, error) { return list(ctx, options) }
	watcher, err := see(s.Context(), options)
	if err != nil {
		s.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(T); ok && event.Type != watch.Deleted {
				h.mu.Lock()
				h.versions = append(h.versions, object)
				close(h.changed)
				h.changed = make(chan struct{})
				h.mu.Unlock()
			}
		}
	}()
	s.Cleanup(func() {
		watcher.Stop()
		<-done
	})
	return h
}

// seen is what was seen so far.
func (h *history[T]) seen() ([]T, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.versions[:len(h.versions):len(h.versions)], h.changed
}

// await waits until a version has been seen that is as wanted, and returns the first.
func (h *history[T]) await(what string, wanted func(T) bool) T {
	h.s.Helper()
	deadline := time.After(patience)
	for {
		versions, changed := h.seen()
		for _, v := range versions {
			if wanted(v) {
				return v
			}
		}
		select {
		case <-changed:
		case <-deadline:
			h.s.Fatalf("waiting for %s; seen: %+v", what, versions)
		}
	}
}

// untilNow is every version that has been stored until now.
func (h *history[T]) untilNow() []T {
	h.s.Helper()
	objects, err := h.list(h.s.Context(), metav1.ListOptions{})
	if err != nil {
		h.s.Fatal(err)
	}
	for _, object := range objects {
		h.await("the watch to be up to date", func(v T) bool { return v.GetUID() == object.GetUID() && rv(v) >= rv(object) })
	}
	versions, _ := h.seen()
	return versions
}

// rv is a resourceVersion. Those of all objects are of one etcd, and so in the order in which they were stored.
func rv(object metav1.Object) uint64 {
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64) // 0 fails whoever compares
	return version
}

func pointers[T any](items []T) []*T {
	var all []*T
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

// sliceHistory records the EndpointSlice of the scenario's Service.
func (s *scenario) sliceHistory() *history[*discoveryv1.EndpointSlice] {
	s.Helper()
	all := client.DiscoveryV1().EndpointSlices(cluster.Namespace)
	return record(s, metav1.ListOptions{FieldSelector: "metadata.name=" + s.sliceName()},
		func(ctx context.Context, options metav1.ListOptions) ([]*discoveryv1.EndpointSlice, error) {
			list, err := all.List(ctx, options)
			return pointers(list.Items), err
		}, all.Watch)
}

// leaseHistory records the Lease.
func (s *scenario) leaseHistory() *history[*coordinationv1.Lease] {
	s.Helper()
	all := client.CoordinationV1().Leases(cluster.Namespace)
	return record(s, metav1.ListOptions{FieldSelector: "metadata.name=" + s.lease.Name},
		func(ctx context.Context, options metav1.ListOptions) ([]*coordinationv1.Lease, error) {
			list, err := all.List(ctx, options)
			return pointers(list.Items), err
		}, all.Watch)
}

// podHistory records the pods that createPod creates.
func (s *scenario) podHistory() *history[*corev1.Pod] {
	s.Helper()
	all := client.CoreV1().Pods(cluster.Namespace)
	return record(s, metav1.ListOptions{LabelSelector: appLabel + "=" + s.app},
		func(ctx context.Context, options metav1.ListOptions) ([]*corev1.Pod, error) {
			list, err := all.List(ctx, options)
			return pointers(list.Items), err
		}, all.Watch)
}

// forgiveGone is for cleaning up what a test may have deleted itself.
func (s *scenario) forgiveGone(err error) {
	s.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
}
