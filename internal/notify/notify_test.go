// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

const soon = 5 * time.Second // for what has to happen

// scripted is an election that is what the test says.
type scripted struct {
	mu       sync.Mutex
	status   elector.Status
	changed  chan struct{}
	asked    int // how often the status was
	releases []string
}

func newScripted(state elector.State) *scripted {
	return &scripted{status: elector.Status{State: state, Revision: "r0"}, changed: make(chan struct{})}
}

// becomes makes another revision of the status.
func (e *scripted) becomes(state elector.State, revision string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = elector.Status{State: state, Revision: revision, IsLeader: state == elector.Leading}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *scripted) Status() elector.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	e.status.ValidFor = time.Duration(e.asked)
	return e.status
}

func (e *scripted) Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error) {
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		if status := e.Status(); enough(status) {
			return status, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e.Status(), context.Cause(ctx)
		}
	}
}

func (e *scripted) Release(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.releases = append(e.releases, e.status.Revision)
	return nil
}

func (e *scripted) released() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.releases)
}

// app is one that is notified. It takes note of a revision when it has decided on the answer.
type app struct {
	*testing.T
	election *scripted
	ended    chan struct{} // when Notify has returned
	stop     context.CancelFunc

	overlap atomic.Bool // there were two requests at a time

	mu    sync.Mutex
	heard []string
}

// notified starts Notify for an app that answers with handle; nil answers 204 at once.
func notified(t *testing.T, election *scripted, handle http.HandlerFunc) *app {
	t.Helper()
	a := &app{T: t, election: election, ended: make(chan struct{})}
	var at atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at.Add(1) > 1 {
			a.overlap.Store(true)
		}
		defer at.Add(-1)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != "elector-sidecar" {
			t.Errorf("%s with %v, %v", r.Method, r.Header, err)
		}
		a.mu.Lock()
		a.heard = append(a.heard, string(body))
		a.mu.Unlock()
		if handle == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handle(w, r)
	}))
	ctx, stop := context.WithCancel(t.Context())
	a.stop = stop
	go func() {
		defer close(a.ended)
		Notify(ctx, Config{Election: election, URL: server.URL + "/leader", Timeout: 300 * time.Millisecond, HandoverTimeout: 2 * time.Second,
			Body: func(s elector.Status) []byte { return []byte(s.State.String() + " " + s.Revision) }})
	}()
	t.Cleanup(func() {
		stop()
		a.awaitEnd()
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

func (a *app) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.heard)
}

func (a *app) await(what string, is func() bool) {
	a.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.Fatalf("not within %s: %s; heard %q", soon, what, a.all())
		}
	}
}

func (a *app) awaitHeard(want ...string) {
	a.Helper()
	a.await(fmt.Sprintf("hears %q", want), func() bool { return len(a.all()) >= len(want) })
	if got := a.all(); !slices.Equal(got, want) {
		a.Fatalf("heard %q, want %q", got, want)
	}
}

func (a *app) awaitEnd() {
	a.Helper()
	select {
	case <-a.ended:
	case <-time.After(soon):
		a.Error("Notify does not return")
	}
}

