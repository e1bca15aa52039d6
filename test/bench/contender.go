// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

// timings are those of an election.
type timings struct{ duration, renew, retry time.Duration }

func (t timings) String() string { return fmt.Sprintf("%s/%s/%s", t.duration, t.renew, t.retry) }

// contender is a process that contends for a Lease: a sidecar of ours, or a candidate with client-go's elector.
type contender struct {
	name  string
	pid   int
	ready chan struct{}  // closed once it has seen the Lease
	leads chan time.Time // when the benchmark learned that it leads
	stops chan time.Time // when the benchmark learned that it does not any more
	term  func() error   // sends SIGTERM
	kill  func()         // ends it with SIGKILL, and waits for that; also for one that has ended
	ended <-chan struct{}
	log   func() string
}

// starter starts one kind of contender. A uid is the pod's: who is given another's name and uid is that one's next life.
type starter func(ctx context.Context, lease, name, uid string, t timings) (*contender, error)

// patience is how long anything may take that needs no lease to expire.
const patience = 30 * time.Second

// shortened is what of a log fits an error: its beginning, where a crash is, and its end.
func shortened(log string) string {
	const part = 1000
	if len(log) > 2*part {
		return log[:part] + "\n…\n" + log[len(log)-part:]
	}
	return log
}

// await waits for what a contender tells.
func (c *contender) await(ctx context.Context, what string, told <-chan time.Time, within time.Duration) (time.Time, error) {
	select {
	case at := <-told:
		return at, nil
	case <-c.ended:
		return time.Time{}, fmt.Errorf("%s ended before it %s:\n%s", c.name, what, c.log())
	case <-time.After(within):
		return time.Time{}, fmt.Errorf("%s: not %s within %s:\n%s", c.name, what, within, c.log())
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// isReady waits until it has seen the Lease.
func (c *contender) isReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s has not seen the Lease within %s:\n%s", c.name, patience, c.log())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasEnded waits until its process has ended.
func (c *contender) hasEnded(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s has not ended within %s:\n%s", c.name, patience, c.log())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause lets some time go by.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
