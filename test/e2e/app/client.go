// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// client requests a URL at a fixed rate, each time on a new connection, and keeps what became of it.
type client struct {
	url     string
	timeout time.Duration
	mu      sync.Mutex
	seen    journal.Requests
}

// runClient runs the client until it is told to stop.
//
//	TARGET_URL      what is requested
//	CLIENT_PERIOD   time from one request to the next (50ms)
//	CLIENT_TIMEOUT  how long an answer may take (1s)
func runClient() error {
	period, err := duration("CLIENT_PERIOD", 50*time.Millisecond)
	timeout, err2 := duration("CLIENT_TIMEOUT", time.Second)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	c := &client{url: os.Getenv("TARGET_URL"), timeout: timeout}
	ctx, stop := untilTold()
	defer stop()
	go c.run(ctx, period)
	return serve(":8080", c.port())
}

// port serves the requests so far, in the order of sending, and forgets them on DELETE.
func (c *client) port() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, c.requests()) })
	mux.HandleFunc("DELETE /requests", func(http.ResponseWriter, *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = nil
	})
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func (c *client) requests() journal.Requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.seen, func(a, b journal.Request) int { return cmp.Compare(a.Sent, b.Sent) })
	return append(journal.Requests{}, c.seen...)
}

// run sends requests until ctx ends. One that is slow does not hold up the next.
func (c *client) run(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			go func() {
				r := c.request(ctx)
				c.mu.Lock()
				defer c.mu.Unlock()
				c.seen = append(c.seen, r)
			}()
		case <-ctx.Done():
			return
		}
	}
}

// request makes one request.
func (c *client) request(ctx context.Context) journal.Request {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r := journal.Request{Sent: journal.SinceBoot()}
	answer, err := get(ctx, c.url)
	r.Answered = journal.SinceBoot()
	r.Outcome, r.Pod, r.Token = outcome(err), answer.Pod, answer.Token
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

var (
	errUnavailable = errors.New("503")
	errNoLeader    = errors.New("200 from one that does not lead")
)

func get(ctx context.Context, url string) (answer journal.Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy
	response, err := transport.RoundTrip(req)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if response.StatusCode == http.StatusServiceUnavailable {
		_ = json.Unmarshal(body, &answer) // for the pod's name, where there is one
		return answer, errUnavailable
	}
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: %.200s", response.Status, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("%w: %.200s", err, body)
	}
	if !answer.Leading || answer.Token == 0 {
		return answer, errNoLeader
	}
	return answer, nil
}

func outcome(err error) journal.Outcome {
	switch {
	case err == nil:
		return journal.OK
	case errors.Is(err, errUnavailable):
		return journal.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return journal.TimedOut
	case slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH, io.EOF, io.ErrUnexpectedEOF},
		func(fast error) bool { return errors.Is(err, fast) }),
		strings.Contains(err.Error(), "server closed idle connection"): // net/http's for one that is closed before an answer
		return journal.Refused
	}
	return journal.Wrong
}