func text(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

func TestEachChangeIsTold(t *testing.T) {
	e := newScripted(elector.Starting)
	a := notified(t, e, nil)
	time.Sleep(20 * time.Millisecond)
	a.awaitHeard() // of what is not known yet there is nothing to tell
	e.becomes(elector.Following, "r1")
	a.awaitHeard("following r1")
	e.becomes(elector.Leading, "r2")
	a.awaitHeard("following r1", "leading r2")
	e.becomes(elector.HandingOver, "r3")
	a.awaitHeard("following r1", "leading r2", "handing-over r3")
	a.await("the release", func() bool { return slices.Equal(e.released(), []string{"r3"}) })
	e.becomes(elector.Stopped, "r4")
	a.awaitHeard("following r1", "leading r2", "handing-over r3", "stopped r4")
	a.awaitEnd()
	if got := e.released(); len(got) != 1 {
		t.Errorf("released %q", got)
	}
}

// While the app thinks, changes come and go: of those it hears the newest alone, and not before it has answered.
func TestTheNewestWins(t *testing.T) {
	e := newScripted(elector.Following)
	think := make(chan struct{})
	a := notified(t, e, func(http.ResponseWriter, *http.Request) { <-think })
	a.awaitHeard("following r0")
	for _, revision := range []string{"r1", "r2", "r3"} {
		e.becomes(elector.Leading, revision)
		time.Sleep(20 * time.Millisecond)
	}
	a.awaitHeard("following r0")
	close(think)
	a.awaitHeard("following r0", "leading r3")
	time.Sleep(50 * time.Millisecond)
	a.awaitHeard("following r0", "leading r3")
	if a.overlap.Load() {
		t.Error("there were two requests at a time")
	}
}

func TestAnAttemptThatFails(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"404": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"no answer":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half of one": func(w http.ResponseWriter, _ *http.Request) { half(w); panic(http.ErrAbortHandler) },
		"a slow one":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a slow half": func(w http.ResponseWriter, r *http.Request) { half(w); <-r.Context().Done() },
		"informations": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name+" is repeated", func(t *testing.T) {
			t.Parallel()
			e := newScripted(elector.Leading)
			var n atomic.Int32
			var paths sync.Map
			a := notified(t, e, func(w http.ResponseWriter, r *http.Request) {
				paths.Store(r.URL.Path, true)
				if n.Add(1) <= 3 {
					fail(w, r)
				}
			})
			a.awaitHeard("leading r0", "leading r0", "leading r0", "leading r0")
			time.Sleep(300 * time.Millisecond)
			a.awaitHeard("leading r0", "leading r0", "leading r0", "leading r0")
			if _, followed := paths.Load("/elsewhere"); followed {
				t.Error("a redirect was followed")
			}
		})
		t.Run(name+" is superseded", func(t *testing.T) {
			t.Parallel()
			e := newScripted(elector.Leading)
			a := notified(t, e, func(w http.ResponseWriter, r *http.Request) {
				if text(r) == "leading r0" {
					fail(w, r)
				}
			})
			a.await("three attempts", func() bool { return len(a.all()) >= 3 })
			e.becomes(elector.Following, "r1")
			a.await("the newest", func() bool { return slices.Contains(a.all(), "following r1") })
			n := len(a.all())
			time.Sleep(300 * time.Millisecond)
			if got := a.all(); len(got) != n || got[n-1] != "following r1" {
				t.Errorf("after it was told of the newest, it heard: %q", got)
			}
		})
		if strings.Contains(name, "slow") {
			continue // handing over takes its time: TestTheAppHasTheHandoverTimeout
		}
		t.Run(name+" ends no handover", func(t *testing.T) {
			t.Parallel()
			e := newScripted(elector.HandingOver)
			a := notified(t, e, fail)
			a.await("three attempts", func() bool { return len(a.all()) >= 3 })
			if got := e.released(); len(got) > 0 {
				t.Errorf("released %q", got)
			}
		})
	}
}

func half(w http.ResponseWriter) {
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "stopping…")
	_ = http.NewResponseController(w).Flush()
}

