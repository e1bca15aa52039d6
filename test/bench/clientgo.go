// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// buildRival builds a program that the sidecar is compared with as the sidecar is built: static and stripped.
func buildRival(ctx context.Context, dir, name string) (string, error) {
	binary := filepath.Join(dir, name)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary,
		"github.com/elector-sidecar/elector-sidecar/test/bench/"+name)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return binary, nil
}

// clientGo starts candidates with client-go's elector. That one leads is learned from the line that its
// OnStartedLeading writes into a pipe.
func clientGo(binary, kubeconfig string) starter {
	return func(_ context.Context, lease, name, uid string, t timings) (*contender, error) {
		cmd := exec.Command(binary, //nolint:noctx // kill ends it, and so does the end of the benchmark
			"-kubeconfig="+kubeconfig, "-namespace="+cluster.Namespace, "-lease="+lease, "-identity="+name+"_"+uid,
			"-duration="+t.duration.String(), "-renew="+t.renew.String(), "-retry="+t.retry.String())
		log, ended := &lockedBuffer{}, make(chan struct{})
		cmd.Stderr = log
		lines, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if _, err = cmd.StdinPipe(); err != nil { // open until this process ends
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		c := &contender{
			name: name, pid: cmd.Process.Pid,
			ready: make(chan struct{}), leads: make(chan time.Time, 1), stops: make(chan time.Time, 1),
			term:  func() error { return cmd.Process.Signal(syscall.SIGTERM) },
			kill:  func() { _ = cmd.Process.Kill(); <-ended },
			ended: ended, log: func() string { return shortened(log.String()) },
		}
		go func() {
			defer close(ended)
			for told := bufio.NewScanner(lines); told.Scan(); {
				c.hear(told.Text(), time.Now())
			}
			_ = cmd.Wait() // how it ended is of no interest: its log tells
		}()
		return c, nil
	}
}

// hear takes in a line that a candidate told.
func (c *contender) hear(line string, at time.Time) {
	what, _, _ := strings.Cut(line, " ")
	switch what {
	case "knows":
		select {
		case <-c.ready:
		default:
			close(c.ready)
		}
	case "leading":
		c.leads <- at
	case "stopped": // also from one that never led
		c.stops <- at
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}
