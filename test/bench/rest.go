// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRequests is what a standby at rest may ask of the API server in a minute.
	maxRequests = 1
	// maxMemory is what a sidecar at rest may have resident, in MiB.
	maxMemory = 16
	// maxBinary is the stripped binary's size in MiB.
	maxBinary = 16
)

// rest measures what a leader and a standby cost while nothing happens: requests and memory.
func (b *bench) rest(ctx context.Context) ([]row, error) {
	requests := row{What: fmt.Sprintf("requests of a standby at rest, in %s (%s)", b.window, b.timings), Unit: perMinute, Limit: fmt.Sprintf("≤ %d", maxRequests)}
	leader := row{What: "resident memory at rest, leader", Unit: mib, Limit: fmt.Sprintf("≤ %d", maxMemory)}
	standby := row{What: "resident memory at rest, standby", Unit: mib, Limit: fmt.Sprintf("≤ %d", maxMemory)}
	type household struct {
		crew   *crew
		proxy  *countingProxy
		sample func(*row) **sample
	}
	var households []household
	defer func() {
		for _, h := range households {
			h.crew.dismiss()
			h.proxy.close()
		}
	}()
	for _, kind := range []struct {
		name   string
		start  func(binary, kubeconfig string) starter
		binary string
		sample func(*row) **sample
	}{
		{"ours", ours, b.binary, func(r *row) **sample { return &r.Ours }},
		{"client-go", clientGo, b.candidate, func(r *row) **sample { return &r.ClientGo }},
	} {
		proxy, err := newCountingProxy(b.config)
		if err != nil {
			return nil, err
		}
		kubeconfig, err := b.kubeconfig(proxy.config)
		if err != nil {
			return nil, errors.Join(err, proxy.close())
		}
		w, err := newCrew(ctx, kind.name, kind.start(kind.binary, b.direct), b.timings, 1)
		households = append(households, household{w, proxy, kind.sample})
		if err != nil {
			return nil, err
		}
		w.start = kind.start(kind.binary, kubeconfig) // the standby goes by way of the proxy
		if err := w.recruit(ctx); err != nil {
			return nil, err
		}
	}
	b.progress("at rest for %s and %s", b.warmUp, b.window)
	if err := pause(ctx, b.warmUp); err != nil {
		return nil, err
	}
	for _, h := range households {
		h.proxy.reset()
	}
	begun := time.Now()
	if err := pause(ctx, b.window); err != nil {
		return nil, err
	}
	for _, h := range households {
		*h.sample(&requests) = one(float64(h.proxy.count()) / time.Since(begun).Minutes())
		for i, r := range []*row{&leader, &standby} {
			resident, err := residentMiB(h.crew.members[i].pid)
			if err != nil {
				return nil, err
			}
			*h.sample(r) = one(resident)
		}
		b.progress("at rest: the standby of %s sent %s", h.crew.kind, h.proxy)
	}
	requests.Met = verdict(requests.Ours.max() <= maxRequests)
	leader.Met = verdict(leader.Ours.max() <= maxMemory)
	standby.Met = verdict(standby.Ours.max() <= maxMemory)
	return []row{requests, leader, standby}, nil
}

// residentMiB is VmRSS of a process.
func residentMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}

// size measures the binaries.
func (b *bench) size(context.Context) ([]row, error) {
	r := row{What: "stripped static binary", Unit: mib, Limit: fmt.Sprintf("≤ %d", maxBinary)}
	for binary, into := range map[string]**sample{b.binary: &r.Ours, b.candidate: &r.ClientGo} {
		info, err := os.Stat(binary)
		if err != nil {
			return nil, err
		}
		*into = one(float64(info.Size()) / (1 << 20))
	}
	r.Met = verdict(r.Ours.max() <= maxBinary)
	return []row{r}, nil
}
