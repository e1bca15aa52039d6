// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// binary is the sidecar, built once.
var binary = sync.OnceValues(func() (string, error) { return process.Build(context.Background(), "../..", scratch) })

var scratch string // removed in the end

// TestMain runs many tests at a time, whatever the number of processors: they wait rather than work.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "notify"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return m.Run()
}

const (
	stopTime = 700 * time.Millisecond // that an app needs to stop its work
	patience = 10 * time.Second       // for what has to happen
)

// Two pods hand over in every way, in both shapes of pod. Their apps know of the election by notifications alone, and are
// slow to stop. No work begins before the other pod's has ended.
func TestWorkIsHandedOverInOrder(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		name     string
		appFirst bool // else the app and the sidecar are told to stop together
		rounds   int
		// handover is the handover timeout. Where the app is gone before the sidecar is told to stop it passes in full, with
		// nobody left to say that the work has stopped. Else it is more than this test's patience: an answer has to end it.
		handover time.Duration
	}{
		{"app first", true, 2, 2 * time.Second},
		{"together", false, 3, 2 * patience},
	} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, shape.handover)
			pods := map[string]*pod{}
			for _, name := range []string{"pod-0", "pod-1"} {
				pods[name] = h.start(name)
			}
			h.awaitWork(0)
			for range shape.rounds {
				for _, step := range []func(*pod){
					func(leader *pod) {
						leader.app.terminate(shape.appFirst)
						h.must(leader.sidecar.Signal(syscall.SIGTERM))
					},
					func(leader *pod) {
						response, err := http.Post(leader.sidecar.URL+"/resign?cooldown=200ms", "", nil)
						h.must(err)
						h.must(response.Body.Close())
						if response.StatusCode != http.StatusAccepted {
							h.Errorf("/resign answers %s", response.Status)
						}
					},
					func(leader *pod) { leader.app.ill.Store(true) },
				} {
					before := h.last()
					leader := pods[before.pod]
					step(leader)
					h.awaitWork(before.token)
					if h.checkOrder(); t.Failed() {
						return
					}
					leader.app.ill.Store(false)
					if leader.app.terminated.Load() {
						if code, err := leader.sidecar.Wait(t.Context()); code != 0 || err != nil {
							t.Errorf("exit code %d, %v", code, err)
						}
						pods[before.pod] = h.start(before.pod)
					}
				}
			}
			if terms := h.checkOrder(); terms < 3*shape.rounds+1 {
				t.Errorf("there were %d terms in %d handovers", terms, 3*shape.rounds)
			}
		})
	}
}

// house is a cluster of two pods and the log that their apps share.
type house struct {
	*testing.T
	binary     string
	kubeconfig string
	handover   time.Duration

	mu  sync.Mutex
	log []line
}

// line says that an app was at work.
type line struct {
	at    time.Time
	pod   string
	token uint64
}

func newHouse(t *testing.T, handover time.Duration) *house {
	t.Helper()
	server := httptest.NewServer(leaseserver.New(electortest.NewStore()))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{T: t, binary: path, handover: handover, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	h.must(process.WriteKubeconfig(h.kubeconfig, server.URL))
	return h
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) write(l line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.at = time.Now()
	h.log = append(h.log, l)
}

func (h *house) lines() []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

func (h *house) last() line {
	lines := h.lines()
	return lines[len(lines)-1]
}

// awaitWork waits until there is work with a token above the given one, which goes on.
func (h *house) awaitWork(above uint64) {
	h.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		n := 0
		for _, l := range h.lines() {
			if l.token > above {
				n++
			}
		}
		if n >= 10 {
			return
		}
	}
	h.Fatalf("no work with a token above %d within %s", above, patience)
}

// checkOrder checks that no two terms' work overlaps, and returns how many terms there were.
func (h *house) checkOrder() (terms int) {
	h.Helper()
	var last line
	for i, l := range h.lines() {
		switch {
		case l.at.Before(last.at) || l.token < last.token:
			h.Errorf("line %d: %s worked with token %d, %s after %s had begun with %d", i, l.pod, l.token, l.at.Sub(last.at), last.pod, last.token)
		case l.token == last.token && l.pod != last.pod:
			h.Errorf("line %d: %s and %s both worked with token %d", i, l.pod, last.pod, l.token)
		case l.token != last.token:
			terms++
		}
		last = l
	}
	return terms
}

