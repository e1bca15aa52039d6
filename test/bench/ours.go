// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// ours starts sidecars of a binary. That one leads is learned from the answer to a blocked GET /wait?for=leading, as
// an app would.
func ours(binary, kubeconfig string) starter {
	return func(ctx context.Context, lease, name, uid string, t timings) (*contender, error) {
		p, err := process.Start(binary, name, []string{
			"KUBECONFIG=" + kubeconfig,
			"POD_NAMESPACE=" + cluster.Namespace,
			"POD_UID=" + uid,
			"ELECTOR_LEASE_NAME=" + lease,
			"ELECTOR_LEASE_DURATION=" + t.duration.String(),
			"ELECTOR_RENEW_DEADLINE=" + t.renew.String(),
			"ELECTOR_RETRY_PERIOD=" + t.retry.String(),
		}, nil)
		if err != nil {
			return nil, err
		}
		c := &contender{
			name: name, pid: p.PID(),
			ready: make(chan struct{}), leads: make(chan time.Time, 1), stops: make(chan time.Time, 1),
			term: func() error { return p.Signal(syscall.SIGTERM) }, kill: p.Kill, ended: p.Ended(), log: func() string { return shortened(p.Log()) },
		}
		go func() {
			if at, ok := told(ctx, p, "/wait?for=leading&timeout=5m"); ok {
				c.leads <- at
				if at, ok = told(ctx, p, "/wait?for=not-leading&timeout=5m"); ok {
					c.stops <- at
				}
			}
		}()
		go func() {
			if _, err := p.Await(ctx, func(l process.Leader) bool { return l.Name != "" }); err == nil {
				close(c.ready)
			}
		}()
		return c, nil
	}
}

// told asks until the answer is 200, and tells when that came. It is false where the sidecar or ctx ended first.
func told(ctx context.Context, p *process.Sidecar, path string) (time.Time, bool) {
	for {
		code, _, err := p.Get(ctx, path)
		switch {
		case err == nil && code == http.StatusOK:
			return time.Now(), true
		case err == nil && code == http.StatusGatewayTimeout: // once more
		case errors.Is(err, syscall.ECONNREFUSED): // it does not listen yet
			select {
			case <-time.After(time.Millisecond):
			case <-p.Ended():
				return time.Time{}, false
			case <-ctx.Done():
				return time.Time{}, false
			}
		default:
			return time.Time{}, false
		}
	}
}
