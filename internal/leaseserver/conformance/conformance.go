// SPDX-License-Identifier: Apache-2.0

// Package conformance says how a Lease API behaves. One suite speaks to a real kube-apiserver and to the stand-in
// of this module, so that tests on the stand-in are worth something: what the real server does is right.
package conformance

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
)

const namespace = "default"

type testCase struct {
	name string
	run  func(*testing.T, *api)
}

// Run tests the Lease API that config leads to, in the namespace "default", which must exist. Each subtest has
// Leases of its own and deletes them. The caller must be allowed everything on leases; feature gates are taken
// to be at their defaults.
func Run(t *testing.T, config *rest.Config) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatalf("client for %s: %v", config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatalf("address of %s: %v", config.Host, err)
	}
	run := rand.String(6)
	t.Run("Leases", func(t *testing.T) {
		for _, tests := range [][]testCase{createTests, updateTests, patchTests, deleteTests, readTests, watchTests, protocolTests} {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, &api{t: t, config: config, client: client, base: base, name: "conformance-" + run + "-" + rand.String(6)})
				})
			}
		}
	})
}
