// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// hasty is an election in which every wait is over at once, whatever was asked for.
type hasty struct {
	*scripted
	wait time.Duration // of the last request that would have blocked
}

func (e *hasty) Wait(ctx context.Context, _ func(elector.Status) bool) (elector.Status, error) {
	deadline, _ := ctx.Deadline()
	e.wait = time.Until(deadline)
	return e.Status(), context.DeadlineExceeded
}

// FuzzQuery asks each route with any query. The answer is one of those that the contract knows, and a 400 names what is
// wrong. Nobody waits for longer than five minutes.
func FuzzQuery(f *testing.F) {
	for _, target := range append(append(append(paths, commands...), oddTargets...), oddCommands...) {
		_, query, _ := strings.Cut(target, "?")
		f.Add(query, uint8(0))
	}
	f.Add("revision=k3v9q-1&wait=4m", uint8(1))
	f.Add("for=leading&timeout=0.1h", uint8(1))
	f.Add("cooldown=1us&wait=1µs", uint8(2))
	f.Fuzz(func(t *testing.T, query string, which uint8) {
		status := situations[int(which)%len(situations)].status
		for _, route := range []struct {
			method, path string
			codes        []int
			parameters   []string
		}{
			{http.MethodGet, "/", []int{200}, nil},
			{http.MethodGet, "/leader", []int{200, 400}, []string{"revision", "wait"}},
			{http.MethodGet, "/is-leader", []int{200, 503}, nil},
			{http.MethodGet, "/wait", []int{200, 400, 503, 504}, []string{"for", "timeout"}},
			{http.MethodGet, "/healthz", []int{200, 503}, nil},
			{http.MethodGet, "/readyz", []int{200, 503}, nil},
			{http.MethodGet, "/metrics", []int{200}, nil},
			{http.MethodPost, "/release", []int{202, 409}, nil},
			{http.MethodPost, "/resign", []int{200, 202, 400, 409, 504}, []string{"cooldown", "wait"}},
		} {
			election := &hasty{scripted: newScripted(status)}
			election.changed = make(chan struct{})
			handler := httpapi.New(election, httpapi.Config{PodName: "web-0", Lease: "shop/web", Cooldown: 15 * time.Second, MaxWaiters: 1})
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, (&http.Request{
				Method: route.method, URL: &url.URL{Path: route.path, RawQuery: query}, Header: http.Header{}, RemoteAddr: "127.0.0.1:50000",
			}).WithContext(t.Context()))

			known := false
			for _, code := range route.codes {
				known = known || recorder.Code == code
			}
			if !known {
				t.Errorf("%s %s?%s is answered %d: %s", route.method, route.path, query, recorder.Code, recorder.Body)
			}
			if election.wait > 5*time.Minute {
				t.Errorf("%s %s?%s waits for %s", route.method, route.path, query, election.wait)
			}
			if recorder.Code == 400 {
				checkNamed(t, query, route.parameters, recorder.Body.Bytes())
			}
			if contentType := recorder.Header().Get("Content-Type"); strings.HasSuffix(contentType, "json") && !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("%s %s?%s is answered %s, which is no JSON", route.method, route.path, query, recorder.Body)
			}
			for _, command := range election.commands {
				cooldown, isResign := strings.CutPrefix(command, "resign for ")
				if d, err := time.ParseDuration(cooldown); isResign && (err != nil || d < 0 || d > time.Hour) {
					t.Errorf("%s %s?%s leads to %q", route.method, route.path, query, command)
				}
			}
		}
	})
}

// checkNamed checks that a problem names a parameter that is known or was given, or else the whole query.
func checkNamed(t *testing.T, query string, known []string, body []byte) {
	t.Helper()
	var problem struct{ Detail string }
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, name := range known {
		if strings.HasPrefix(problem.Detail, name+" is ") {
			return
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil && strings.Contains(problem.Detail, strconv.Quote(query)) {
		return
	}
	for name := range values {
		if err == nil && strings.Contains(problem.Detail, "no parameter "+strconv.Quote(name)) {
			return
		}
	}
	t.Errorf("of %q it is said that %s, which names no parameter", query, problem.Detail)
}
