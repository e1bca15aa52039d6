// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// watchTimeout is how long the API server is asked to serve one watch, plus up to a tenth.
const watchTimeout = 30 * time.Minute

// deniedRetry is how long it takes until what was forbidden is tried again: somebody may have granted it.
func (d *driver) deniedRetry() time.Duration { return 10 * d.config.RetryPeriod }

// observe tells the loop of every change of the Lease: it lists, watches from there, and lists again after each break.
// While no watch can be had it looks once a retry period.
func (d *driver) observe() {
	var tryWatch, tryGet time.Time
	polls := false
	for d.ctx.Err() == nil {
		begun := time.Now()
		version, err := d.look()
		if err == nil && (tryGet.IsZero() || d.reach.isDenied("get") && begun.After(tryGet)) {
			tryGet = begun.Add(d.deniedRetry())
			d.probeGet()
		}
		if err == nil && begun.After(tryWatch) {
			err = d.watch(version)
			if refused := refusedForGood(err); refused {
				tryWatch = begun.Add(d.deniedRetry())
				if !polls {
					d.log.Info("no watch can be had; looking at the lease once a retry period", "err", err.Error())
				}
				polls, err = true, nil
			} else {
				polls = false
			}
		}
		d.report(err)
		if err != nil || time.Since(begun) < d.config.RetryPeriod {
			d.pause()
		}
	}
}

// probeGet finds out whether get is permitted, before the day on which it is needed. What it answers is of no interest.
func (d *driver) probeGet() {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	_, _ = d.get(ctx)
}

// refusedForGood tells whether trying again soon is of no use.
func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// pause waits for half a retry period to a whole one: many candidates may have lost the same API server.
func (d *driver) pause() {
	half := d.config.RetryPeriod / 2
	timer := time.NewTimer(half + rand.N(half+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.rewatch:
	case <-d.ctx.Done():
	}
}

// look tells the loop what the Lease is now, and returns the resourceVersion to watch from ("": the most recent).
func (d *driver) look() (version string, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	seen, version, err := d.list(ctx)
	if refusedForGood(err) {
		seen, err = d.get(ctx)
		if seen.record != nil {
			version = seen.record.lease.ResourceVersion
		}
	}
	if err != nil {
		return "", err
	}
	seen.from = byList
	d.tell(seen)
	return version, nil
}

// list returns what the Lease is, and the resourceVersion to watch from.
func (d *driver) list(ctx context.Context) (seen observed, version string, err error) {
	list, err := d.config.Client.List(ctx, metav1.ListOptions{FieldSelector: d.selector()})
	d.answered("list", err)
	if err != nil {
		return observed{}, "", fmt.Errorf("list: %w", err)
	}
	if len(list.Items) > 0 {
		record, err := readLease(&list.Items[0])
		if err != nil {
			return observed{}, "", err
		}
		return observed{record: record, version: record.version}, list.ResourceVersion, nil
	}
	asOf, err := parseVersion(list.ResourceVersion)
	if err != nil {
		return observed{}, "", fmt.Errorf("list: %w", err)
	}
	return observed{version: asOf}, list.ResourceVersion, nil
}

// get returns what the Lease is. Without one it cannot say as of which resourceVersion.
func (d *driver) get(ctx context.Context) (seen observed, err error) {
	lease, err := d.config.Client.Get(ctx, d.config.Name, metav1.GetOptions{})
	d.answered("get", err)
	if apierrors.IsNotFound(err) {
		d.reach.note("get", nil)
		return observed{}, nil
	}
	if err != nil {
		return observed{}, fmt.Errorf("get: %w", err)
	}
	record, err := readLease(lease)
	if err != nil {
		return observed{}, err
	}
	return observed{record: record, version: record.version}, nil
}

// watch tells the loop what happens to the Lease after the given resourceVersion, until the watch ends. The error is
// nil for an end that is no failure.
func (d *driver) watch(version string) error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	// The answer's beginning has to come in time; from then on the watch may be quiet.
	late := time.AfterFunc(d.timeout, func() { cancel(context.DeadlineExceeded) })
	watcher, err := d.config.Client.Watch(ctx, metav1.ListOptions{
		FieldSelector:       d.selector(),
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      new(int64((watchTimeout + rand.N(watchTimeout/10)) / time.Second)),
	})
	inTime := late.Stop()
	d.answered("watch", err)
	if err != nil || !inTime {
		return fmt.Errorf("watch: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer watcher.Stop()
	defer d.watchEnded()
	d.report(nil)
	var again <-chan time.Time
	if len(d.Denied()) > 0 {
		timer := time.NewTimer(d.deniedRetry())
		defer timer.Stop()
		again = timer.C
	}
	for {
		select {
		case <-again:
			return nil
		case event, open := <-watcher.ResultChan():
			if !open {
				return nil
			}
			if err := d.happened(event); err != nil {
				return fmt.Errorf("watch: %w", err)
			}
		case <-d.rewatch:
			return nil
		case <-d.ctx.Done():
			return nil
		}
	}
}

// happened tells the loop of one event of the watch.
func (d *driver) happened(event watch.Event) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Bookmark:
		return nil
	default:
		return apierrors.FromObject(event.Object)
	}
	lease, ok := event.Object.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("%s of a %T, not of a Lease", event.Type, event.Object)
	}
	if lease.Name != d.config.Name {
		return nil
	}
	record, err := readLease(lease)
	if err != nil {
		return err
	}
	seen := observed{from: byWatch, record: record, version: record.version}
	if event.Type == watch.Deleted {
		seen.record = nil
	}
	d.tell(seen)
	return nil
}

func (d *driver) selector() string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, d.config.Name).String()
}
