// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

const patience = 10 * time.Second

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-ticker.C {
		if holds() {
			return
		}
	}
	t.Fatalf("it does not come true that %s", what)
}

// fakeSidecar answers as it is told to, and blocks requests as a sidecar does.
type fakeSidecar struct {
	*httptest.Server
	mu       sync.Mutex
	news     chan struct{} // closed at the next change
	answer   leader
	delay    time.Duration
	odd      http.HandlerFunc // answers instead, where not nil
	odds     int              // such answers
	commands []string
}

func newSidecar(t *testing.T) *fakeSidecar {
	s := &fakeSidecar{news: make(chan struct{})}
	s.say(leader{State: "following"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, req *http.Request) {
		wait, err := time.ParseDuration(req.FormValue("wait"))
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		if odd := s.oddAnswer(); odd != nil {
			odd(w, req)
			return
		}
		answer, news, delay := s.now()
		if req.FormValue("revision") == answer.Revision {
			select {
			case <-news:
			case <-time.After(wait):
			case <-req.Context().Done():
				return
			}
			answer, _, delay = s.now()
		}
		sleep(req.Context(), delay)
		reply(w, http.StatusOK, answer)
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.commands = append(s.commands, req.URL.Path)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *fakeSidecar) now() (leader, chan struct{}, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer, s.news, s.delay
}

func (s *fakeSidecar) oddAnswer() http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odds++
	return s.odd
}

// answersOddly answers all requests from now on so, ends those that are under way, and waits until one such answer was taken
// in: another request follows on it.
func (s *fakeSidecar) answersOddly(t *testing.T, odd http.HandlerFunc) {
	t.Helper()
	s.mu.Lock()
	s.odd, s.odds = odd, 0
	s.mu.Unlock()
	s.CloseClientConnections()
	eventually(t, "an odd answer is taken in", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.odds >= 2
	})
}

func (s *fakeSidecar) say(l leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(s.answer.Revision)
	s.answer = l
	s.answer.Revision = strconv.Itoa(n + 1)
	close(s.news)
	s.news = make(chan struct{})
}

func (s *fakeSidecar) leads(token int64, valid time.Duration) {
	s.say(leader{IsLeader: true, State: "leading", FencingToken: token, ValidForMs: valid.Milliseconds()})
}

func (s *fakeSidecar) answersAfter(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

func (s *fakeSidecar) told(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.commands, command)
}

// stage is a worker beside a sidecar, and where it writes.
type stage struct {
	*worker
	sidecar *fakeSidecar
	kept    func() []journal.Entry
	stop    context.CancelFunc
	done    chan struct{}
}

func newStage(t *testing.T, change func(*worker)) *stage {
	recorder := httptest.NewServer(newRecorder())
	sidecar := newSidecar(t)
	w := &worker{leadership: newLeadership(sidecar.URL), journal: recorder.URL + "/journals/x", period: time.Millisecond, pod: "p", uid: "u", process: 1}
	if change != nil {
		change(w)
	}
	ctx, stop := context.WithCancel(t.Context())
	following, end := context.WithCancel(t.Context())
	s := &stage{worker: w, sidecar: sidecar, stop: stop, done: make(chan struct{})}
	s.kept = func() []journal.Entry { return read(t, w.journal) }
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		w.leadership.follow(following)
	}()
	go func() {
		defer close(s.done)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-s.done
		end()
		<-followed
		recorder.Close()
	})
	return s
}

func read(t *testing.T, url string) []journal.Entry {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var j journal.Journal
	if err := json.NewDecoder(response.Body).Decode(&j); err != nil {
		t.Fatal(err)
	}
	return j.Entries
}

func (s *stage) works(t *testing.T) {
	t.Helper()
	before := len(s.kept())
	eventually(t, "the app works", func() bool { return len(s.kept()) > before })
}

// isIdle waits until the app does not lead, and sees that nothing is written from then on.
func (s *stage) isIdle(t *testing.T) {
	t.Helper()
	eventually(t, "the app does not lead", func() bool { return s.mayWork(s.leadership.term()) == 0 })
	s.writesNothing(t)
}

// writesNothing waits until nothing new was seen in many looks, each a period or more after the other.
func (s *stage) writesNothing(t *testing.T) {
	t.Helper()
	const enough = 20
	last, looks := -1, 0
	eventually(t, "it writes nothing", func() bool {
		if n := len(s.kept()); n != last {
			last, looks = n, 0
		}
		looks++
		return looks > enough
	})
}
