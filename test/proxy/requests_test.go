// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// origin is a server that keeps the paths that it was asked for.
func origin(t *testing.T) (config *rest.Config, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		paths = append(paths, r.Method+" "+r.URL.Path+" "+string(body))
		mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(paths)
	}
}

func send(ctx context.Context, p *Requests, method, path, body string) int {
	request, err := http.NewRequestWithContext(ctx, method, p.Config.Host+path, strings.NewReader(body))
	if err != nil {
		return -1
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestHeldRequestsAreSentInOrder(t *testing.T) {
	config, asked := origin(t)
	p := StartRequests(t, config)
	rule := p.Hold(To(http.MethodPut, "/held"))
	var clients sync.WaitGroup
	for _, path := range []string{"/held/1", "/held/2", "/held/3"} {
		clients.Go(func() {
			if code := send(t.Context(), p, http.MethodPut, path, "x"); code != http.StatusAccepted {
				t.Errorf("%s is answered %d", path, code)
			}
		})
		rule.Came()
	}
	if code := send(t.Context(), p, http.MethodGet, "/held", ""); code != http.StatusAccepted {
		t.Errorf("another request is answered %d", code)
	}
	if got := asked(); len(got) != 1 {
		t.Errorf("what is held was passed on: %q", got)
	}
	if codes := rule.End(); !slices.Equal(codes, []int{202, 202, 202}) {
		t.Errorf("the answers are %d", codes)
	}
	clients.Wait()
	if got := asked(); !slices.Equal(got, []string{"GET /held ", "PUT /held/1 x", "PUT /held/2 x", "PUT /held/3 x"}) {
		t.Errorf("it was asked for %q", got)
	}
	if got := p.Seen(To(http.MethodPut, "")); len(got) != 3 || got[0] != (Request{Method: http.MethodPut, Path: "/held/1"}) {
		t.Errorf("it has seen %v", got)
	}
	if p.Forget(); len(p.Seen(nil)) != 0 {
		t.Error("it does not forget")
	}
}

// What is held arrives although nobody waits for the answer.
func TestHeldRequestOutlivesItsClient(t *testing.T) {
	config, asked := origin(t)
	p := StartRequests(t, config)
	rule := p.Hold(To("", "/held"))
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan int)
	go func() { gone <- send(ctx, p, http.MethodPost, "/held", "x") }()
	rule.Came()
	cancel()
	if code := <-gone; code != 0 {
		t.Errorf("the client was answered %d", code)
	}
	if codes := rule.End(); !slices.Equal(codes, []int{http.StatusAccepted}) {
		t.Errorf("the answers are %d", codes)
	}
	if got := asked(); !slices.Equal(got, []string{"POST /held x"}) {
		t.Errorf("it was asked for %q", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	config, asked := origin(t)
	p := StartRequests(t, config)
	rule := p.Refuse(http.StatusInternalServerError, To("", "/refused"))
	if code := send(t.Context(), p, http.MethodGet, "/refused", ""); code != http.StatusInternalServerError {
		t.Errorf("it is answered %d", code)
	}
	rule.Came()
	rule.End()
	if code := send(t.Context(), p, http.MethodGet, "/refused", ""); code != http.StatusAccepted {
		t.Errorf("after the end of the rule it is answered %d", code)
	}
	p.Await("the requests", To("", "/refused"))
	p.Quieten(time.Millisecond, nil)
	if got := asked(); len(got) != 1 {
		t.Errorf("it was asked for %q", got)
	}
}
