// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// crowd measures what a release sets off among many standbys. They are electors in this process, each with a client
// and a connection of its own.
func (b *bench) crowd(ctx context.Context, size int) ([]row, error) {
	c := &crowd{lease: "bench-crowd-" + rand.String(6), bench: b, leaders: make(chan lead, size+1)}
	ctx, cancel := context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	defer func() { cancel(); c.wg.Wait() }()
	for i := range size + 1 {
		if err := c.join(ctx); err != nil {
			return nil, err
		}
		if i == 0 {
			if _, err := c.next(ctx); err != nil {
				return nil, err
			}
		}
	}
	var took, writes, reads sample
	for round := range b.handovers {
		if err := pause(ctx, time.Second); err != nil { // each has its watch
			return nil, err
		}
		c.writes.Store(0)
		c.conflicts.Store(0)
		c.reads.Store(0)
		begun := time.Now()
		c.leader.stop()
		led, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		took.add(led.at.Sub(begun))
		if err := pause(ctx, b.timings.retry/4); err != nil { // too early for a renewal
			return nil, err
		}
		written := float64(c.writes.Load() - 1) // without the release
		writes.values = append(writes.values, written)
		reads.values = append(reads.values, float64(c.reads.Load()))
		b.progress("crowd of %d, release %d: %s, %.0f standbys wrote, %d of them in vain", size, round+1, led.at.Sub(begun), written, c.conflicts.Load())
		if err := c.join(ctx); err != nil {
			return nil, err
		}
	}
	of := fmt.Sprintf("release among %d standbys: ", size)
	return []row{
		{What: of + "handover", Unit: ms, Ours: &took},
		{What: of + "how many write", Unit: requests, Ours: &writes},
		{What: of + "reads after a conflict", Unit: requests, Ours: &reads},
	}, nil
}

// crowd is many electors for one Lease.
type crowd struct {
	bench                    *bench
	lease                    string
	born                     int
	wg                       sync.WaitGroup
	leaders                  chan lead
	leader                   lead
	writes, conflicts, reads atomic.Int64
}

// lead is an elector that leads.
type lead struct {
	at   time.Time
	stop context.CancelFunc
}

// join adds an elector.
func (c *crowd) join(ctx context.Context) error {
	client, err := leaseapi.New(c.bench.config, cluster.Namespace)
	if err != nil {
		return err
	}
	c.born++
	e, err := elector.New(elector.Config{
		Client: &counted{client, c}, Namespace: cluster.Namespace, Name: c.lease, Identity: fmt.Sprintf("crowd-%d", c.born),
		LeaseDuration: c.bench.timings.duration, RenewDeadline: c.bench.timings.renew, RetryPeriod: c.bench.timings.retry,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	c.wg.Go(func() { _ = e.Run(ctx) }) // one that cannot release fails the next measurement
	c.wg.Go(func() {
		if _, err := e.Wait(ctx, func(s elector.Status) bool { return s.IsLeader }); err == nil {
			c.leaders <- lead{time.Now(), cancel}
		}
	})
	_, err = e.Wait(ctx, func(s elector.Status) bool { return s.Known })
	return err
}

// next waits for the next leader.
func (c *crowd) next(ctx context.Context) (lead, error) {
	select {
	case c.leader = <-c.leaders:
		return c.leader, nil
	case <-time.After(patience):
		return lead{}, fmt.Errorf("of the crowd none leads within %s", patience)
	case <-ctx.Done():
		return lead{}, ctx.Err()
	}
}

// counted counts what a client is asked for.
type counted struct {
	*leaseapi.Client
	crowd *crowd
}

func (c *counted) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	c.crowd.writes.Add(1)
	updated, err := c.Client.Update(ctx, lease, opts)
	if apierrors.IsConflict(err) {
		c.crowd.conflicts.Add(1)
	}
	return updated, err
}

func (c *counted) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	c.crowd.reads.Add(1)
	return c.Client.Get(ctx, name, opts)
}
