// SPDX-License-Identifier: Apache-2.0

// Package traffic attacks what shows the leader in the cluster: the EndpointSlice of a Service, a label and a condition of
// the pod, the address on the Lease. Each test is a story about one Lease, told with built sidecars on a real API server.
// There is no kubelet and no controller: pods and Services are objects, and only the sidecars and the test change them.
package traffic

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
	"github.com/elector-sidecar/elector-sidecar/test/suite"
)

var (
	plane  *cluster.Cluster
	binary string
	client *kubernetes.Clientset // an administrator's
)

func TestMain(m *testing.M) {
	suite.Run(m, suite.Parallel, func(b string, p *cluster.Cluster) error {
		config := rest.CopyConfig(p.Config())
		config.QPS = -1
		config.WarningHandler = rest.NoWarnings{}
		var err error
		binary, plane = b, p
		client, err = kubernetes.NewForConfig(config)
		return err
	}, "service-cluster-ip-range=10.96.0.0/16,fd00:96::/112")
}

const (
	sigterm = syscall.SIGTERM
	sigkill = syscall.SIGKILL
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// timing is how fast an election goes.
type timing struct{ duration, deadline, retry time.Duration }

var (
	// brisk is for what happens when a lease expires.
	brisk = timing{2 * time.Second, 1400 * time.Millisecond, 300 * time.Millisecond}
	// steady is for what happens at the next check, on a machine that may be busy.
	steady = timing{3 * time.Second, 2400 * time.Millisecond, 300 * time.Millisecond}
	// lasting is for what happens at the next retry, and must not wait for a check or an expiry.
	lasting = timing{calm.duration, calm.deadline, brisk.retry}
	// calm is for what must not wait for a renewal, a retry, a check or an expiry: none comes within the test.
	calm = timing{120 * time.Second, 90 * time.Second, 60 * time.Second}
)

// soon is far below what calm would make anything wait, and far above what a busy machine needs.
const soon = 5 * time.Second

// patience is how long a test waits for what has to happen. The machine may be busy.
const patience = 30 * time.Second

// scenario is the stage of one test: its Lease, and how sidecars get there.
type scenario struct {
	*testing.T
	lease   *cluster.Lease
	timing  timing
	config  *rest.Config
	app     string   // the value of appLabel on its pods
	service string   // the name of its Service
	env     []string // of the sidecars, besides what all have
}

func begin(t *testing.T, timing timing) *scenario {
	t.Helper()
	t.Parallel()
	return &scenario{T: t, lease: plane.Lease(t), timing: timing, config: plane.Config(), app: "app-" + rand.String(10)}
}

// proxied makes the sidecars that are started from now on go through a proxy.
func (s *scenario) proxied() *proxy.Requests {
	s.Helper()
	p := proxy.StartRequests(s, s.config)
	s.config = p.Config
	return p
}

// member is a pod whose sidecar contends.
type member struct{ name, uid, address, node string }

// member is pod number n, which need not be in the cluster.
func (s *scenario) member(n int) member {
	return member{name: fmt.Sprintf("%s-%d", s.lease.Name, n), uid: fmt.Sprintf("uid-%d", n),
		address: fmt.Sprintf("10.1.0.%d", n+1), node: fmt.Sprintf("node-%d", n)}
}

// identity is what the pod writes as the holder.
func (m member) identity() string { return m.name + "_" + m.uid }

// start starts the sidecar of a pod; what is given of the environment overrides.
func (s *scenario) start(m member, env ...string) *sidecar.Sidecar {
	s.Helper()
	return sidecar.Start(s, binary, m.name, slices.Concat([]string{
		"KUBECONFIG=" + cluster.Kubeconfig(s, s.config),
		"POD_NAMESPACE=" + cluster.Namespace,
		"POD_UID=" + m.uid,
		"POD_IP=" + m.address,
		"NODE_NAME=" + m.node,
		"ELECTOR_LOG_FORMAT=json",
		"ELECTOR_LEASE_NAME=" + s.lease.Name,
		"ELECTOR_LEASE_DURATION=" + s.timing.duration.String(),
		"ELECTOR_RENEW_DEADLINE=" + s.timing.deadline.String(),
		"ELECTOR_RETRY_PERIOD=" + s.timing.retry.String(),
	}, s.env, env)...)
}

// within fails the test where something took longer than it may.
func (s *scenario) within(limit, took time.Duration, what string) {
	s.Helper()
	if took > limit {
		s.Errorf("%s took %s, more than %s", what, took, limit)
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

// await polls until there is no error.
func (s *scenario) await(what string, check func() error) {
	s.Helper()
	deadline := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			s.Fatalf("waiting for %s: %v", what, err)
		}
	}
}
