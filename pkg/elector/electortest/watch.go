// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkBeforeTimeout is how long before the end of its timeoutSeconds a watch gets a last bookmark.
const bookmarkBeforeTimeout = 2 * time.Second

// watcher is an open watch. Its queue has no bound, so that a write never waits for a reader.
type watcher struct {
	store    *Store
	client   *Client
	selected selection
	// since is the resourceVersion up to which the client knows everything.
	since            uint64
	bookmarkInterval time.Duration
	deadline         time.Time
	cancel           context.CancelFunc
	result           chan watch.Event
	wake             chan struct{}

	// guarded by store.mu
	queue []watch.Event
	over  bool
	deaf  bool
}

func (s *Store) watch(ctx context.Context, cancel context.CancelFunc, client *Client, opts metav1.ListOptions) (*watcher, error) {
	selected, err := newSelection(client.namespace, opts)
	if err != nil {
		return nil, err
	}
	if err := validateWatchOptions(opts); err != nil {
		return nil, err
	}
	since, err := parseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, internalError(err.Error())
	}
	w := &watcher{
		store:    s,
		client:   client,
		selected: selected,
		since:    since,
		cancel:   cancel,
		result:   make(chan watch.Event),
		wake:     make(chan struct{}, 1),
	}
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		w.deadline = time.Now().Add(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.AllowWatchBookmarks {
		w.bookmarkInterval = s.bookmarkInterval
	}
	w.begin(opts)
	s.watches[w] = struct{}{}
	go w.run(ctx)
	return w, nil
}

// begin queues what precedes the live events.
func (w *watcher) begin(opts metav1.ListOptions) {
	initial := w.since == 0
	if opts.SendInitialEvents != nil {
		initial = *opts.SendInitialEvents
	}
	switch {
	case initial && w.since > w.store.revision:
		w.fail(w.store.checkReached(w.since))
	case initial:
		w.queueState()
		if opts.AllowWatchBookmarks {
			w.queueBookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	case w.since == 0:
	case w.since < w.store.compacted:
		w.fail(apierrors.NewResourceExpired(
			fmt.Sprintf("too old resource version: %d (%d)", w.since, w.store.compacted)))
	default:
		for _, write := range w.store.writes {
			w.offer(write)
		}
	}
}

func (w *watcher) queueState() {
	for _, lease := range w.store.selectLocked(w.selected) {
		w.queue = append(w.queue, watch.Event{Type: watch.Added, Object: &lease})
	}
}

func (w *watcher) queueBookmark(annotations map[string]string) {
	w.queue = append(w.queue, watch.Event{Type: watch.Bookmark, Object: &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: formatResourceVersion(w.store.revision),
			Annotations:     annotations,
		},
	}})
}

// fail makes err the last event of the watch.
func (w *watcher) fail(err error) {
	status := &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = new(known.Status())
	}
	w.queue = append(w.queue, watch.Event{Type: watch.Error, Object: status})
	w.over = true
}

// offer queues what a write means to this watch. The store is locked.
func (w *watcher) offer(write Write) {
	if w.over || parseStored(write.ResourceVersion) <= w.since {
		return
	}
	if event, ok := w.selected.event(write); ok {
		w.queue = append(w.queue, event)
		w.signal()
	}
}

// signal wakes the watch's goroutine; several signals before it looks are as good as one.
func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.result)
	defer w.leave()
	timeout, stopTimeout := after(w.deadline)
	defer stopTimeout()
	bookmark, stopBookmark := after(w.nextBookmark())
	defer func() { stopBookmark() }()
	for {
		event, ok, over := w.next()
		if over {
			return
		}
		var result chan<- watch.Event
		if ok {
			result = w.result
		}
		select {
		case <-ctx.Done():
			return
		case result <- event:
			w.delivered()
		case <-w.wake:
		case <-timeout:
			w.end()
		case <-bookmark:
			w.mark()
			bookmark, stopBookmark = after(w.nextBookmark())
		}
	}
}

// next returns the event to deliver, if there is one, and whether the watch has come to its end.
func (w *watcher) next() (event watch.Event, ok, over bool) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	switch {
	case w.deaf:
		return event, false, false
	case len(w.queue) > 0:
		return w.queue[0], true, false
	default:
		return event, false, w.over
	}
}

func (w *watcher) delivered() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.queue = w.queue[1:]
}

func (w *watcher) end() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.over = true
}

func (w *watcher) mark() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.queueBookmark(nil)
}

func (w *watcher) leave() {
	w.cancel()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	delete(w.store.watches, w)
}

// nextBookmark is when a bookmark is due: after the interval, or earlier to come before the timeout. It is zero
// when no more is to come.
func (w *watcher) nextBookmark() time.Time {
	if w.bookmarkInterval == 0 {
		return time.Time{}
	}
	due := time.Now().Add(w.bookmarkInterval)
	if w.deadline.IsZero() {
		return due
	}
	last := w.deadline.Add(-bookmarkBeforeTimeout)
	if !time.Now().Before(last) {
		return time.Time{}
	}
	if last.Before(due) {
		return last
	}
	return due
}

// after is like time.After for a point in time; nothing comes for the zero time.
func after(t time.Time) (<-chan time.Time, func() bool) {
	if t.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(t))
	return timer.C, timer.Stop
}

// Stop ends the watch and closes its ResultChan.
func (w *watcher) Stop() {
	w.cancel()
}

// ResultChan delivers the events until the watch ends.
func (w *watcher) ResultChan() <-chan watch.Event {
	return w.result
}
