// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/apphealth"
	"github.com/elector-sidecar/elector-sidecar/internal/notify"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

const (
	// notifyTimeout is how long the app may take to answer when it is told of a change.
	notifyTimeout = 5 * time.Second
	// lastWord is how long the process may live on to tell the app that the election has stopped.
	lastWord = 100 * time.Millisecond
)

// attend looks after the app, as far as that is configured: it watches over the app's health and tells it of each change.
// That goes on when ctx ends, since the app has to be told of the handover; the function that is returned ends it, once
// the election has ended.
func attend(ctx context.Context, cfg *config, e *elector.Elector, api *httpapi.Config) (leave func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watching, notifying sync.WaitGroup
	if check, err := apphealth.Parse(cfg.AppHealth); err == nil { // validate has seen to it that there is no error but of ""
		watching.Go(func() {
			apphealth.Watch(ctx, apphealth.Config{
				Check: check, Period: cfg.AppPeriod.Duration, Timeout: cfg.AppTimeout.Duration,
				Failures: cfg.AppFailures.int, Successes: cfg.AppSuccesses.int,
			}, e.SetHealth)
		})
	}
	if cfg.NotifyURL != "" {
		notifying.Go(func() {
			notify.Notify(ctx, notify.Config{
				Election: e, URL: cfg.NotifyURL, Body: api.Leader,
				Timeout: notifyTimeout, HandoverTimeout: cfg.HandoverTimeout.Duration,
			})
		})
	}
	return func() {
		defer time.AfterFunc(lastWord, cancel).Stop()
		notifying.Wait()
		cancel()
		watching.Wait()
	}
}
