// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

const (
	// minThroughput is what part of a bare server's requests a second ours has to answer.
	minThroughput = 0.8
	// pace is at which many requests a second latency is measured, and maxLatency what 99 % of them may take.
	pace       = 1000
	maxLatency = time.Millisecond
	// maxCrowd is how much longer than a bare server ours may take to answer a crowd that waits.
	maxCrowd = 1.5
	// clients is how many connections put a server under load.
	clients = 8
)

// http measures the API beside a bare net/http server that answers with as many bytes, both in processes of their own and
// asked by the same client in turns.
func (b *bench) http(ctx context.Context) ([]row, error) {
	sidecar, err := b.loneSidecar(ctx)
	if err != nil {
		return nil, err
	}
	defer sidecar.Kill()
	address := strings.TrimPrefix(sidecar.URL, "http://")
	_, body, err := sidecar.Get(ctx, "/leader")
	if err != nil {
		return nil, err
	}
	rival, stop, err := b.startBare(string(body))
	if err != nil {
		return nil, err
	}
	defer stop()

	load := row{What: "GET /leader under load", Unit: "/s", Ours: &sample{}, Floor: &sample{}, Limit: fmt.Sprintf("≥ %.1f x", minThroughput)}
	late := row{What: fmt.Sprintf("the same at %d a second: p99", pace), Unit: ms, Ours: &sample{}, Floor: &sample{}, Limit: limit(maxLatency)}
	for round := range b.loads {
		for _, side := range []struct {
			address, path string
			load, late    *sample
		}{{address, "/leader", load.Ours, late.Ours}, {rival, "/", load.Floor, late.Floor}} {
			rate, err := throughput(side.address, side.path, b.load)
			if err != nil {
				return nil, err
			}
			side.load.values = append(side.load.values, rate)
			p99, err := latency(side.address, side.path, b.load)
			if err != nil {
				return nil, err
			}
			side.late.add(p99)
		}
		b.progress("load %d: %.0f requests a second, bare %.0f", round+1, load.Ours.values[round], load.Floor.values[round])
	}
	load.Ratio = load.Ours.median() / load.Floor.median()
	load.Met = verdict(load.Ratio >= minThroughput)
	late.Ratio = late.Ours.median() / late.Floor.median()
	late.Met = within(late.Ours, maxLatency)

	crowd := row{What: fmt.Sprintf("%d blocked requests all told", b.held), Unit: ms, Ours: &sample{}, Floor: &sample{}, Limit: fmt.Sprintf("≤ %.1f x", maxCrowd)}
	for round := range b.crowds {
		for _, side := range []struct {
			told *sample
			ask  func() (time.Duration, error)
		}{
			{crowd.Ours, func() (time.Duration, error) {
				if _, err := sidecar.Await(ctx, func(l process.Leader) bool { return l.IsLeader }); err != nil {
					return 0, err
				}
				return b.crowdTold(ctx, address, "/wait?for=not-leading&timeout=5m", "/metrics", "elector_waiters", "/resign?cooldown=0s")
			}},
			{crowd.Floor, func() (time.Duration, error) { return b.crowdTold(ctx, rival, "/held", "/count", "held", "/free") }},
		} {
			took, err := side.ask()
			if err != nil {
				return nil, fmt.Errorf("%s; the sidecar's log:\n%s", shortened(err.Error()), shortened(sidecar.Log()))
			}
			side.told.add(took)
		}
		b.progress("crowd %d: told within %.0f ms, bare %.0f ms", round+1, crowd.Ours.values[round], crowd.Floor.values[round])
	}
	crowd.Ratio = crowd.Ours.median() / crowd.Floor.median()
	crowd.Met = verdict(crowd.Ratio <= maxCrowd)
	return []row{load, late, crowd}, nil
}

