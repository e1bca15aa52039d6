// SPDX-License-Identifier: Apache-2.0

// Command demo shows what the sidecar does: three of them, as processes of this machine, elect a leader on a Lease, and
// the leader is stopped, killed, frozen and robbed of its Lease. It needs Go and nothing else: the Lease API is embedded,
// unless -cluster asks for a real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// options are what the command line says.
type options struct {
	cluster     bool
	interactive bool
	verbose     bool
	lease       time.Duration
	renew       time.Duration
	retry       time.Duration
	// binary is a built sidecar; it is built where this is "".
	binary string
}

// The exit codes besides 0.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	var o options
	flag.BoolVar(&o.cluster, "cluster", false, "use the current kubeconfig's cluster instead of the embedded Lease API")
	flag.BoolVar(&o.interactive, "interactive", false, "start the three and leave them running, to try things by hand")
	flag.BoolVar(&o.verbose, "v", false, "show what the sidecars log")
	flag.DurationVar(&o.lease, "lease", 5*time.Second, "lease duration")
	flag.DurationVar(&o.renew, "renew", 3*time.Second, "renew deadline")
	flag.DurationVar(&o.retry, "retry", time.Second, "retry period")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: argument %q: there are none but the flags that -help lists\n", flag.Arg(0))
		os.Exit(exitUsage)
	}
	os.Exit(runUntilSignal(o))
}

// runUntilSignal runs the demo until it is over or a signal ends it. Whatever happens, it cleans up.
func runUntilSignal(o options) int {
	signal.Ignore(syscall.SIGPIPE) // a reader that leaves, as in "| head", is to end it as Ctrl-C does
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch err := run(ctx, o, os.Stdout); {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(os.Stderr, "demo:", err)
		if o.interactive {
			return 0 // there is no other end
		}
		return exitInterrupted
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitFailed
	}
}

// errInterrupted: the demo was ended before it was over.
var errInterrupted = errors.New("interrupted; the sidecars that it had started are gone")

// interruptGrace is how long a failure waits for the signal that may explain it: Ctrl-C goes to the sidecars as well.
const interruptGrace = 200 * time.Millisecond

func run(ctx context.Context, o options, stdout io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newPrinter(stdout, cancel)
	dir, err := os.MkdirTemp("", "elector-demo-")
	if err != nil {
		return fmt.Errorf("making a folder for what is built: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	out.line("elector-sidecar: three pods, one Lease, at most one leader.")
	cluster, err := chooseCluster(ctx, o, dir)
	if err != nil {
		return explain(ctx, err)
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	out.line("The Lease is %s/%s, %s. To look at it meanwhile:", cluster.namespace, leaseName, cluster.where)
	out.line("   %s", cluster.tryIt[0])
	out.line("Lease duration %s, renew deadline %s, retry period %s here, to keep it short; the defaults are 15s, 10s and 2s.",
		o.lease, o.renew, o.retry)

	if o.binary == "" {
		if o.binary, err = build(ctx, out, dir); err != nil {
			return explain(ctx, err)
		}
	}
	crew := newCrew(o, cluster, out)
	defer crew.kill()
	do := walk
	if o.interactive {
		do = interact
	}
	err = explain(ctx, do(ctx, o, crew, cluster, out))
	if err != nil && !errors.Is(err, errInterrupted) {
		crew.showLogs(out)
	}
	return err
}

// explain tells an interruption from a failure.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-time.After(interruptGrace):
		return err
	}
}

func chooseCluster(ctx context.Context, o options, dir string) (*cluster, error) {
	if o.cluster {
		return currentCluster(ctx)
	}
	return embeddedAPI(dir)
}

// build builds the sidecar of the source tree that the demo is run in.
func build(ctx context.Context, out *printer, dir string) (string, error) {
	defer out.counting("building the sidecar")()
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for go.mod: %w", err)
	}
	return process.Build(ctx, filepath.Dir(string(mod)), dir)
}
