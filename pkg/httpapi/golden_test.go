// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

var update = flag.Bool("update", false, "write the answers as they are now into testdata/*.golden; look at the diff")

// scripted is an election that is what the test says.
type scripted struct {
	mu      sync.Mutex
	status  elector.Status
	changed chan struct{} // made by serve, since it has to belong to the bubble

	health, trouble error
	denied          []string
	signs           map[string]error // nil: there are none

	commands []string // that were given
	refusal  error    // of a command
}

func newScripted(status elector.Status) *scripted {
	return &scripted{status: status}
}

func (e *scripted) Status() elector.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

func (e *scripted) Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error) {
	for {
		e.mu.Lock()
		status, changed := e.status, e.changed
		e.mu.Unlock()
		if enough(status) {
			return status, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e.Status(), context.Cause(ctx)
		}
	}
}

func (e *scripted) Health() error    { return e.health }
func (e *scripted) Trouble() error   { return e.trouble }
func (e *scripted) Denied() []string { return e.denied }

func (e *scripted) Release(context.Context) error { return e.told("release", stopped) }

func (e *scripted) Resign(_ context.Context, cooldown time.Duration) error {
	resigning := handingOver
	resigning.Stopping = false
	return e.told("resign for "+cooldown.String(), resigning)
}

// told takes note of a command, which leads to another status.
func (e *scripted) told(what string, next elector.Status) error {
	e.mu.Lock()
	e.commands = append(e.commands, what)
	refusal := e.refusal
	e.mu.Unlock()
	if refusal == nil {
		e.becomes(next)
	}
	return refusal
}

// becomes changes the status and wakes everybody who waits.
func (e *scripted) becomes(status elector.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
	close(e.changed)
	e.changed = make(chan struct{})
}

var (
	acquired = time.Date(2026, 11, 29, 18, 30, 12, 882283000, time.UTC)
	renewed  = acquired.Add(2 * time.Second)

	starting  = elector.Status{State: elector.Starting, Revision: "k3v9q-0"}
	following = elector.Status{State: elector.Following, Known: true, Leader: "web-1_a81d22c4", Term: 7, AcquireTime: acquired, RenewTime: renewed, Revision: "k3v9q-1"}
	unknown   = elector.Status{State: elector.Following, Known: true, Revision: "k3v9q-1"}
	lapsed    = elector.Status{State: elector.Following, Known: true, Term: 7, AcquireTime: acquired, RenewTime: renewed, Revision: "k3v9q-2x"}
	leading   = elector.Status{State: elector.Leading, Known: true, IsLeader: true, ValidFor: 9120*time.Millisecond + 999*time.Microsecond, Leader: "web-0_3f0c9f1e",
		Term: 8, FencingToken: 1<<63 + 1, AcquireTime: acquired, RenewTime: renewed, Revision: "k3v9q-2"}
	handingOver = elector.Status{State: elector.HandingOver, Known: true, Stopping: true, Term: 8, AcquireTime: acquired, RenewTime: renewed, Revision: "k3v9q-3"}
	stopped     = elector.Status{State: elector.Stopped, Known: true, Stopping: true, Term: 8, AcquireTime: acquired, RenewTime: acquired, Revision: "k3v9q-4"}
)

// reachedAt is a status with the leader's address.
func reachedAt(address string, status elector.Status) elector.Status {
	status.Address = netip.MustParseAddr(address)
	return status
}

// situations are all that the API can have to tell of. Each has a golden file.
var situations = []struct {
	name            string
	status          elector.Status
	health, trouble error
	denied          []string
	signs           map[string]error
}{
	{name: "starting", status: starting},
	{name: "starting-forbidden", status: starting, trouble: errors.New(`get: leases "web" is forbidden`), denied: []string{"get", "list", "watch"}},
	{name: "following", status: following},
	{name: "following-in-outage", status: following, trouble: errors.New("list: connection refused")},
	{name: "leader-unknown", status: unknown, denied: []string{"create"}},
	{name: "lapsed", status: lapsed, health: errors.New("the leader outlived its renew deadline")},
	{name: "leading", status: leading},
	{name: "following-with-address", status: reachedAt("fd00:10:244::1:7", following)},
	{name: "leading-with-signs", status: reachedAt("10.244.1.7", leading), signs: map[string]error{
		"service/web-leader":          errors.New("read Service shop/web-leader: services \"web-leader\" not found"),
		"label/example.com/role":      nil,
		"condition/example.com/leads": nil,
	}},
	{name: "handing-over", status: handingOver},
	{name: "stopped", status: stopped},
	{name: "broken", status: stopped, health: errors.New("the election has ended: it panicked\nwith a second line")},
}

