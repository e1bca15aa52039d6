// SPDX-License-Identifier: Apache-2.0

// Command chaos lets sidecars and client-go's elector compete for one Lease on a real kube-apiserver and etcd while
// everything goes wrong that can, and judges what they said meanwhile. `make chaos DURATION=30m` runs it. Progress goes to
// standard error, the report to standard output; the exit code is 1 where something happened that must not.
//
// plan.go draws the faults from the seed, faults.go carries them out. seat.go is a candidate with the app beside it,
// clientgo.go client-go's. judge.go, register.go and gap.go find what is wrong, in the answers alone: they do not look into
// the sidecars.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(asTheirs) != "" {
		exit(runTheirs())
	}
	length := flag.Duration("duration", 2*time.Minute, "how long faults happen")
	seed := flag.Uint64("seed", 0, "of the schedule of faults (0: one is drawn)")
	binary := flag.String("binary", "", "the sidecar to run (default: one is built, with the race detector where there is a C compiler)")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(os.Stderr, "seed %d\n", *seed)
	r, err := run(ctx, options{seed: *seed, length: *length, binary: *binary, stderr: os.Stderr})
	if err != nil {
		exit(err)
	}
	fmt.Print(r)
	if len(r.violations) > 0 {
		fmt.Print(r.story())
		os.Exit(1)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
