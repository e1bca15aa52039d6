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

// attend looks after what is around the election, as far as that is configured: it watches over the app's health, tells the
// app of each change, and shows the leader in the cluster.
// That goes on when ctx ends, since the app has to be told of the handover; the function that is returned ends it, once
// the election has ended.
func attend(ctx context.Context, cfg *config, e *elector.Elector, api *httpapi.Config, around *surroundings) (leave func()) {
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
	if around != nil {
		watching.Go(func() { around.checkRollout(ctx, cfg, e) })
		if around.signs != nil {
			watching.Go(func() { around.signs.Run(ctx, e) })
		}
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
