// SPDX-License-Identifier: Apache-2.0

// Package sidecar lets tests tell stories about built sidecars: each method is something that happens to one, or
// that must be seen of it.
package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/port"
)

// patience is how long a test waits for what has to happen soon. The machine may be busy.
const patience = 30 * time.Second

// Build builds the sidecar of the module at root into dir, with the race detector where there is cgo.
func Build(root, dir string) (string, error) {
	var flags []string
	if out, err := exec.Command("go", "env", "CGO_ENABLED", "CC").Output(); err == nil {
		enabled, compiler, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if _, err := exec.LookPath(compiler); err == nil && enabled == "1" {
			flags = append(flags, "-race")
		}
	}
	return process.Build(context.Background(), root, dir, flags...)
}

// Sidecar is a running sidecar of one test.
type Sidecar struct {
	*process.Sidecar
	t testing.TB
}

// Start starts a sidecar with the given pod name and environment. It is killed at the end of the test, of which it
// must not be told of a data race or a panic.
func Start(t testing.TB, binary, name string, env ...string) *Sidecar {
	t.Helper()
	p, err := process.Start(binary, name, append([]string{"ELECTOR_HTTP_ADDRESS=" + port.Free(t)}, env...), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sidecar{p, t}
	t.Cleanup(func() {
		s.Kill()
		log := s.Log()
		if strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") || strings.Contains(log, "illegal transition") {
			t.Errorf("%s broke", name)
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, log)
		}
	})
	return s
}

// Await waits until /leader answers as wanted.
func (s *Sidecar) Await(what string, wanted func(process.Leader) bool) process.Leader {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	last := process.Leader{}
	leader, err := s.Sidecar.Await(ctx, func(l process.Leader) bool { last = l; return wanted(l) })
	if err != nil {
		s.t.Fatalf("waiting for %s to say that %s: %v; it last said %+v", s.Name, what, err, last)
	}
	return leader
}

// Leads waits until the sidecar leads.
func (s *Sidecar) Leads() process.Leader {
	s.t.Helper()
	return s.Await("it leads", func(l process.Leader) bool { return l.IsLeader })
}

// Follows waits until the sidecar names another pod as the leader.
func (s *Sidecar) Follows(name string) process.Leader {
	s.t.Helper()
	return s.Await("it follows "+name, func(l process.Leader) bool { return !l.IsLeader && l.Name == name && l.State == "following" })
}

// Leader is what /leader says now.
func (s *Sidecar) Leader() process.Leader {
	s.t.Helper()
	reply := s.Gets("/leader", http.StatusOK)
	var leader process.Leader
	if err := json.Unmarshal([]byte(reply.Body), &leader); err != nil {
		s.t.Fatalf("%s: /leader says %s: %v", s.Name, reply.Body, err)
	}
	return leader
}

// Reply is an answer over HTTP, or that there was none.
type Reply struct {
	Code           int
	Header         http.Header
	Body           string
	Err            error
	Sent, Received time.Time
}

// Took is how long the answer took.
func (r Reply) Took() time.Duration { return r.Received.Sub(r.Sent) }

// Leader is the answer of /leader.
func (r Reply) Leader() (process.Leader, error) {
	var leader process.Leader
	if r.Err != nil {
		return leader, r.Err
	}
	if r.Code != http.StatusOK {
		return leader, fmt.Errorf("%d: %s", r.Code, r.Body)
	}
	return leader, json.Unmarshal([]byte(r.Body), &leader)
}

// Do sends a request and waits for the answer, whatever it is.
func (s *Sidecar) Do(ctx context.Context, method, path string) Reply {
	return Request(ctx, method, s.URL+path)
}

// Request is Do for any URL.
func Request(ctx context.Context, method, url string) Reply {
	reply := Reply{Sent: time.Now()}
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return Reply{Err: err}
	}
	response, err := client.Do(request)
	if err != nil {
		reply.Err = err
		return reply
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	reply.Code, reply.Header, reply.Body, reply.Err = response.StatusCode, response.Header, string(body), err
	reply.Received = time.Now()
	return reply
}

// client is of all tests: a connection belongs to one address, and so to one sidecar.
var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: 10 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Gets asks for a path, and fails the test where the answer has another code.
func (s *Sidecar) Gets(path string, code int) Reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	reply := s.Do(ctx, http.MethodGet, path)
	if reply.Err != nil || reply.Code != code {
		s.t.Fatalf("%s: GET %s answers %d %s %v; want %d", s.Name, path, reply.Code, reply.Body, reply.Err, code)
	}
	return reply
}

// Post posts to a path, and fails the test where the answer has another code.
func (s *Sidecar) Post(path string, code int) Reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	reply := s.Do(ctx, http.MethodPost, path)
	if reply.Err != nil || reply.Code != code {
		s.t.Fatalf("%s: POST %s answers %d %s %v; want %d", s.Name, path, reply.Code, reply.Body, reply.Err, code)
	}
	return reply
}

// AwaitGets asks for a path until the answer has the code and the body contains the text.
func (s *Sidecar) AwaitGets(path string, code int, text string) Reply {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		reply := s.Do(s.t.Context(), http.MethodGet, path)
		if reply.Err == nil && reply.Code == code && strings.Contains(reply.Body, text) {
			return reply
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			s.t.Fatalf("%s: GET %s still answers %d %s %v; want %d with %q", s.Name, path, reply.Code, reply.Body, reply.Err, code, text)
		}
	}
}

// Asks asks for a path and does not wait for the answer.
func (s *Sidecar) Asks(path string) <-chan Reply {
	reply := make(chan Reply, 1)
	go func() { reply <- s.Do(s.t.Context(), http.MethodGet, path) }()
	return reply
}

// Listens waits until the API answers.
func (s *Sidecar) Listens() *Sidecar {
	s.t.Helper()
	s.Await("anything", func(process.Leader) bool { return true })
	return s
}

// Is sends a signal.
func (s *Sidecar) Is(signal syscall.Signal) time.Time {
	s.t.Helper()
	at := time.Now()
	if err := s.Signal(signal); err != nil {
		s.t.Fatalf("%s: %v: %v", s.Name, signal, err)
	}
	return at
}

// Exits waits until the process ends, and fails the test where it does so with another code.
func (s *Sidecar) Exits(code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	got, err := s.Wait(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != code {
		s.t.Fatalf("%s exits with %d; want %d", s.Name, got, code)
	}
}

// Logs waits until the log contains the text.
func (s *Sidecar) Logs(text string) {
	s.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.Log(), text) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			s.t.Fatalf("%s never logs %q", s.Name, text)
		}
	}
}

// Answer is one of the many that Observe collects.
type Answer struct {
	Reply
	process.Leader
}

// Observe asks /leader again and again, until the function that it returns is called, which returns the answers in
// the order of the requests. A request that was not answered counts as no answer.
func (s *Sidecar) Observe(every time.Duration) (end func() []Answer) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var answers []Answer
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(every); ctx.Err() == nil; {
			reply := s.Do(ctx, http.MethodGet, "/leader")
			if leader, err := reply.Leader(); err == nil {
				answers = append(answers, Answer{reply, leader})
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ticker.Stop()
			}
		}
	}()
	return func() []Answer {
		cancel()
		<-done
		return slices.Clone(answers)
	}
}