// loneSidecar starts a sidecar that leads and has room for the crowd.
func (b *bench) loneSidecar(ctx context.Context) (*process.Sidecar, error) {
	s, err := process.Start(b.binary, "alone", []string{
		"KUBECONFIG=" + b.direct, "POD_NAMESPACE=" + cluster.Namespace, "POD_UID=1",
		"ELECTOR_LEASE_NAME=bench-http-" + rand.String(6), "ELECTOR_MAX_WAITERS=" + strconv.Itoa(b.held+clients),
	}, nil)
	if err != nil {
		return nil, err
	}
	if _, err := s.Await(ctx, func(l process.Leader) bool { return l.IsLeader }); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (b *bench) startBare(body string) (address string, stop func(), err error) {
	cmd := exec.Command(b.bare, "-body="+body) //nolint:noctx // stop ends it, and so does the end of the benchmark
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the bare server: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// connection asks over and over for one path, with as little work as can be.
type connection struct {
	net.Conn
	reader  *bufio.Reader
	request []byte
}

func dial(address, method, path string) (*connection, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReader(c), []byte(method + " " + path + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Length: 0\r\n\r\n")}, nil
}

func (c *connection) ask() (body []byte, err error) {
	if _, err := c.Write(c.request); err != nil {
		return nil, err
	}
	return c.answer()
}

func (c *connection) answer() ([]byte, error) {
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s answered %s: %s", c.RemoteAddr(), response.Status, body)
	}
	return body, err
}

// together runs f on as many connections at once as clients, and returns what went wrong.
func together(address, path string, f func(*connection) error) error {
	failed := make([]error, clients)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			c, err := dial(address, http.MethodGet, path)
			if err != nil {
				failed[i] = err
				return
			}
			defer c.Close()
			failed[i] = f(c)
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// throughput is how many requests a second are answered.
func throughput(address, path string, during time.Duration) (float64, error) {
	var mu sync.Mutex
	total := 0
	begun := time.Now()
	err := together(address, path, func(c *connection) error {
		n := 0
		for time.Since(begun) < during {
			if _, err := c.ask(); err != nil {
				return err
			}
			n++
		}
		mu.Lock()
		defer mu.Unlock()
		total += n
		return nil
	})
	return float64(total) / time.Since(begun).Seconds(), err
}

// latency is what 99 % of requests take at the pace.
func latency(address, path string, during time.Duration) (time.Duration, error) {
	var mu sync.Mutex
	all := &sample{}
	begun := time.Now()
	err := together(address, path, func(c *connection) error {
		mine := &sample{}
		ticker := time.NewTicker(clients * time.Second / pace)
		defer ticker.Stop()
		for time.Since(begun) < during {
			<-ticker.C
			sent := time.Now()
			if _, err := c.ask(); err != nil {
				return err
			}
			mine.add(time.Since(sent))
		}
		mu.Lock()
		defer mu.Unlock()
		all.values = append(all.values, mine.values...)
		return nil
	})
	return time.Duration(all.quantile(0.99) * float64(time.Millisecond)), err
}

// crowdTold lets a crowd wait, gives it news, and returns how long it took until the last had heard.
func (b *bench) crowdTold(ctx context.Context, address, path, counter, name, news string) (time.Duration, error) {
	crowd := make([]*connection, b.held)
	defer func() {
		for _, c := range crowd {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := range crowd {
		c, err := dial(address, http.MethodGet, path)
		if err != nil {
			return 0, err
		}
		crowd[i] = c
		// A connection that is closed in the usual way keeps its port for a minute.
		if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
			return 0, err
		}
		if _, err := c.Write(c.request); err != nil {
			return 0, err
		}
	}
	if err := b.allWait(ctx, address, counter, name); err != nil {
		return 0, err
	}
	told := make([]error, len(crowd))
	var listening sync.WaitGroup
	for i, c := range crowd {
		listening.Go(func() { _, told[i] = c.answer() })
	}
	herald, err := dial(address, http.MethodPost, news)
	if err != nil {
		return 0, err
	}
	defer herald.Close()
	begun := time.Now()
	if _, err := herald.ask(); err != nil {
		return 0, err
	}
	listening.Wait()
	took := time.Since(begun)
	for _, err := range told {
		if err != nil {
			return 0, fmt.Errorf("a request that waited for %s at %s: %w", path, address, err)
		}
	}
	return took, nil
}

// allWait waits until a server says that as many requests wait as are in the crowd.
func (b *bench) allWait(ctx context.Context, address, counter, name string) error {
	c, err := dial(address, http.MethodGet, counter)
	if err != nil {
		return err
	}
	defer c.Close()
	want := fmt.Sprintf("%s %d", name, b.held)
	for deadline := time.Now().Add(patience); ; {
		said, err := c.ask()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(said)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
				if n, err := strconv.ParseFloat(value, 64); err == nil && int(n) == b.held {
					return nil
				}
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not say %q: %s", address, want, said)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
