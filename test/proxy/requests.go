// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for a request that has to come.
const patience = 30 * time.Second

// Requests is a proxy before an API server that sees each request, and can be told to hold or refuse some. Its clients
// speak plain HTTP, and come with the credentials of the config that it was started with.
type Requests struct {
	// Config is the way by it.
	Config *rest.Config

	t      testing.TB
	onward *httputil.ReverseProxy

	mu    sync.Mutex
	seen  []Request
	rules []*Rule
}

// Request is a request that was seen.
type Request struct {
	Method, Path string
	Watch        bool
}

// Match tells whether a rule is for a request.
type Match func(Request) bool

// To matches requests of a method whose path contains a text; "" is any.
func To(method, path string) Match {
	return func(r Request) bool { return (method == "" || r.Method == method) && strings.Contains(r.Path, path) }
}

// StartRequests starts such a proxy. It ends with the test.
func StartRequests(t testing.TB, config *rest.Config) *Requests {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Requests{t: t}
	p.onward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(p)
	p.Config = &rest.Config{Host: server.URL}
	t.Cleanup(func() {
		p.mu.Lock()
		rules := slices.Clone(p.rules)
		p.mu.Unlock()
		for _, r := range rules {
			r.End()
		}
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// Rule is what happens to the requests that it matches.
type Rule struct {
	proxy  *Requests
	match  Match
	refuse int // the code of the answer; 0: hold
	ended  chan struct{}
	once   sync.Once

	came chan struct{}
	held sync.WaitGroup

	// Those that are held, guarded by the proxy's lock.
	last  chan struct{} // closed when the last of them has been answered
	codes []int
}

// Hold holds what matches from now on, until the rule ends. What was held is sent then, whether or not the client has
// waited for it.
func (p *Requests) Hold(match Match) *Rule { return p.add(&Rule{match: match}) }

// Refuse answers what matches from now on with a code, until the rule ends.
func (p *Requests) Refuse(code int, match Match) *Rule {
	return p.add(&Rule{match: match, refuse: code})
}

func (p *Requests) add(r *Rule) *Rule {
	r.proxy, r.ended, r.came = p, make(chan struct{}), make(chan struct{}, 1<<10)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Came waits until another request has met the rule.
func (r *Rule) Came() {
	r.proxy.t.Helper()
	select {
	case <-r.came:
	case <-time.After(patience):
		r.proxy.t.Fatalf("no request meets the rule; those seen: %v", r.proxy.Seen(nil))
	}
}

// End ends the rule: what was held is sent, one after the other. It returns the codes of the answers, once all are there.
func (r *Rule) End() []int {
	p := r.proxy
	p.mu.Lock()
	p.rules = slices.DeleteFunc(p.rules, func(other *Rule) bool { return other == r })
	p.mu.Unlock()
	r.once.Do(func() { close(r.ended) })
	r.held.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(r.codes)
}

// Seen returns the requests so far that match; nil is all.
func (p *Requests) Seen(match Match) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(r Request) bool { return match != nil && !match(r) })
}

// Await waits until a request that matches has been seen.
func (p *Requests) Await(what string, match Match) {
	p.t.Helper()
	deadline := time.After(patience)
	for len(p.Seen(match)) == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			p.t.Fatalf("waiting for %s; the requests are %v", what, p.Seen(nil))
		}
	}
}

// Quieten waits until no request that matches has come for a while.
func (p *Requests) Quieten(d time.Duration, match Match) {
	p.t.Helper()
	deadline, last := time.Now().Add(patience), -1
	for {
		seen := p.Seen(match)
		if len(seen) == last {
			return
		}
		if last = len(seen); time.Now().After(deadline) {
			p.t.Fatalf("the requests do not end: %v", seen)
		}
		<-time.After(d)
	}
}

// Forget forgets the requests so far.
func (p *Requests) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

func (p *Requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := Request{Method: r.Method, Path: r.URL.Path, Watch: r.URL.Query().Get("watch") != ""}
	p.mu.Lock()
	p.seen = append(p.seen, request)
	var rule *Rule
	before, done := chan struct{}(nil), make(chan struct{})
	if i := slices.IndexFunc(p.rules, func(rule *Rule) bool { return rule.match(request) }); i >= 0 {
		rule = p.rules[i]
		if rule.refuse == 0 {
			rule.held.Add(1)
			before, rule.last = rule.last, done
		}
	}
	p.mu.Unlock()
	switch {
	case rule == nil:
		p.onward.ServeHTTP(w, r)
	case rule.refuse != 0:
		rule.came <- struct{}{}
		refuse(w, rule.refuse)
	default:
		rule.came <- struct{}{}
		<-rule.ended
		if before != nil {
			<-before
		}
		if !request.Watch {
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		answer := &answered{ResponseWriter: w}
		defer func() { // the proxy panics where the client has gone
			p.mu.Lock()
			rule.codes = append(rule.codes, answer.code)
			p.mu.Unlock()
			close(done)
			rule.held.Done()
		}()
		p.onward.ServeHTTP(answer, r)
	}
}

// answered keeps the code of an answer.
type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: fmt.Sprint("the proxy refuses with ", code),
	})
}
