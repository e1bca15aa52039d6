// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxTakeover is how much longer than the lease duration a takeover may take.
const maxTakeover = 100 * time.Millisecond

// death measures how long after the last renewal of a leader that was killed the next one leads, less the lease's
// duration, which has to pass.
func (b *bench) death(ctx context.Context) ([]row, error) {
	our, their, dismiss, err := b.crews(ctx, b.brisk)
	defer dismiss()
	if err != nil {
		return nil, err
	}
	var ourTimes, theirTimes sample
	for round := range b.deaths {
		if err := pause(ctx, b.settle+time.Duration(rand.Float64()*2.2*float64(b.brisk.retry))); err != nil {
			return nil, err
		}
		for w, times := range map[*crew]*sample{our: &ourTimes, their: &theirTimes} {
			took, err := b.die(ctx, w)
			if err != nil {
				return nil, err
			}
			times.add(took)
			b.progress("takeover %d after SIGKILL: %s, %s and %s", round+1, w.kind, b.brisk.duration, took)
			if err := w.recruit(ctx); err != nil {
				return nil, err
			}
		}
	}
	return []row{{What: fmt.Sprintf("takeover after SIGKILL, beyond the lease duration (%s)", b.brisk), Unit: ms,
		Ours: &ourTimes, ClientGo: &theirTimes, Limit: limit(maxTakeover), Met: within(&ourTimes, maxTakeover)}}, nil
}

// die kills the leader, and returns how long after its last renewal plus the lease duration another led.
func (b *bench) die(ctx context.Context, w *crew) (time.Duration, error) {
	witness, err := watchLease(ctx, b.config, w.lease)
	if err != nil {
		return 0, err
	}
	defer witness.close()
	// The next renewal is seen as it comes; the one that is there already is not.
	leader := w.members[0]
	first, err := witness.await(ctx, "names "+leader.name, names(leader.name))
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(patience); ; {
		last, _ := witness.last(names(leader.name))
		if last.lease.ResourceVersion != first.lease.ResourceVersion {
			break
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%s does not renew", leader.name)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, time.Duration(rand.Float64()*float64(b.brisk.retry))); err != nil {
		return 0, err
	}
	leader.kill()
	_, at, err := w.successor(ctx, b.brisk.duration+patience)
	if err != nil {
		return 0, err
	}
	last, _ := witness.last(names(leader.name))
	return at.Sub(last.at) - b.brisk.duration, nil
}