// paths are the routes, none of which waits.
var paths = []string{
	"/", "/leader", "/leader?wait=0s", "/leader?revision=old", "/is-leader",
	"/wait?for=leading&timeout=0s", "/wait?for=not-leading&timeout=0s", "/healthz", "/healthz?verbose", "/readyz",
}

// otherMethods are those that no route answers, but for POST.
var otherMethods = []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"}

// commands are what is told, with POST.
var commands = []string{"/resign", "/resign?wait=0s", "/resign?cooldown=1m30s", "/release"}

// oddTargets are requests that are wrong, or look so. None of them waits.
var oddTargets = []string{
	"/leader?wait=", "/leader?wait", "/leader?wait=30", "/leader?wait=soon", "/leader?wait=-1ns", "/leader?wait=5m0.000000001s", "/leader?wait=5m1s",
	"/leader?wait=9223372036854775807ns", "/leader?wait=99999999999999999999s", "/leader?revision=old&wait=never", "/leader?wait=1s&wait=2s", "/leader?wait=0s&wait=0s",
	"/leader?revision=a&revision=b", "/leader?Wait=0s", "/leader?bogus", "/leader?timeout=1s", "/leader?wait=0s;revision=a", "/leader?wait=%zz",
	"/leader?wait=%00", "/leader?%3Cscript%3E=1", "/leader?wait=%22%5C%0a", "/leader?%ff=1",
	"/wait", "/wait?for=", "/wait?for=Leading", "/wait?for=leading%20", "/wait?for=leading&for=leading", "/wait?for=leading&timeout=6m", "/wait?for=leading&timeout=30",
	"/wait?for=leading&wait=0s", "/wait?timeout=0s",

	"/leader?", "/leader?&", "/leader?w%61it=0%73", "/leader?wait=%2B0s", "/leader?wait=-0s", "/leader?revision=", "/leader?revision=%00%ff", "/leader?revision=old&wait=5m", "/%6ceader",
	"/?anything=goes", "/is-leader?anything=goes", "/healthz?verbose=false", "/healthz?exclude=x", "/readyz?verbose", "http://elsewhere.example/leader",

	"/nowhere", "/leader/", "//leader", "//", "/./leader", "/x/../leader", "/leader%2f", "/leader%00", "/Leader", "/leaders", "/%ff", "/%3Cscript%3E", "/leader#top", "/debug/pprof/", "*",
}

// oddCommands are wrong whoever leads.
var oddCommands = []string{
	"/resign?cooldown=soon", "/resign?cooldown=", "/resign?cooldown=-1s", "/resign?cooldown=1h0m0.000000001s", "/resign?wait=5m1s", "/resign?wait=", "/resign?timeout=1s",
	"/resign?cooldown=1s&cooldown=1s", "/resign/", "/release/",
}

func TestGoldenAnswers(t *testing.T) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			election := newScripted(s.status)
			election.health, election.trouble, election.denied, election.signs = s.health, s.trouble, s.denied, s.signs
			serve(t, election, func(t *testing.T, at *house) {
				var answers strings.Builder
				for _, path := range paths {
					at.record(&answers, "GET", path)
				}
				for _, path := range commands {
					election.becomes(s.status)
					at.record(&answers, "POST", path)
				}
				compare(t, s.name, answers.String())
			})
		})
	}
}

// The methods that are refused are refused alike in every situation.
func TestGoldenMethods(t *testing.T) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			serve(t, newScripted(s.status), func(t *testing.T, at *house) {
				var answers strings.Builder
				for _, path := range append(paths, "/events", "/metrics") {
					for _, method := range otherMethods {
						at.record(&answers, method, path)
					}
				}
				for _, path := range commands {
					for _, method := range append([]string{"GET"}, otherMethods[1:]...) {
						at.record(&answers, method, path)
					}
				}
				at.record(&answers, "OPTIONS", "*")
				at.record(&answers, "POST", "/nowhere")
				compare(t, "methods", answers.String())
			})
		})
	}
}

