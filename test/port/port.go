// SPDX-License-Identifier: Apache-2.0

// Package port chooses TCP ports for tests.
package port

import (
	"testing"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// Free is process.FreeAddress for a test.
func Free(t testing.TB) string {
	t.Helper()
	address, err := process.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