type pod struct {
	app     *app
	sidecar *process.Sidecar
}

func (h *house) start(name string) *pod {
	h.Helper()
	a := &app{house: h, name: name}
	a.server = httptest.NewServer(a)
	sidecar, err := process.Start(h.binary, name, []string{
		"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + h.kubeconfig,
		"ELECTOR_LEASE_DURATION=3s", "ELECTOR_RENEW_DEADLINE=2s", "ELECTOR_RETRY_PERIOD=300ms", "ELECTOR_HANDOVER_TIMEOUT=" + h.handover.String(),
		"ELECTOR_NOTIFY_URL=" + a.server.URL + "/leader",
		"ELECTOR_APP_HEALTH=" + a.server.URL + "/healthz", "ELECTOR_APP_HEALTH_PERIOD=200ms", "ELECTOR_APP_HEALTH_TIMEOUT=200ms", "ELECTOR_APP_HEALTH_FAILURES=2",
	}, nil)
	h.must(err)
	h.Cleanup(func() {
		sidecar.Kill()
		a.terminate(true)
		if h.Failed() {
			h.Logf("the sidecar of %s:\n%s", name, sidecar.Log())
		}
	})
	return &pod{app: a, sidecar: sidecar}
}

// app works while it is told that its pod leads.
type app struct {
	*house
	name       string
	server     *httptest.Server
	ill        atomic.Bool
	terminated atomic.Bool

	mu     sync.Mutex
	stop   chan struct{} // closed to end the work, nil while there is none
	worked sync.WaitGroup
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		if a.ill.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	var leader process.Leader
	if err := json.NewDecoder(r.Body).Decode(&leader); err != nil || leader.PodName != a.name {
		a.Errorf("%s is told of %+v, %v", a.name, leader, err)
	}
	if leader.IsLeader && !a.terminated.Load() {
		a.begin(leader.FencingToken)
	} else {
		a.end()
	}
}

func (a *app) begin(token uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.Errorf("%s is told again that it leads", a.name)
		return
	}
	stop := make(chan struct{})
	a.stop = stop
	a.worked.Go(func() {
		for until := (<-chan time.Time)(nil); ; {
			a.write(line{pod: a.name, token: token})
			select {
			case <-stop:
				stop, until = nil, time.After(stopTime)
			case <-until:
				a.write(line{pod: a.name, token: token})
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
}

// end ends the work and returns when it has ended.
func (a *app) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		close(a.stop)
		a.worked.Wait()
		a.stop = nil
	}
}

// terminate is SIGTERM: the work ends, then the app. With wait it returns when that is so.
func (a *app) terminate(wait bool) {
	a.terminated.Store(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.end()
		a.server.Close()
	}()
	if wait {
		<-ended
	}
}

// A sidecar whose app is gone, or hangs, exits no later for that.
func TestTheAppDoesNotHoldUpTheExit(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"gone": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, 0)
			release := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
			defer server.Close()
			defer close(release)
			url := server.URL
			if !hangs {
				address, err := process.FreeAddress()
				h.must(err)
				url = "http://" + address
			}
			sidecar, err := process.Start(h.binary, "pod-0", []string{
				"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + h.kubeconfig, "ELECTOR_NOTIFY_URL=" + url,
			}, nil)
			h.must(err)
			defer sidecar.Kill()
			_, err = sidecar.Await(t.Context(), func(l process.Leader) bool { return l.IsLeader })
			h.must(err)
			begun := time.Now()
			h.must(sidecar.Signal(syscall.SIGTERM))
			code, err := sidecar.Wait(t.Context())
			if took := time.Since(begun); code != 0 || err != nil || took > time.Second {
				t.Errorf("exit code %d after %s, %v\n%s", code, took, err, sidecar.Log())
			}
			if n := strings.Count(sidecar.Log(), "the app was not notified"); n > 4 {
				t.Errorf("that is logged %d times:\n%s", n, sidecar.Log())
			}
		})
	}
}
