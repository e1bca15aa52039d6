// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	firstResourceVersion    = 1000
	historyLimit            = 4096
	defaultBookmarkInterval = time.Minute
)

// Store is the Lease API's storage, shared by all Clients. It is safe for concurrent use.
type Store struct {
	mu sync.Mutex
	// leases are never changed in place: a write puts a new object.
	leases   map[types.NamespacedName]*coordinationv1.Lease
	revision uint64
	// compacted is the oldest resourceVersion that a watch can still start from.
	compacted        uint64
	writes           []Write
	watches          map[*watcher]struct{}
	bookmarkInterval time.Duration
}

// Write is one effective write: a no-op update or a refused request is none.
type Write struct {
	// Verb is that of the request: "create", "update", "patch" or "delete". An update can create.
	Verb string
	// Client is the connection that the write came through; nil for Store.Edit and Store.Delete.
	Client *Client
	// Time is when the write was committed.
	Time time.Time
	// ResourceVersion is the write's own.
	ResourceVersion string
	// Previous is the Lease before the write; nil when there was none.
	Previous *coordinationv1.Lease
	// Lease is the Lease after the write; nil when it was deleted.
	Lease *coordinationv1.Lease
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		leases:           map[types.NamespacedName]*coordinationv1.Lease{},
		revision:         firstResourceVersion,
		compacted:        firstResourceVersion,
		watches:          map[*watcher]struct{}{},
		bookmarkInterval: defaultBookmarkInterval,
	}
}

// Leases returns a new connection to the Leases of a namespace. With [metav1.NamespaceAll] it can only list
// and watch.
func (s *Store) Leases(namespace string) *Client {
	return &Client{store: s, namespace: namespace}
}

// Peek returns a copy of a Lease as it is stored, or nil when there is none.
func (s *Store) Peek(namespace, name string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[types.NamespacedName{Namespace: namespace, Name: name}].DeepCopy()
}

// Edit writes what change makes of a Lease, whatever its resourceVersion: an intruder's write. change must not use
// the store. The errors are
// NotFound, and Invalid when the API would refuse the result.
func (s *Store) Edit(namespace, name string, change func(*coordinationv1.Lease)) error {
	_, err := s.patch(nil, namespace, name, func(lease *coordinationv1.Lease) error {
		resourceVersion := lease.ResourceVersion
		change(lease)
		lease.ResourceVersion = resourceVersion
		return nil
	}, metav1.PatchOptions{})
	return err
}

// Delete deletes a Lease, whoever holds it. The error is NotFound.
func (s *Store) Delete(namespace, name string) error {
	_, err := s.delete(nil, namespace, name, metav1.DeleteOptions{})
	return err
}

// Writes returns copies of the effective writes, oldest first; of a longer history the newest 4096.
func (s *Store) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := make([]Write, len(s.writes))
	for i, write := range s.writes {
		write.Previous, write.Lease = write.Previous.DeepCopy(), write.Lease.DeepCopy()
		writes[i] = write
	}
	return writes
}

// ForgetHistory makes each watch that is to start from before the newest resourceVersion fail as Expired (410).
// Open watches go on.
func (s *Store) ForgetHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
}

// SetBookmarkInterval sets the time between two bookmarks of a watch that is opened from now on; one minute
// unless set.
func (s *Store) SetBookmarkInterval(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarkInterval = interval
}

// commit makes lease the state of key, nil for none, and tells the watches.
func (s *Store) commit(client *Client, verb string, key types.NamespacedName, lease *coordinationv1.Lease) {
	s.revision++
	write := Write{
		Verb:            verb,
		Client:          client,
		Time:            time.Now(),
		ResourceVersion: formatResourceVersion(s.revision),
		Previous:        s.leases[key],
		Lease:           lease,
	}
	if lease == nil {
		delete(s.leases, key)
	} else {
		lease.ResourceVersion = write.ResourceVersion
		s.leases[key] = lease
	}
	if len(s.writes) == historyLimit {
		s.compacted = max(s.compacted, parseStored(s.writes[0].ResourceVersion))
		s.writes = s.writes[1:]
	}
	s.writes = append(s.writes, write)
	for w := range s.watches {
		w.offer(write)
	}
}

func formatResourceVersion(revision uint64) string {
	return strconv.FormatUint(revision, 10)
}

// parseStored parses a resourceVersion that formatResourceVersion has made.
func parseStored(resourceVersion string) uint64 {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return revision
}
