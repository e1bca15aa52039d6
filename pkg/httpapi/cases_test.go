// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// The tests TestCase… make the faults that others have reported; docs/guarantees.md has the table. They run in real time
// and over TCP, with an election of their own.

// pod is an elector and its API.
type pod struct {
	*elector.Elector
	t       *testing.T
	waiting atomic.Int64
	api     *electortest.Client
	server  *http.Server
	url     string
	stop    context.CancelFunc
	ended   chan struct{}
	client  *http.Client
}

// Wait is the elector's. It counts the requests that are blocked.
func (p *pod) Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	return p.Elector.Wait(ctx, enough)
}

const brisk = 700 * time.Millisecond // the renew deadline

func newPod(t *testing.T, store *electortest.Store, maxWaiters int) *pod {
	t.Helper()
	p := &pod{t: t, api: store.Leases("shop"), ended: make(chan struct{}), client: &http.Client{Transport: &http.Transport{}}}
	var err error
	p.Elector, err = elector.New(elector.Config{
		Client: p.api, Namespace: "shop", Name: "web", Identity: "web-0_1",
		LeaseDuration: time.Second, RenewDeadline: brisk, RetryPeriod: 150 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + listener.Addr().String()
	p.server = httpapi.NewServer(httpapi.New(p, httpapi.Config{PodName: "web-0", Lease: "shop/web", MaxWaiters: maxWaiters}))
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(listener) }()
	ctx, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), logr.Discard()))
	p.stop = stop
	go func() {
		defer close(p.ended)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		p.stop()
		<-p.ended
		_ = p.server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		p.client.CloseIdleConnections()
	})
	patience, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if s, err := p.Elector.Wait(patience, func(s elector.Status) bool { return s.IsLeader }); err != nil {
		t.Fatalf("it does not lead: %+v", s)
	}
	return p
}

// told is what /leader tells, between which instants.
type told struct {
	IsLeader       bool
	FencingToken   uint64
	ValidForMs     int64
	State          string
	sent, received time.Time
	code           int
}

func (p *pod) ask(target string) (told, error) {
	answer := told{sent: time.Now()}
	response, err := p.client.Get(p.url + target)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	answer.received, answer.code = time.Now(), response.StatusCode
	if response.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(body, &answer)
	}
	return answer, err
}

// E7: a client that goes on after the loss. The answer says for how long it holds, and that is never too long: a client
// that counts from before it asked has stopped by the deadline.
func TestCaseE7AnswerSaysHowLongItHolds(t *testing.T) {
	p := newPod(t, electortest.NewStore(), 10)
	leading, err := p.ask("/leader")
	if err != nil || leading.FencingToken == 0 || leading.ValidForMs <= 0 || leading.ValidForMs > brisk.Milliseconds() {
		t.Fatalf("it is told %+v, %v", leading, err)
	}
	// With no more renewals, all answers come to one and the same end.
	p.api.Cut()
	time.Sleep(100 * time.Millisecond) // what was under way
	var answers []told
	for until := time.Now().Add(2 * brisk); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		answer, err := p.ask("/leader")
		if err != nil {
			t.Fatal(err)
		}
		if answer.IsLeader != (answer.FencingToken > 0) || !answer.IsLeader && answer.ValidForMs > 0 {
			t.Errorf("it is told %+v", answer)
		}
		answers = append(answers, answer)
	}
	leads := slices.DeleteFunc(slices.Clone(answers), func(a told) bool { return !a.IsLeader })
	if len(leads) < 10 || len(leads) == len(answers) {
		t.Fatalf("%d of %d answers say that it leads", len(leads), len(answers))
	}
	end := func(a told, from time.Time) time.Time {
		return from.Add(time.Duration(a.ValidForMs) * time.Millisecond)
	}
	deadline := end(leads[0], leads[0].received) // at the latest, as far as each answer can tell
	for _, answer := range leads {
		if latest := end(answer, answer.received); latest.Before(deadline) {
			deadline = latest
		}
	}
	deadline = deadline.Add(2 * time.Millisecond) // rounding
	for _, answer := range leads {
		if end(answer, answer.sent).After(deadline) || answer.sent.After(deadline) {
			t.Errorf("%s before the deadline it is told %+v", deadline.Sub(answer.sent), answer)
		}
	}
	if last := leads[len(leads)-1]; last.ValidForMs > 200 {
		t.Errorf("the last answer of a leader says %d ms", last.ValidForMs)
	}
}

