// SPDX-License-Identifier: Apache-2.0

// Package process tests the built sidecar as its users meet it: a process with an environment, signals, an HTTP API
// and an API server. Each test is a story about one Lease.
package process

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
	"github.com/elector-sidecar/elector-sidecar/test/suite"
)

var (
	plane  *cluster.Cluster
	binary string
)

func TestMain(m *testing.M) {
	suite.Run(m, suite.Parallel, func(b string, p *cluster.Cluster) error {
		binary, plane = b, p
		return nil
	})
}

// timing is how fast an election goes.
type timing struct{ duration, deadline, retry time.Duration }

var (
	// brisk is for what happens when a lease expires.
	brisk = timing{2 * time.Second, 1400 * time.Millisecond, 300 * time.Millisecond}
	// steady is for what happens at the next renewals, on a machine that may be busy.
	steady = timing{10 * time.Second, 8 * time.Second, 500 * time.Millisecond}
	// calm is for what must not wait for a renewal, a retry or an expiry: none comes within the test.
	calm = timing{120 * time.Second, 90 * time.Second, 60 * time.Second}
)

// soon is far below what calm would make anything wait, and far above what a busy machine needs.
const soon = 5 * time.Second

// scenario is the stage of one test: its Lease, and how sidecars get there.
type scenario struct {
	*testing.T
	lease  *cluster.Lease
	timing timing
	config *rest.Config
}

func begin(t *testing.T, timing timing) *scenario {
	t.Helper()
	t.Parallel()
	return &scenario{t, plane.Lease(t), timing, plane.Config()}
}

// proxied makes the sidecars that are started from now on go through a proxy.
func (s *scenario) proxied() *proxy.Proxy {
	s.Helper()
	p := proxy.Start(s, plane.Address())
	s.config = cluster.Via(s.config, p.Address)
	return p
}

// env is the environment of a sidecar; what is given overrides.
func (s *scenario) env(env ...string) []string {
	s.Helper()
	return slices.Concat([]string{
		"KUBECONFIG=" + cluster.Kubeconfig(s, s.config),
		"POD_NAMESPACE=" + cluster.Namespace,
		"ELECTOR_LEASE_NAME=" + s.lease.Name,
		"ELECTOR_LEASE_DURATION=" + s.timing.duration.String(),
		"ELECTOR_RENEW_DEADLINE=" + s.timing.deadline.String(),
		"ELECTOR_RETRY_PERIOD=" + s.timing.retry.String(),
	}, env)
}

func (s *scenario) start(name string, env ...string) *sidecar.Sidecar {
	s.Helper()
	return sidecar.Start(s, binary, name, s.env(env...)...)
}

// within fails the test where something took longer than it may.
func (s *scenario) within(limit, took time.Duration, what string) {
	s.Helper()
	if took > limit {
		s.Errorf("%s took %s, more than %s", what, took, limit)
	}
}

// after fails the test where something that has to wait for an instant did not. Both are times of this machine.
func (s *scenario) after(earliest, happened time.Time, what string) {
	s.Helper()
	if happened.Before(earliest.Truncate(time.Microsecond)) { // as precise as a Lease
		s.Errorf("%s %s too early", what, earliest.Sub(happened))
	}
}

// pass lets a time pass in which nothing may happen.
func (s *scenario) pass(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal("the test ended early")
	}
}

func acquired(lease *coordinationv1.Lease) time.Time { return lease.Spec.AcquireTime.Time }
func renewed(lease *coordinationv1.Lease) time.Time  { return lease.Spec.RenewTime.Time }

// renewedAfter is for Lease.Await.
func renewedAfter(before *coordinationv1.Lease) func(*coordinationv1.Lease) bool {
	return func(lease *coordinationv1.Lease) bool { return renewed(lease).After(renewed(before)) }
}
