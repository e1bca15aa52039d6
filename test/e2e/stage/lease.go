// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Record is the Lease as it was at some time.
type Record struct {
	Seen  time.Time // when a watch told of it
	Lease *coordinationv1.Lease
	Gone  bool // it was deleted
}

// Holder is the holderIdentity, "" where there is none.
func (r Record) Holder() string {
	if r.Gone || r.Lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *r.Lease.Spec.HolderIdentity
}

// Pod is the name of the pod that holds the Lease.
func (r Record) Pod() string {
	name, _, _ := strings.Cut(r.Holder(), "_")
	return name
}

// Version is the resourceVersion: where a term begins, its fencing token.
func (r Record) Version() int64 {
	version, _ := strconv.ParseInt(r.Lease.ResourceVersion, 10, 64)
	return version
}

// Renewed is the renewTime, which a release sets too.
func (r Record) Renewed() time.Time {
	if r.Lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return r.Lease.Spec.RenewTime.Time
}

func (r Record) String() string {
	if r.Gone {
		return r.Seen.UTC().Format("15:04:05.000") + " deleted"
	}
	return fmt.Sprintf("%s version %d, holder %q, renewed %s", r.Seen.UTC().Format("15:04:05.000"), r.Version(), r.Holder(), r.Renewed().UTC().Format("15:04:05.000"))
}

// history is every record of the Lease.
type history struct {
	mu      sync.Mutex
	records []Record
	err     error
}

// watchLease keeps a history until ctx ends.
func watchLease(ctx context.Context, c kubernetes.Interface, namespace string) (*history, error) {
	leases := c.CoordinationV1().Leases(namespace)
	only := fields.OneTermEqualSelector("metadata.name", LeaseName).String()
	list, err := leases.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return nil, err
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return leases.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	h := &history{}
	go func() {
		for event := range watcher.ResultChan() {
			h.add(event)
		}
	}()
	return h, nil
}

func (h *history) add(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lease, ok := event.Object.(*coordinationv1.Lease)
	switch {
	case ok && event.Type != watch.Bookmark:
		h.records = append(h.records, Record{Seen: time.Now(), Lease: lease, Gone: event.Type == watch.Deleted})
	case event.Type == watch.Error:
		h.err = fmt.Errorf("the watch of the Lease has ended: %v", event.Object)
	}
}

func (h *history) all() ([]Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.records), h.err
}

// Records is how the Lease has changed so far.
func (s *Stage) Records() []Record {
	s.T.Helper()
	records, err := s.lease.all()
	if err != nil {
		s.T.Fatal(err)
	}
	return records
}

// TermOf waits for the record with which the term of that token began, and returns it with the one before it. A term that
// began on no Lease has none before it.
func (s *Stage) TermOf(token int64) (before *Record, began Record) {
	s.T.Helper()
	s.Await(fmt.Sprintf("a watch tells of version %d of the Lease", token), func() bool {
		records := s.Records()
		i := slices.IndexFunc(records, func(r Record) bool { return !r.Gone && r.Version() == token })
		if i < 0 {
			return false
		}
		began = records[i]
		if i > 0 {
			before = &records[i-1]
		}
		return true
	})
	return before, began
}

// Renewal waits for the next change of the Lease.
func (s *Stage) Renewal() {
	s.T.Helper()
	before := len(s.Records())
	s.Await("the Lease is renewed", func() bool { return len(s.Records()) > before })
}

// RewriteLease makes somebody who never renews the holder, for one lease duration, and returns what it has written.
func (s *Stage) RewriteLease(holder string) Record {
	s.T.Helper()
	leases := s.CoordinationV1().Leases(s.Namespace)
	var written *coordinationv1.Lease
	s.AwaitNil("the Lease can be rewritten", func() error {
		lease, err := leases.Get(s.T.Context(), LeaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, new(int32(s.Timings.Lease/time.Second))
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
		written, err = leases.Update(s.T.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	return Record{Seen: time.Now(), Lease: written}
}
