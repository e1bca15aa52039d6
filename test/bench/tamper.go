// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// maxDeluded is how long a leader may go on after its Lease was rewritten.
const maxDeluded = 100 * time.Millisecond

// tamper measures how long a leader goes on after an intruder has rewritten its Lease.
func (b *bench) tamper(ctx context.Context) ([]row, error) {
	var ourTimes, theirTimes sample
	kinds := []struct {
		name  string
		start starter
		times *sample
		n     int
	}{{"ours", b.ours, &ourTimes, b.tamperings}, {"client-go", b.clientGo, &theirTimes, b.theirTamperings}}
	for round := range b.tamperings {
		for _, kind := range kinds {
			if round >= kind.n {
				continue
			}
			took, err := b.intrude(ctx, kind.name, kind.start)
			if err != nil {
				return nil, err
			}
			kind.times.add(took)
			b.progress("tampering %d: %s goes on for %s", round+1, kind.name, took)
		}
	}
	return []row{{What: fmt.Sprintf("leader whose Lease was rewritten goes on (%s)", b.timings), Unit: ms,
		Ours: &ourTimes, ClientGo: &theirTimes, Limit: limit(maxDeluded), Met: within(&ourTimes, maxDeluded)}}, nil
}

// intrude rewrites the Lease of a leader, and returns how long after the reply that one went on.
func (b *bench) intrude(ctx context.Context, kind string, start starter) (time.Duration, error) {
	w, err := newCrew(ctx, kind, start, b.timings, 1)
	defer w.dismiss()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, b.settle); err != nil {
		return 0, err
	}
	client, err := leaseapi.New(b.config, cluster.Namespace)
	if err != nil {
		return 0, err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // a renewal may come in between
		lease, err := client.Get(ctx, w.lease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec = cluster.Held("intruder", b.timings.duration)
		_, err = client.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return 0, err
	}
	rewritten := time.Now()
	c := w.members[0]
	at, err := c.await(ctx, "giving up", c.stops, b.timings.duration+patience)
	return max(0, at.Sub(rewritten)), err // the watch may be faster than the reply
}
