// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

func TestOutcomes(t *testing.T) {
	answers := func(code int, body any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, code, body) }
	}
	leader := journal.Answer{Pod: "p", Token: 7, Leading: true}
	for name, c := range map[string]struct {
		answer http.HandlerFunc // nobody answers where nil
		want   journal.Outcome
	}{
		"a leader":                 {answers(200, leader), journal.OK},
		"a follower":               {answers(503, journal.Answer{Pod: "p"}), journal.Unavailable},
		"200 of a follower":        {answers(200, journal.Answer{Pod: "p"}), journal.Wrong},
		"not JSON":                 {answers(200, "x"), journal.Wrong},
		"an error":                 {answers(500, leader), journal.Wrong},
		"no answer":                {func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, journal.TimedOut},
		"a connection that is cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, journal.Refused},
		"nobody":                   {nil, journal.Refused},
	} {
		server := httptest.NewServer(c.answer)
		if c.answer == nil {
			server.Close()
		} else {
			defer server.Close()
		}
		r := (&client{url: server.URL, timeout: 50 * time.Millisecond}).request(t.Context())
		if r.Outcome != c.want || r.Sent > r.Answered || (r.Outcome == journal.OK) != (r.Error == "") {
			t.Errorf("%s: %+v, want %s", name, r, c.want)
		}
		if c.want == journal.OK && (r.Pod != "p" || r.Token != 7) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestTheClientKeepsItsRate also while answers are slow, and serves what it has seen in the order of sending.
func TestTheClientKeepsItsRate(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	c := &client{url: server.URL, timeout: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.run(ctx, 5*time.Millisecond)
	eventually(t, "there are ten", func() bool { return len(c.requests()) >= 10 })
	got := c.requests()
	if got[9].Sent-got[0].Sent > 10*c.timeout/2 {
		t.Error("one was sent only when the one before had failed")
	}
	if !slices.IsSortedFunc(got, func(a, b journal.Request) int { return cmp.Compare(a.Sent, b.Sent) }) {
		t.Error("they are not in the order of sending")
	}
}
