// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// sighting is an event of a watch, and when it came.
type sighting struct {
	at    time.Time
	lease *coordinationv1.Lease
}

// witness watches one Lease over a connection of its own.
type witness struct {
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	seen []sighting
}

// watchLease returns a witness of what happens to a Lease from now on.
func watchLease(ctx context.Context, config *rest.Config, lease string) (*witness, error) {
	client, err := leaseapi.New(config, cluster.Namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	selector := "metadata.name=" + lease
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		cancel()
		return nil, err
	}
	events, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		cancel()
		return nil, err
	}
	w := &witness{stop: cancel, done: make(chan struct{})}
	for i := range list.Items {
		w.seen = append(w.seen, sighting{time.Now(), &list.Items[i]})
	}
	go func() {
		defer close(w.done)
		defer events.Stop()
		for event := range events.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				at := time.Now()
				w.mu.Lock()
				w.seen = append(w.seen, sighting{at, lease})
				w.mu.Unlock()
			}
		}
	}()
	return w, nil
}

// close ends the watch.
func (w *witness) close() {
	w.stop()
	<-w.done
}

// last returns the last sighting that is as wanted.
func (w *witness) last(wanted func(*coordinationv1.Lease) bool) (sighting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.seen) - 1; i >= 0; i-- {
		if wanted(w.seen[i].lease) {
			return w.seen[i], true
		}
	}
	return sighting{}, false
}

// await returns the last sighting that is as wanted, and waits for one where there is none.
func (w *witness) await(ctx context.Context, what string, wanted func(*coordinationv1.Lease) bool) (sighting, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s, ok := w.last(wanted); ok {
			return s, nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return sighting{}, err
		}
	}
	return sighting{}, fmt.Errorf("nobody saw a Lease that %s within %s", what, patience)
}

// names is for await and last: a Lease that names a pod.
func names(pod string) func(*coordinationv1.Lease) bool {
	return func(l *coordinationv1.Lease) bool { return cluster.Holder(l) == pod+"_uid-"+pod }
}