func TestGoldenOddRequests(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		var answers strings.Builder
		for _, target := range oddTargets {
			at.record(&answers, "GET", target)
		}
		for _, target := range oddCommands {
			at.record(&answers, "POST", target)
		}
		compare(t, "odd-requests", answers.String())
	})
}

// record asks, and writes down the answer. A HEAD must be answered as the GET is, without its body.
func (h *house) record(answers *strings.Builder, method, target string) {
	h.Helper()
	began := time.Now()
	answer := h.ask(method, target)
	if method == http.MethodGet && !strings.HasPrefix(answer, "HTTP/1.1 405 ") {
		header, _, _ := strings.Cut(answer, "\n\n")
		if head := h.ask(http.MethodHead, target); head != header+"\n\n" {
			h.Errorf("HEAD %s answers\n%sGET\n%s", target, head, answer)
		}
	}
	if took := time.Since(began); took > 0 {
		h.Errorf("%s %s took %s", method, target, took)
	}
	fmt.Fprintf(answers, "=== %s %s\n%s\n", method, target, strings.TrimRight(answer, "\n")+"\n")
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: write it with -update", err)
	}
	wanted := strings.Split(string(want), "\n=== ")
	for i, answer := range strings.Split(got, "\n=== ") {
		switch {
		case i >= len(wanted):
			t.Errorf("%s does not have\n%s", path, answer)
		case answer != wanted[i]:
			t.Errorf("the answer is\n%s\nin %s it is\n%s", answer, path, wanted[i])
		}
	}
	if n := strings.Count(got, "\n=== ") + 1; n < len(wanted) {
		t.Errorf("%s has %d answers more", path, len(wanted)-n)
	}
}

// ---- A server in virtual time ---------------------------------------------------------------------------------------

// house is a server, and the network that leads to it.
type house struct {
	*testing.T
	network pipes
}

const maxWaiters = 5

// serve runs a test in virtual time with the server that the sidecar runs. Connections are pipes, which have no buffers.
func serve(t *testing.T, election *scripted, test func(*testing.T, *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		election.changed = make(chan struct{})
		h := &house{T: t, network: pipes{make(chan net.Conn), make(chan struct{})}}
		config := httpapi.Config{PodName: "web-0", PodUID: "3f0c9f1e", Lease: "shop/web", Cooldown: 15 * time.Second, MaxWaiters: maxWaiters}
		if election.signs != nil {
			config.Signs = func() map[string]error { return election.signs }
		}
		server := httpapi.NewServer(httpapi.New(election, config))
		served := make(chan error, 1)
		go func() { served <- server.Serve(h.network) }()
		t.Cleanup(func() {
			_ = server.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		test(t, h)
	})
}

type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection from somewhere.
type from struct {
	net.Conn
	address string
}

func (c from) RemoteAddr() net.Addr { return address(c.address) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// dial connects. The connection is closed at the end of the test.
func (h *house) dial() net.Conn {
	return h.dialFrom("127.0.0.1:50000")
}

func (h *house) dialFrom(address string) net.Conn {
	client, server := net.Pipe()
	h.network.dialled <- from{server, address}
	h.Cleanup(func() { _ = client.Close() })
	return client
}

// send connects and sends a request that ends the connection, and returns the connection.
func (h *house) send(method, target string) net.Conn {
	h.Helper()
	return h.sendOn(h.dial(), method, target)
}

func (h *house) sendOn(conn net.Conn, method, target string) net.Conn {
	h.Helper()
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, target); err != nil {
		h.Fatal(err)
	}
	return conn
}

// ask returns the answer as it is on the wire, but for what every answer on a connection that ends has.
func (h *house) ask(method, target string) string {
	h.Helper()
	return h.answerOn(h.send(method, target))
}

func (h *house) answerOn(conn net.Conn) string {
	h.Helper()
	answer, err := io.ReadAll(conn)
	if err != nil {
		h.Error(err)
	}
	header, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	var kept []string
	for line := range strings.SplitSeq(header, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") && line != "Connection: close" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n") + "\n\n" + body
}

// reply is an answer, and how long it took.
type reply struct {
	code int
	body string
	took time.Duration
}

func (r reply) String() string {
	return fmt.Sprintf("%d after %s: %s", r.code, r.took, r.body)
}

// get begins a request. Its answer can be taken from the channel.
func (h *house) get(target string) <-chan reply {
	h.Helper()
	began := time.Now()
	conn := h.send("GET", target)
	replies := make(chan reply, 1)
	go func() {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			replies <- reply{body: err.Error(), took: time.Since(began)}
			return
		}
		body, _ := io.ReadAll(answer.Body)
		replies <- reply{answer.StatusCode, string(body), time.Since(began)}
	}()
	return replies
}

