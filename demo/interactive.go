// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// interact keeps three sidecars running, and tells what becomes of them, until ctx ends. It always returns an error.
func interact(ctx context.Context, o options, crew *crew, cluster *cluster, out *printer) error {
	if err := crew.start(); err != nil {
		return err
	}
	if err := settle(ctx, crew, out); err != nil {
		return err
	}
	printCommands(out, crew, cluster)
	out.line("")
	out.line("What happens is told here. Ctrl-C ends everything.")
	out.line("")
	pause := 2 * o.lease // long enough to see who takes over
	var keepers sync.WaitGroup
	for _, p := range crew.pods {
		keepers.Go(func() { keep(ctx, crew, p, pause, out) })
	}
	keepers.Wait()
	return context.Cause(ctx)
}

// settle waits until each of the three knows of a leader.
func settle(ctx context.Context, crew *crew, out *printer) error {
	defer out.counting("waiting for a leader")()
	q := ask(ctx, crew.pods, func(l process.Leader) bool { return l.Name != "" }, startBound, "not all three came to know of a leader")
	return q.all()
}

// keep tells what becomes of a pod, and starts it again some time after its end.
func keep(ctx context.Context, crew *crew, p *pod, pause time.Duration, out *printer) {
	for {
		follow(ctx, p.Sidecar, out)
		if !sleep(ctx, interruptGrace) {
			return
		}
		out.line("%s  %s ended (%s); it is started again in %s", now(), p.Name, p.HowEnded(), pause)
		if !sleep(ctx, pause) {
			return
		}
		if err := crew.restart(p); err != nil {
			out.line("%s  %s stays away: %v", now(), p.Name, err)
			return
		}
		out.line("%s  %s runs again, pid %d", now(), p.Name, p.PID())
	}
}

// follow tells when a sidecar begins and ceases to lead, until it ends or ctx does.
func follow(ctx context.Context, sidecar *process.Sidecar, out *printer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-sidecar.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	leads := false
	for ctx.Err() == nil {
		said, err := sidecar.Await(ctx, func(l process.Leader) bool { return l.IsLeader != leads })
		switch leads = said.IsLeader; {
		case err != nil:
			leads = false
			sleep(ctx, interruptGrace)
		case leads:
			out.line("%s  %s leads, fencing token %d", now(), sidecar.Name, said.FencingToken)
		default:
			out.line("%s  %s does not lead any more", now(), sidecar.Name)
		}
	}
}

func now() string { return time.Now().Format("15:04:05.000") }

// sleep returns false when ctx ended it.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// printCommands prints what can be tried by hand, with the real addresses.
func printCommands(out *printer, crew *crew, cluster *cluster) {
	running := table{}
	for _, p := range crew.pods {
		running = append(running, []string{p.Name, fmt.Sprint(p.PID()), p.URL})
	}
	out.line("")
	for _, line := range running.headed("pod", "pid", "URL").lines() {
		out.line("%s", line)
	}
	one := crew.pods[0]
	out.line("")
	out.line("Ask a pod:")
	for _, line := range queries(one.URL) {
		out.line("   %s", line)
	}
	out.line("Take the leader away (here %s, if it leads):", one.Name)
	for _, line := range (table{
		{fmt.Sprintf("kill -TERM %d", one.PID()), "# it releases the Lease: the next leads at once"},
		{fmt.Sprintf("kill -KILL %d", one.PID()), "# the next leads when the Lease has expired"},
		{fmt.Sprintf("kill -STOP %d", one.PID()), "# likewise"},
		{fmt.Sprintf("kill -CONT %d", one.PID()), "# it goes on, and does not take itself for the leader"},
	}).lines() {
		out.line("   %s", line)
	}
	out.line("Look at the Lease, or take it away:")
	for _, line := range cluster.tryIt {
		out.line("   %s", line)
	}
}

// printHints prints what can be tried by hand elsewhere.
func printHints(out *printer) {
	out.line("")
	out.line("Try it by hand: make demo INTERACTIVE=1 keeps three running and prints their addresses.")
	out.line("In a pod the API listens on port 4040:")
	for _, line := range queries("http://localhost:4040") {
		out.line("   %s", line)
	}
}

// queries are the ways to ask a sidecar.
func queries(url string) []string {
	return table{
		{"curl -s " + url + "/leader", "# who leads, and whether this pod does"},
		{"curl -f " + url + "/is-leader", "# for scripts: fails unless this pod leads"},
		{"curl -s '" + url + "/wait?for=leading&timeout=60s'", "# blocks until this pod leads"},
		{"curl -s '" + url + "/leader?wait=60s'", "# blocks until something changes"},
	}.lines()
}
