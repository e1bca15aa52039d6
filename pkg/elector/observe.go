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

const (
	// watchTimeout is how long the API server is asked to serve one watch, plus up to a tenth.
	watchTimeout = 30 * time.Minute
	// watchDenied is how long it takes until a watch that was refused is asked for again.
	watchDenied = time.Minute
)

// observe tells the loop of every change of the Lease: it lists, watches from there, and lists again after each break.
// While no watch can be had it looks once a retry period.
func (d *driver) observe() {
	var pollUntil time.Time
	tried := false
	for d.ctx.Err() == nil {
		begun := time.Now()
		version, err := d.look()
		if err == nil && !tried {
			tried = true
			d.tryGet()
		}
		if err == nil && begun.After(pollUntil) {
			err = d.watch(version)
			if refusedForGood(err) {
				if pollUntil.IsZero() {
					d.log.Info("no watch can be had; looking at the lease once a retry period", "err", err.Error())
				}
				pollUntil, err = begun.Add(watchDenied), nil
			} else {
				pollUntil = time.Time{}
			}
		}
		d.report(err)
		if err != nil || time.Since(begun) < d.config.RetryPeriod {
			d.pause()
		}
	}
}

// tryGet finds out whether get is permitted, before the day on which it is needed. Its answer is of no interest.
func (d *driver) tryGet() {
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
	list, err := d.config.Client.List(ctx, metav1.ListOptions{FieldSelector: d.selector()})
	d.reach.note("list", err)
	switch {
	case refusedForGood(err):
		record, err := d.get(ctx)
		if err != nil {
			return "", err
		}
		d.tell(sighting(byList, record))
		if record != nil {
			version = record.lease.ResourceVersion
		}
		return version, nil
	case err != nil:
		return "", fmt.Errorf("list: %w", err)
	case len(list.Items) > 0:
		record, err := readLease(&list.Items[0])
		if err != nil {
			return "", err
		}
		d.tell(sighting(byList, record))
	default:
		asOf, err := parseVersion(list.ResourceVersion)
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		d.tell(observed{from: byList, version: asOf})
	}
	return list.ResourceVersion, nil
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
	d.reach.note("watch", err)
	if err != nil || !inTime {
		return fmt.Errorf("watch: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer watcher.Stop()
	d.report(nil)
	for {
		select {
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
	seen := sighting(byWatch, record)
	if event.Type == watch.Deleted {
		seen.record = nil
	}
	d.tell(seen)
	return nil
}

func (d *driver) selector() string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, d.config.Name).String()
}