// blocked checks that a request that was begun has no answer yet.
func (h *house) blocked(replies <-chan reply) {
	h.Helper()
	synctest.Wait()
	select {
	case r := <-replies:
		h.Fatalf("it does not block: %s", r)
	default:
	}
}

// ---- Blocking -------------------------------------------------------------------------------------------------------

func TestBlockingOnLeader(t *testing.T) {
	followed := following
	followed.Revision = "k3v9q-9"
	renewal := following
	renewal.RenewTime = renewed.Add(time.Minute)

	tests := map[string]struct {
		query    string
		then     map[time.Duration]elector.Status // after how long the status becomes another
		took     time.Duration
		revision string
	}{
		"no parameters":               {"", nil, 0, "k3v9q-1"},
		"another revision":            {"?revision=k3v9q-0&wait=5m", nil, 0, "k3v9q-1"},
		"another revision, no wait":   {"?revision=k3v9q-0", nil, 0, "k3v9q-1"},
		"a later revision":            {"?revision=k3v9q-2&wait=5m", nil, 0, "k3v9q-1"},
		"no revision":                 {"?revision=&wait=5m", nil, 0, "k3v9q-1"},
		"a lapsed revision":           {"?revision=k3v9q-1x&wait=5m", nil, 0, "k3v9q-1"},
		"garbage":                     {"?revision=%00%ff%22&wait=5m", nil, 0, "k3v9q-1"},
		"its prefix":                  {"?revision=k3v9q-&wait=5m", nil, 0, "k3v9q-1"},
		"no change":                   {"?revision=k3v9q-1&wait=7s", nil, 7 * time.Second, "k3v9q-1"},
		"no change, default wait":     {"?revision=k3v9q-1", nil, 30 * time.Second, "k3v9q-1"},
		"no change, longest wait":     {"?revision=k3v9q-1&wait=5m", nil, 5 * time.Minute, "k3v9q-1"},
		"no change, from now":         {"?wait=7s", nil, 7 * time.Second, "k3v9q-1"},
		"no wait":                     {"?revision=k3v9q-1&wait=0s", nil, 0, "k3v9q-1"},
		"a wait of nothing, alone":    {"?wait=0", nil, 0, "k3v9q-1"},
		"a change":                    {"?revision=k3v9q-1&wait=30s", map[time.Duration]elector.Status{3 * time.Second: followed}, 3 * time.Second, "k3v9q-9"},
		"a change, from now":          {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: followed}, 3 * time.Second, "k3v9q-9"},
		"a change in the last moment": {"?wait=3s", map[time.Duration]elector.Status{3*time.Second - 1: followed}, 3*time.Second - 1, "k3v9q-9"},
		"a change too late":           {"?wait=3s", map[time.Duration]elector.Status{3*time.Second + 1: followed}, 3 * time.Second, "k3v9q-1"},
		"a renewal":                   {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: renewal}, 30 * time.Second, "k3v9q-1"},
		"a renewal, then a change":    {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: renewal, 5 * time.Second: followed}, 5 * time.Second, "k3v9q-9"},
		"election":                    {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: leading}, 3 * time.Second, "k3v9q-2"},
		"the stop":                    {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: handingOver}, 3 * time.Second, "k3v9q-3"},
		"the end":                     {"?wait=30s", map[time.Duration]elector.Status{3 * time.Second: stopped}, 3 * time.Second, "k3v9q-4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			election := newScripted(following)
			serve(t, election, func(t *testing.T, at *house) {
				for after, status := range test.then {
					time.AfterFunc(after, func() { election.becomes(status) })
				}
				r := <-at.get("/leader" + test.query)
				if r.code != 200 || r.took != test.took || !strings.Contains(r.body, `"revision":"`+test.revision+`"`) {
					t.Errorf("it is answered %s; want 200 after %s with the revision %s", r, test.took, test.revision)
				}
				time.Sleep(time.Minute) // for what is due later
			})
		})
	}
}