// The wait between attempts grows, but not for long.
func TestBackoff(t *testing.T) {
	t.Parallel()
	e := newScripted(elector.Leading)
	a := notified(t, e, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	time.Sleep(firstBackoff * 20) // waits of 1, 2, 4, 8 and 16 of them
	if n := len(a.all()); n < 3 || n > 6 {
		t.Errorf("%d attempts in %s", n, firstBackoff*20)
	}
	a.await("the longest wait is over", func() bool { return len(a.all()) >= 7 })
}

// What is sent is worked out as it is sent, each time.
func TestTheBodyIsOfNow(t *testing.T) {
	e := newScripted(elector.Leading)
	var bodies []string
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, text(r))
		if len(bodies) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Notify(ctx, Config{Election: e, URL: server.URL, Timeout: soon, Body: func(s elector.Status) []byte { return []byte(s.ValidFor.String()) }})
	}()
	time.Sleep(500 * time.Millisecond)
	cancel()
	<-ended
	if len(bodies) != 3 || bodies[0] == bodies[1] || bodies[1] == bodies[2] {
		t.Errorf("told %q", bodies)
	}
}

// An app that is told of a handover may take longer to answer than one that is told of anything else.
func TestTheAppHasTheHandoverTimeout(t *testing.T) {
	t.Parallel()
	e := newScripted(elector.HandingOver)
	a := notified(t, e, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	})
	time.Sleep(700 * time.Millisecond)
	if got := e.released(); len(got) > 0 {
		t.Errorf("released before the app has answered: %q", got)
	}
	a.await("the release", func() bool { return slices.Equal(e.released(), []string{"r0"}) })
	a.awaitHeard("handing-over r0")
}

// An answer that comes when there is another handover, or none, ends nothing.
func TestALateAnswerEndsNoOtherHandover(t *testing.T) {
	for name, next := range map[string]elector.State{"another": elector.HandingOver, "none": elector.Following, "leading again": elector.Leading} {
		t.Run(name, func(t *testing.T) {
			e := newScripted(elector.HandingOver)
			think, second := make(chan struct{}), make(chan struct{})
			a := notified(t, e, func(_ http.ResponseWriter, r *http.Request) {
				if text(r) == "handing-over r0" {
					<-think
				} else {
					<-second
				}
			})
			a.awaitHeard("handing-over r0")
			e.becomes(next, "r1")
			close(think)
			a.awaitHeard("handing-over r0", next.String()+" r1")
			if got := e.released(); len(got) > 0 {
				t.Errorf("released %q", got)
			}
			close(second)
			if next == elector.HandingOver {
				a.await("the release of the other", func() bool { return slices.Equal(e.released(), []string{"r1"}) })
			}
		})
	}
}

// An app that has gone does not keep the sidecar: of the end it is told once.
func TestTheEndIsToldOnce(t *testing.T) {
	e := newScripted(elector.Following)
	a := notified(t, e, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	a.await("two attempts", func() bool { return len(a.all()) >= 2 })
	e.becomes(elector.Stopped, "r1")
	a.awaitEnd()
	if got := a.all(); got[len(got)-1] != "stopped r1" || got[len(got)-2] == "stopped r1" {
		t.Errorf("heard %q", got)
	}
}

func TestNotifyEndsWithItsContext(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"when all is told":        nil,
		"in a request":            func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"between two attempts":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"before there is a state": nil,
	} {
		t.Run(name, func(t *testing.T) {
			e := newScripted(elector.HandingOver)
			if strings.HasPrefix(name, "before") {
				e = newScripted(elector.Starting)
			}
			a := notified(t, e, handle)
			time.Sleep(20 * time.Millisecond)
			a.stop()
			select {
			case <-a.ended:
			case <-time.After(200 * time.Millisecond):
				t.Error("it goes on")
			}
		})
	}
}

func TestCheckURL(t *testing.T) {
	for target, wrong := range map[string]string{
		"http://127.0.0.1:8080/leader": "", "http://[::1]/": "", "http://localhost:1?x=1": "",
		"https://127.0.0.1/": "http://", "": "http://", "http://10.0.0.1/": "loopback", "http://127.0.0.1:x/": "port", "http://127.0.0.1\n/": "control character",
	} {
		switch err := CheckURL(target); {
		case wrong == "" && err != nil:
			t.Errorf("%s is refused: %v", target, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("of %q it is said %v, not %q", target, err, wrong)
		}
	}
}
