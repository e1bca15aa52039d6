// SPDX-License-Identifier: Apache-2.0

// Package interop lets the sidecar and client-go's leaderelection compete for one Lease.
package interop

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
	"github.com/elector-sidecar/elector-sidecar/test/suite"
)

var (
	plane  *cluster.Cluster
	binary string
)

func TestMain(m *testing.M) {
	suite.Run(m, 0, func(b string, p *cluster.Cluster) error {
		binary, plane = b, p
		return nil
	})
}

// The timing of all candidates. client-go counts a lease up to a second short, so that in a mix the renew deadline has to
// be two seconds below the lease duration.
const (
	leaseDuration = 4 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 400 * time.Millisecond
)

// start starts a sidecar that reaches the API server as config says.
func start(t *testing.T, lease *cluster.Lease, config *rest.Config, name string, env ...string) *sidecar.Sidecar {
	t.Helper()
	return sidecar.Start(t, binary, name, append([]string{
		"KUBECONFIG=" + cluster.Kubeconfig(t, config),
		"POD_NAMESPACE=" + cluster.Namespace,
		"ELECTOR_LEASE_NAME=" + lease.Name,
		"ELECTOR_LEASE_DURATION=" + leaseDuration.String(),
		"ELECTOR_RENEW_DEADLINE=" + renewDeadline.String(),
		"ELECTOR_RETRY_PERIOD=" + retryPeriod.String(),
	}, env...)...)
}