// Once all is over nobody blocks, though there will never be another revision.
func TestNobodyBlocksAfterTheEnd(t *testing.T) {
	serve(t, newScripted(stopped), func(t *testing.T, at *house) {
		for target, code := range map[string]int{
			"/leader?revision=k3v9q-4&wait=5m": 200, "/leader?wait=5m": 200, "/wait?for=leading&timeout=5m": 503, "/wait?for=not-leading": 200,
		} {
			if r := <-at.get(target); r.code != code || r.took > 0 {
				t.Errorf("%s is answered %s; want %d at once", target, r, code)
			}
		}
	})
}

func TestWait(t *testing.T) {
	tests := map[string]struct {
		query string
		now   elector.Status
		then  elector.Status // 3 seconds later
		code  int
		took  time.Duration
	}{
		"it leads":                          {"for=leading", leading, leading, 200, 0},
		"it does not lead":                  {"for=not-leading", following, following, 200, 0},
		"nothing is known yet":              {"for=not-leading", starting, starting, 200, 0},
		"it comes to lead":                  {"for=leading", following, leading, 200, 3 * time.Second},
		"it comes to lead as it starts":     {"for=leading", starting, leading, 200, 3 * time.Second},
		"it comes to follow":                {"for=not-leading", leading, following, 200, 3 * time.Second},
		"it lapses":                         {"for=not-leading", leading, lapsed, 200, 3 * time.Second},
		"another comes to lead":             {"for=leading&timeout=8s", unknown, following, 504, 8 * time.Second},
		"nothing happens":                   {"for=leading&timeout=8s", following, following, 504, 8 * time.Second},
		"nothing happens to a leader":       {"for=not-leading&timeout=8s", leading, leading, 504, 8 * time.Second},
		"nothing happens by default":        {"for=leading", following, following, 504, 30 * time.Second},
		"nothing happens for ever so long":  {"for=leading&timeout=5m", following, following, 504, 5 * time.Minute},
		"too early":                         {"for=leading&timeout=2s", following, leading, 504, 2 * time.Second},
		"no patience":                       {"for=leading&timeout=0s", following, leading, 504, 0},
		"a follower is stopped":             {"for=leading&timeout=8s", following, stopped, 503, 3 * time.Second},
		"it is stopped as it starts":        {"for=leading&timeout=8s", starting, stopped, 503, 3 * time.Second},
		"a follower settles what it wrote":  {"for=leading&timeout=8s", following, handingOver, 503, 3 * time.Second},
		"a leader is stopped":               {"for=not-leading&timeout=8s", leading, handingOver, 200, 3 * time.Second},
		"it is handing over: no leader":     {"for=leading&timeout=8s", handingOver, handingOver, 503, 0},
		"it is handing over: not leading":   {"for=not-leading&timeout=8s", handingOver, handingOver, 200, 0},
		"a stopped one, without patience":   {"for=leading&timeout=0s", handingOver, handingOver, 503, 0},
		"a stopped one: it does not lead":   {"for=not-leading&timeout=0s", stopped, stopped, 200, 0},
		"a leader, asked without patience":  {"for=leading&timeout=0s", leading, leading, 200, 0},
		"a leader that is to be none, soon": {"for=not-leading&timeout=0s", leading, leading, 504, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			election := newScripted(test.now)
			serve(t, election, func(t *testing.T, at *house) {
				time.AfterFunc(3*time.Second, func() { election.becomes(test.then) })
				r := <-at.get("/wait?" + test.query)
				if r.code != test.code || r.took != test.took {
					t.Errorf("it is answered %s; want %d after %s", r, test.code, test.took)
				}
				isLeader := strings.Contains(r.body, `"isLeader":true`)
				if led := test.code == 200 && strings.Contains(test.query, "for=leading"); led != isLeader {
					t.Errorf("it is told %s", r.body)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestMaxWaiters(t *testing.T) {
	election := newScripted(following)
	serve(t, election, func(t *testing.T, at *house) {
		const leader, wait = "/leader?wait=5m", "/wait?for=leading&timeout=5m"
		full := func() (waiting []<-chan reply) {
			t.Helper()
			for i := range maxWaiters {
				waiting = append(waiting, at.get([]string{leader, wait}[i%2]))
				at.blocked(waiting[i])
			}
			for _, target := range []string{leader, wait} {
				answer := at.ask("GET", target)
				if !strings.HasPrefix(answer, "HTTP/1.1 503 ") || !strings.Contains(answer, "\nRetry-After: 1\n") ||
					!strings.Contains(answer, "ELECTOR_MAX_WAITERS") || !strings.Contains(answer, "application/problem+json") {
					t.Errorf("one too many is answered\n%s", answer)
				}
			}
			// What does not wait is answered all the same.
			for _, target := range []string{"/leader", "/leader?revision=old", "/leader?wait=0s", "/wait?for=not-leading", "/healthz", "/readyz", "/"} {
				if r := <-at.get(target); r.code != 200 {
					t.Errorf("%s is answered %s", target, r)
				}
			}
			return waiting
		}
		// All are told.
		waiting := full()
		election.becomes(leading)
		for _, replies := range waiting {
			if r := <-replies; r.code != 200 || r.took > 0 {
				t.Errorf("who waited is told %s", r)
			}
		}
		// All have waited for too long.
		election.becomes(following)
		for _, replies := range full() {
			if r := <-replies; r.took != 5*time.Minute {
				t.Errorf("who waited is told %s", r)
			}
		}
		// All go away, for which each of them makes room for one other.
		for range 3 {
			var gone []net.Conn
			for range maxWaiters {
				gone = append(gone, at.send("GET", leader))
			}
			synctest.Wait()
			if r := <-at.get(leader); r.code != 503 {
				t.Errorf("one too many is answered %s", r)
			}
			for _, conn := range gone {
				_ = conn.Close()
				synctest.Wait()
				replies := at.get("/leader?wait=1ns")
				if r := <-replies; r.code != 200 {
					t.Errorf("after a client has gone another is answered %s", r)
				}
			}
		}
		full()
	})
}

// A thousand requests that come and go at once leave nothing behind.
func TestWaitersInACrowd(t *testing.T) {
	election := newScripted(following)
	serve(t, election, func(t *testing.T, at *house) {
		var all []<-chan reply
		for range 1000 {
			all = append(all, at.get("/leader?wait=5m"))
		}
		synctest.Wait()
		election.becomes(leading)
		told := map[int]int{}
		for _, replies := range all {
			told[(<-replies).code]++
		}
		if told[200] < maxWaiters || told[200]+told[503] != 1000 {
			t.Errorf("the answers are %v", told)
		}
		for range maxWaiters {
			at.blocked(at.get("/leader?wait=5m"))
		}
	})
}

// ---- Commands -------------------------------------------------------------------------------------------------------

func TestCommands(t *testing.T) {
	refused := errors.New("elector: the election has ended")
	tests := map[string]struct {
		target  string
		now     elector.Status
		refusal error
		code    int
		command string
	}{
		"a leader":                  {"/resign", leading, nil, 202, "resign for 15s"},
		"with a cooldown":           {"/resign?cooldown=1m30s", leading, nil, 202, "resign for 1m30s"},
		"with none":                 {"/resign?cooldown=0s", leading, nil, 202, "resign for 0s"},
		"with the longest":          {"/resign?cooldown=1h", leading, nil, 202, "resign for 1h0m0s"},
		"a leader, too late":        {"/resign", leading, refused, 409, "resign for 15s"},
		"a follower":                {"/resign", following, nil, 409, ""},
		"one that has lapsed":       {"/resign", lapsed, nil, 409, ""},
		"one that hands over":       {"/resign", handingOver, nil, 409, ""},
		"with a bad cooldown":       {"/resign?cooldown=2h", leading, nil, 400, ""},
		"with a bad wait":           {"/resign?wait=2h", leading, nil, 400, ""},
		"released":                  {"/release", handingOver, nil, 202, "release"},
		"released, too late":        {"/release", handingOver, refused, 409, "release"},
		"released by a leader":      {"/release", leading, nil, 409, ""},
		"released by a follower":    {"/release", following, nil, 409, ""},
		"released after the end":    {"/release", stopped, nil, 409, ""},
		"released before it starts": {"/release", starting, nil, 409, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			election := newScripted(test.now)
			election.refusal = test.refusal
			serve(t, election, func(t *testing.T, at *house) {
				if answer := at.ask("POST", test.target); !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", test.code)) {
					t.Errorf("want %d; it is answered\n%s", test.code, answer)
				}
				if given := strings.Join(election.commands, ", "); given != test.command {
					t.Errorf("it told the election %q; want %q", given, test.command)
				}
			})
		})
	}
}

// Commands are the business of this pod alone.
func TestCommandsFromElsewhere(t *testing.T) {
	for caller, code := range map[string]int{
		"127.0.0.1:50000": 202, "127.8.8.8:50000": 202, "[::1]:50000": 202, "[::ffff:127.0.0.1]:50000": 202,
		"10.1.2.3:50000": 403, "[::ffff:10.1.2.3]:50000": 403, "[fe80::1%eth0]:50000": 403, "[::]:50000": 403, "0.0.0.0:50000": 403, "pipe": 403,
	} {
		for path, status := range map[string]elector.Status{"/resign": leading, "/release": handingOver} {
			election := newScripted(status)
			serve(t, election, func(t *testing.T, at *house) {
				answer := at.answerOn(at.sendOn(at.dialFrom(caller), "POST", path))
				if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", code)) || (len(election.commands) > 0) != (code == 202) {
					t.Errorf("POST %s from %s is answered\n%s\nand told the election %q", path, caller, answer, election.commands)
				}
				// Who must not tell may well ask.
				if answer := at.answerOn(at.sendOn(at.dialFrom(caller), "GET", "/leader")); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
					t.Errorf("GET /leader from %s is answered\n%s", caller, answer)
				}
			})
		}
	}
}

func TestResignAndWait(t *testing.T) {
	again := leading
	again.FencingToken++
	tests := map[string]struct {
		then elector.Status // 3 seconds after the resignation
		code int
		took time.Duration
	}{
		"another leads":       {following, 200, 3 * time.Second},
		"nobody does":         {unknown, 504, 8 * time.Second},
		"this pod does again": {again, 504, 3 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			election := newScripted(leading)
			serve(t, election, func(t *testing.T, at *house) {
				time.AfterFunc(3*time.Second, func() { election.becomes(test.then) })
				began := time.Now()
				answer := at.ask("POST", "/resign?wait=8s")
				if took := time.Since(began); took != test.took || !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", test.code)) {
					t.Errorf("want %d after %s; after %s it is answered\n%s", test.code, test.took, took, answer)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// ---- Slow, stalled and rude clients ---------------------------------------------------------------------------------

// closedAfter reads until the server closes the connection.
func closedAfter(conn net.Conn) (received string, took time.Duration) {
	began := time.Now()
	all, _ := io.ReadAll(conn)
	return string(all), time.Since(began)
}

func TestClientWithASlowHeaderIsCut(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		silent := at.dial()
		if received, took := closedAfter(silent); received != "" || took != 5*time.Second {
			t.Errorf("one that says nothing is cut after %s with %q", took, received)
		}
		slow := at.dial()
		go func() { _, _ = io.Copy(io.Discard, slow) }() // it says 408 or 400
		began := time.Now()
		for i := 0; ; i++ { // a byte a second
			if _, err := slow.Write([]byte("GET /leader HTTP/1.1\r\n"[i : i+1])); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("one that says a byte a second is cut after %s", took)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		conn := at.dial()
		fmt.Fprint(conn, "GET /is-leader HTTP/1.1\r\nHost: x\r\n\r\n")
		if received, took := closedAfter(conn); !strings.HasPrefix(received, "HTTP/1.1 503 ") || took != 2*time.Minute {
			t.Errorf("it is closed after %s, with %q", took, received)
		}
	})
}

func TestHeaderThatIsTooLarge(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		conn := at.dial()
		go fmt.Fprintf(conn, "GET /leader?revision=%s HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("x", 64<<10))
		if received, _ := closedAfter(conn); !strings.HasPrefix(received, "HTTP/1.1 431 ") {
			t.Errorf("it is answered %q", received)
		}
	})
}

// None of the deadlines cuts a blocked request short, not even the second one of a connection.
func TestBlockedRequestOutlivesTheDeadlines(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		conn := at.dial()
		reader := bufio.NewReader(conn)
		for _, wait := range []time.Duration{0, 5 * time.Minute, 0, 11 * time.Second, 5 * time.Minute} {
			began := time.Now()
			fmt.Fprintf(conn, "GET /leader?wait=%s HTTP/1.1\r\nHost: x\r\n\r\n", wait)
			answer, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatalf("wait=%s: %v after %s", wait, err, time.Since(began))
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 || time.Since(began) != wait {
				t.Errorf("wait=%s: %s after %s, %v", wait, answer.Status, time.Since(began), err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A body that is announced, or sent, holds nothing up.
func TestBodyOfAGet(t *testing.T) {
	tests := map[string]string{
		"never sent":      "Content-Length: 10\r\n\r\n",
		"sent in part":    "Content-Length: 10\r\n\r\n12345",
		"sent":            "Content-Length: 10\r\n\r\n1234567890",
		"chunked":         "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"chunks for ever": "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
		"asked for first": "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
		"huge":            "Content-Length: 1000000000000\r\n\r\n12345",
	}
	for name, rest := range tests {
		t.Run(name, func(t *testing.T) {
			serve(t, newScripted(following), func(t *testing.T, at *house) {
				for _, target := range []string{"/leader", "/leader?wait=20s", "/nowhere"} {
					conn := at.dial()
					began := time.Now()
					go fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s", target, rest)
					answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Errorf("%s: %v after %s", target, err, time.Since(began))
						continue
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil {
						t.Errorf("%s: %v after %s", target, err, time.Since(began))
					}
					if took := time.Since(began); took > 30*time.Second {
						t.Errorf("%s: the answer takes %s", target, took)
					}
				}
			})
		})
	}
}

// A client that has sent a body and then goes away makes room like any other.
func TestWaiterWithABodyGoesAway(t *testing.T) {
	election := newScripted(following)
	serve(t, election, func(t *testing.T, at *house) {
		defer election.becomes(stopped) // so that those who are left do not hold up the end
		for range maxWaiters {
			conn := at.dial()
			fmt.Fprint(conn, "GET /leader?wait=5m HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			synctest.Wait()
			_ = conn.Close()
		}
		time.Sleep(20 * time.Second)
		if r := <-at.get("/leader?wait=1ns"); r.code != 200 {
			t.Errorf("after %d such clients another is answered %s", maxWaiters, r)
		}
	})
}

// A client that never reads is given up, and its connection closed.
func TestClientThatNeverReads(t *testing.T) {
	for _, target := range []string{"/leader", "/leader?wait=1m", "/nowhere", "/metrics"} {
		t.Run(target, func(t *testing.T) {
			serve(t, newScripted(following), func(t *testing.T, at *house) {
				conn := at.dial()
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
				time.Sleep(time.Minute + 10*time.Second)
				synctest.Wait()
				if answer, _ := closedAfter(conn); answer != "" {
					t.Errorf("the connection still brings %q", answer)
				}
			})
		})
	}
}

// A client that sends one request after the other on one connection, without looking at the answers, is given up too.
func TestClientThatOnlySends(t *testing.T) {
	serve(t, newScripted(following), func(t *testing.T, at *house) {
		conn := at.dial()
		began := time.Now()
		request := bytes.Repeat([]byte("GET /leader HTTP/1.1\r\nHost: x\r\n\r\n"), 1000)
		for {
			if _, err := conn.Write(request); err != nil {
				break
			}
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it is cut after %s", took)
		}
	})
}
