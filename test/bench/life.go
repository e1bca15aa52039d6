// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

const (
	// maxStart is how long a process may take to lead on a free Lease.
	maxStart = 150 * time.Millisecond
	// maxRestart is how long the next process of the same pod may take to lead again.
	maxRestart = 200 * time.Millisecond
)

// life measures how long a process takes from its start until it leads: on a Lease that its last holder released, and
// on one that a process of the same pod held until it was killed.
func (b *bench) life(ctx context.Context) ([]row, error) {
	start := row{What: "process start to leading, on a free Lease", Unit: ms, Ours: &sample{}, ClientGo: &sample{}, Limit: limit(maxStart)}
	restart := row{What: "the same after SIGKILL, in the same pod", Unit: ms, Ours: &sample{}, ClientGo: &sample{}, Limit: limit(maxRestart)}
	our, err := newCrew(ctx, "ours", b.ours, b.timings, 1)
	defer func() { our.dismiss() }()
	if err != nil {
		return nil, err
	}
	their, err := newCrew(ctx, "client-go", b.clientGo, b.timings, 1)
	defer func() { their.dismiss() }()
	if err != nil {
		return nil, err
	}
	for round := range b.starts {
		for _, kind := range []struct {
			crew           *crew
			start, restart *sample
		}{{our, start.Ours, restart.Ours}, {their, start.ClientGo, restart.ClientGo}} {
			w := kind.crew
			if err := w.members[0].term(); err != nil {
				return nil, err
			}
			if err := w.members[0].hasEnded(ctx); err != nil {
				return nil, err
			}
			fresh, err := w.rebirth(ctx, "uid-next")
			if err != nil {
				return nil, err
			}
			kind.start.add(fresh)
			w.members[0].kill()
			again, err := w.rebirth(ctx, "uid-next")
			if err != nil {
				return nil, err
			}
			kind.restart.add(again)
			b.progress("start %d: %s leads after %s on a free Lease, %s after SIGKILL in the same pod", round+1, w.kind, fresh, again)
		}
	}
	start.Met, restart.Met = within(start.Ours, maxStart), within(restart.Ours, maxRestart)
	return []row{start, restart}, nil
}

// rebirth starts a process in place of the only member, which has ended, and returns how long it took to lead.
func (w *crew) rebirth(ctx context.Context, uid string) (time.Duration, error) {
	begun := time.Now()
	c, err := w.start(ctx, w.lease, w.kind+"-0", uid, w.timings)
	if err != nil {
		return 0, err
	}
	w.members[0] = c
	at, err := c.await(ctx, "leading", c.leads, w.timings.duration+patience)
	return at.Sub(begun), err
}
