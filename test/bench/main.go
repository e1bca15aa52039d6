// SPDX-License-Identifier: Apache-2.0

// Command bench measures the sidecar beside client-go's LeaderElector, and beside the least that is possible, on a real
// kube-apiserver and etcd, in one run. `make bench-failover` runs it. Progress goes to standard error, the table to
// standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// thorough is what the figures are published from.
var thorough = effort{
	timings:   timings{15 * time.Second, 10 * time.Second, 2 * time.Second},
	brisk:     timings{3 * time.Second, 2 * time.Second, 500 * time.Millisecond},
	handovers: 20, deaths: 5, tamperings: 10, theirTamperings: 2, starts: 10,
	window: time.Minute, warmUp: 10 * time.Second, settle: 500 * time.Millisecond,
	loads: 9, load: 2 * time.Second, crowds: 5, held: 10_000,
}

// quick shows that everything works.
var quick = effort{
	timings:   timings{3 * time.Second, 2 * time.Second, 500 * time.Millisecond},
	brisk:     timings{2 * time.Second, 1500 * time.Millisecond, 300 * time.Millisecond},
	handovers: 2, deaths: 1, tamperings: 1, theirTamperings: 1, starts: 1,
	window: 2 * time.Second, warmUp: time.Second, settle: 200 * time.Millisecond,
	loads: 1, load: 200 * time.Millisecond, crowds: 1, held: 100,
}

// options are what the command line says.
type options struct {
	effort effort
	binary string
	crowds []int
	only   []string
	json   bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := &options{}
	binary := flags.String("binary", "", "the sidecar to measure (default ../bin/elector-sidecar)")
	n := flags.Int("n", 0, "how many handovers to measure (default 20)")
	window := flags.Duration("window", 0, "how long to count the requests of a standby at rest (default 1m)")
	isQuick := flags.Bool("quick", false, "a short run, to see that it works")
	only := flags.String("only", "", "measure these alone: "+strings.Join(partNames(), ","))
	crowds := flags.String("crowd", "", "also measure a release among this many standbys, as in 20 or 2,20,50")
	flags.BoolVar(&o.json, "json", false, "print JSON, with each value, instead of the table")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.effort, o.binary = thorough, *binary
	if *isQuick {
		o.effort = quick
	}
	if *n > 0 {
		o.effort.handovers = *n
	}
	if *window > 0 {
		o.effort.window = *window
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
		for _, name := range o.only {
			if name != "none" && !slices.Contains(partNames(), name) {
				return nil, fmt.Errorf("-only: there is no %q", name)
			}
		}
	}
	for size := range strings.SplitSeq(*crowds, ",") {
		if *crowds == "" {
			break
		}
		count, err := strconv.Atoi(size)
		if err != nil || count < 1 {
			return nil, fmt.Errorf("-crowd is %q: it must be a whole number above 0, or several with commas", *crowds)
		}
		o.crowds = append(o.crowds, count)
	}
	return o, nil
}

// parts are what can be measured, in the order of the table.
var parts = []struct {
	name    string
	measure func(*bench, context.Context) ([]row, error)
}{
	{"handover", (*bench).handover},
	{"death", (*bench).death},
	{"tamper", (*bench).tamper},
	{"life", (*bench).life},
	{"rest", (*bench).rest},
	{"size", (*bench).size},
	{"http", (*bench).http},
}

func partNames() (names []string) {
	for _, part := range parts {
		names = append(names, part.name)
	}
	return names
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{effort: o.effort, stderr: stderr}
	if b.binary, err = sidecarBinary(o.binary); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.candidate, err = buildRival(ctx, b.dir, "candidate"); err != nil {
		return err
	}
	if b.bare, err = buildRival(ctx, b.dir, "bare"); err != nil {
		return err
	}
	b.progress("starting the control plane")
	plane, err := cluster.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	b.config = plane.Config()
	if b.direct, err = b.kubeconfig(b.config); err != nil {
		return err
	}
	b.ours, b.clientGo = ours(b.binary, b.direct), clientGo(b.candidate, b.direct)
	r, err := b.measure(ctx, o)
	if err != nil {
		return err
	}
	return r.print(stdout, o.json)
}

func (b *bench) measure(ctx context.Context, o *options) (*report, error) {
	r := &report{}
	var err error
	if r.Host, err = describeHost(b.config, b.timings, b.binary); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if o.only != nil && !slices.Contains(o.only, part.name) {
			continue
		}
		rows, err := part.measure(b, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	for _, size := range o.crowds {
		rows, err := b.crowd(ctx, size)
		if err != nil {
			return nil, fmt.Errorf("crowd: %w", err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	return r, nil
}
