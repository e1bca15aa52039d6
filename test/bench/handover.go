// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// maxFloors is how many times the floor a handover may take, by the median.
const maxFloors = 1.5

// handover measures how long after a SIGTERM to the leader the next one tells that it leads.
func (b *bench) handover(ctx context.Context) ([]row, error) {
	floor, err := newFloor(ctx, b.config)
	if err != nil {
		return nil, err
	}
	defer floor.close()
	our, their, dismiss, err := b.crews(ctx, b.timings)
	defer dismiss()
	if err != nil {
		return nil, err
	}
	witness, err := watchLease(ctx, b.config, our.lease)
	if err != nil {
		return nil, err
	}
	defer witness.close()

	var floors, ourTimes, theirTimes sample
	phases := map[string]*sample{}
	for round := range b.handovers {
		// Standbys of client-go look each 1 to 2.2 retry periods: the release has to meet them anywhere in between.
		if err := pause(ctx, b.settle+time.Duration(rand.Float64()*2.2*float64(b.timings.retry))); err != nil {
			return nil, err
		}
		least, err := floor.measure(ctx)
		if err != nil {
			return nil, err
		}
		asked, took, err := our.handOver(ctx)
		if err != nil {
			return nil, err
		}
		if err := witness.phases(ctx, phases, asked, took, our.members[0].name); err != nil {
			return nil, err
		}
		_, theirs, err := their.handOver(ctx)
		if err != nil {
			return nil, err
		}
		floors.add(least)
		ourTimes.add(took)
		theirTimes.add(theirs)
		b.progress("handover %d: ours %s, client-go %s, floor %s", round+1, took, theirs, least)
		for _, w := range []*crew{our, their} {
			if err := w.recruit(ctx); err != nil {
				return nil, err
			}
		}
	}
	ratio := ourTimes.median() / floors.median()
	rows := []row{{What: "graceful handover, SIGTERM to the next leader", Unit: ms, Ours: &ourTimes, ClientGo: &theirTimes,
		Floor: &floors, Limit: fmt.Sprintf("median ≤ %.1f × floor", maxFloors), Ratio: ratio, Met: verdict(ratio <= maxFloors)}}
	for _, name := range phaseNames {
		rows = append(rows, row{What: "  of which " + name, Unit: ms, Ours: phases[name]})
	}
	return rows, nil
}

// handOver asks the leader to go, and returns when, and how long it took until another leads.
func (w *crew) handOver(ctx context.Context) (asked time.Time, took time.Duration, err error) {
	leader := w.members[0]
	asked = time.Now()
	if err = leader.term(); err != nil {
		return asked, 0, err
	}
	_, at, err := w.successor(ctx, patience)
	if err != nil {
		leader.kill()
		return asked, 0, err
	}
	return asked, at.Sub(asked), leader.hasEnded(ctx)
}

// phaseNames are the parts of a handover, in order. The Lease tells when each write was decided on, and the witness
// when the release was seen.
var phaseNames = []string{
	"SIGTERM to release decided",
	"release stored and seen",
	"seen to acquisition decided",
	"acquisition stored and told",
}

func (w *witness) phases(ctx context.Context, into map[string]*sample, asked time.Time, took time.Duration, heir string) error {
	acquired, err := w.await(ctx, "names "+heir, names(heir))
	if err != nil {
		return err
	}
	released, err := w.await(ctx, "names nobody", func(l *coordinationv1.Lease) bool { return cluster.Holder(l) == "" })
	if err != nil {
		return err
	}
	times := []time.Time{asked, released.lease.Spec.RenewTime.Time, released.at, acquired.lease.Spec.AcquireTime.Time, asked.Add(took)}
	for i, name := range phaseNames {
		if into[name] == nil {
			into[name] = &sample{}
		}
		into[name].add(times[i+1].Sub(times[i]))
	}
	return nil
}