// J1: the stop waits for blocked requests, or cuts them off in the middle of an answer.
func TestCaseJ1StopWithBlockedRequests(t *testing.T) {
	const many = 50
	store := electortest.NewStore()
	p := newPod(t, store, many)
	type result struct {
		told
		err error
	}
	results := make(chan result, many)
	for i := range many {
		target := []string{"/leader?wait=5m", "/wait?for=not-leading&timeout=5m"}[i%2]
		go func() {
			answer, err := p.ask(target)
			results <- result{answer, err}
		}()
	}
	p.blocked(many)
	begun := time.Now()
	p.stop()
	<-p.ended
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		t.Errorf("the server's stop: %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("the stop took %s", took)
	}
	if lease := store.Peek("shop", "web"); *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease was not released: %+v", lease.Spec)
	}
	for range many {
		if r := <-results; r.err != nil || r.IsLeader || r.code != 200 || r.State == "" || r.received.Sub(begun) > time.Second {
			t.Errorf("who waited is told %+v after %s", r, r.received.Sub(begun))
		}
	}
}

// blocked returns once as many requests are blocked.
func (p *pod) blocked(number int64) {
	p.t.Helper()
	for until := time.Now().Add(20 * time.Second); p.waiting.Load() != number; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("%d requests are blocked, not %d", p.waiting.Load(), number)
		}
	}
}

// connect sends a request that blocks, on a connection of its own.
func (p *pod) connect() net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "GET /leader?wait=5m HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// J4: clients that have gone leave goroutines behind, until probes are refused and the pod is restarted.
func TestCaseJ4ClientsThatGoLeaveNothingBehind(t *testing.T) {
	const many = 500
	p := newPod(t, electortest.NewStore(), many)
	if _, err := p.ask("/healthz"); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for range 4 {
		var conns []net.Conn
		for range many {
			conns = append(conns, p.connect())
		}
		p.blocked(many)
		during := runtime.NumGoroutine()
		for _, conn := range conns {
			_ = conn.Close()
		}
		p.blocked(0)
		if during < before+many {
			t.Fatalf("%d goroutines with %d blocked requests, %d without, which proves nothing", during, many, before)
		}
		after := 0
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			if after = runtime.NumGoroutine(); after <= before+20 {
				break
			}
		}
		if after > before+20 {
			t.Fatalf("%d goroutines before, %d after %d clients have gone", before, after, many)
		}
	}
}

// J4: probes are answered whatever is blocked.
func TestCaseJ4ProbesBesideManyBlockedRequests(t *testing.T) {
	const many = 1000
	p := newPod(t, electortest.NewStore(), many)
	probes := func() (median time.Duration) {
		var took []time.Duration
		for range 51 {
			for _, path := range []string{"/healthz", "/readyz", "/is-leader"} {
				answer, err := p.ask(path)
				if err != nil || answer.code != 200 {
					t.Fatalf("%s answers %+v, %v", path, answer, err)
				}
				took = append(took, answer.received.Sub(answer.sent))
			}
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	alone := probes()
	for range many {
		conn := p.connect()
		defer conn.Close()
	}
	p.blocked(many)
	beside := probes()
	if answer, err := p.ask("/leader?wait=5m"); err != nil || answer.code != 503 {
		t.Errorf("one too many is answered %+v, %v", answer, err)
	}
	t.Logf("median of a probe: %s alone, %s beside %d blocked requests", alone, beside, many)
	if beside > 10*alone+10*time.Millisecond || beside > 100*time.Millisecond {
		t.Errorf("the median of a probe is %s alone, and %s beside %d blocked requests", alone, beside, many)
	}
}
