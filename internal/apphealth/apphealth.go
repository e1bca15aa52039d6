// SPDX-License-Identifier: Apache-2.0

// Package apphealth watches over the app that the sidecar contends for: a pod whose app is unhealthy is not to lead.
package apphealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// ErrNotSeen is what is wrong with an app before its first good check.
var ErrNotSeen = errors.New("not seen healthy yet")

// Config says when a check is made, and how many in a row decide.
type Config struct {
	Check Check
	// Period is the time from the beginning of a check to that of the next.
	Period time.Duration
	// Timeout is how long a check may take: no longer than Period.
	Timeout time.Duration
	// Failures in a row make a healthy app unhealthy, Successes in a row an unhealthy one healthy. At least 1.
	Failures, Successes int
}

// Watch checks the app until ctx ends, at once and then each period. It takes the app for unhealthy at first, because of
// ErrNotSeen. It tells report of each change, nil being healthy, and of each new reason while the app is unhealthy.
// Where report returns an error there is nobody left to tell, and Watch returns.
func Watch(ctx context.Context, c Config, report func(context.Context, error) error) {
	w := watch{Config: c, report: report, never: true}
	ticker := time.NewTicker(c.Period)
	defer ticker.Stop()
	for {
		if err := w.check(ctx); ctx.Err() != nil || w.take(ctx, err) != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

type watch struct {
	Config
	report  func(context.Context, error) error
	pending chan error // gets the result of a check that was too slow
	never   bool       // the app was never healthy
	healthy bool
	streak  int    // results in a row that say otherwise
	why     string // the app is unhealthy, as reported
}

// check makes a check, and waits for it no longer than the timeout: one on a file system that hangs cannot be called
// off. There is no other before it has ended, and each that is due meanwhile has failed.
func (w *watch) check(ctx context.Context) error {
	late := fmt.Errorf("no answer within %s", w.Timeout)
	if w.pending != nil {
		select {
		case <-w.pending: // too late to count
		default:
			return late
		}
	}
	result := make(chan error, 1)
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	go func() { result <- w.Check(ctx) }()
	select {
	case err := <-result:
		w.pending = nil
		if err != nil && ctx.Err() != nil {
			return late // which says more than the error of what was called off
		}
		return err
	case <-ctx.Done():
		w.pending = result
		return late
	}
}

// take takes in the result of a check.
func (w *watch) take(ctx context.Context, err error) error {
	if w.streak++; w.healthy == (err == nil) {
		w.streak = 0
	}
	if w.healthy && w.streak < w.Failures || !w.healthy && err == nil && w.streak < w.Successes {
		return nil
	}
	why := ""
	if err != nil {
		if w.never {
			err = fmt.Errorf("%w: %w", ErrNotSeen, err)
		}
		if why = err.Error(); why == w.why {
			return nil
		}
		if w.never && w.why == "" {
			klog.FromContext(ctx).Info("staying out of the election until the app is healthy", "err", why)
		}
	}
	w.never, w.healthy, w.streak, w.why = w.never && err != nil, err == nil, 0, why
	return w.report(ctx, err)
}
