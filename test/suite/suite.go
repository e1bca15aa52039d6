// SPDX-License-Identifier: Apache-2.0

// Package suite runs the tests of a package against one control plane and one built sidecar.
package suite

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// Parallel is for tests that wait most of the time: as many at once, whatever the number of processors.
const Parallel = 8

// Run builds the sidecar of the module two folders up, starts a control plane with the given flags of its API server, tells
// begin of both, runs the tests, and exits. parallel is how many tests run at once; 0: as many as there are processors.
func Run(m *testing.M, parallel int, begin func(binary string, plane *cluster.Cluster) error, flags ...string) {
	code, err := run(m, parallel, begin, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, parallel int, begin func(string, *cluster.Cluster) error, flags []string) (code int, err error) {
	flag.Parse()
	if parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			return 0, err
		}
	}
	dir, err := os.MkdirTemp("", "elector-sidecar-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := sidecar.Build("../..", dir)
	if err != nil {
		return 0, err
	}
	plane, err := cluster.Start(flags...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := begin(binary, plane); err != nil {
		return 0, err
	}
	return m.Run(), nil
}
