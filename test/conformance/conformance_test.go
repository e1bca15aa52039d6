// SPDX-License-Identifier: Apache-2.0

// Package conformance runs the suite that describes the Lease API against the real one.
package conformance

import (
	"testing"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver/conformance"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

func TestRealAPIServer(t *testing.T) {
	plane, err := cluster.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	conformance.Run(t, plane.Config())
}
