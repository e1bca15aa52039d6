// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e_test is the cases that need a real kubelet: make e2e. The package stage says how one is written.
package e2e_test

import (
	"os"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }
