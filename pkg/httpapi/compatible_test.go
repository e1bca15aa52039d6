// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

func TestCompatibilityWithNais(t *testing.T) {
	for name, test := range map[string]struct {
		status elector.Status
		want   string
	}{
		"a leader":     {following, `{"name":"web-1","last_update":"2026-11-29T18:30:12Z"}`},
		"none":         {lapsed, `{"name":"","last_update":"2026-11-29T18:30:14Z"}`},
		"not yet read": {starting, `{"name":"","last_update":"0001-01-01T00:00:00Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(httpapi.New(newScripted(test.status), httpapi.Config{Lease: "shop/web", MaxWaiters: 1, Nais: true}))
			defer server.Close()
			if got := body(t, server, "/"); got != test.want {
				t.Errorf("/ answers %s, want %s", got, test.want)
			}
		})
	}
}

func TestNaisEventsTellNamesAlone(t *testing.T) {
	election := newScripted(following)
	election.changed = make(chan struct{})
	server := httptest.NewServer(httpapi.New(election, httpapi.Config{Lease: "shop/web", MaxWaiters: 1, Nais: true}))
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return "the end"
	}
	if got := next(); got != `data: {"name":"web-1","last_update":"2026-11-29T18:30:12Z"}` {
		t.Errorf("first %s", got)
	}
	again := following
	again.Revision = "k3v9q-9" // another revision, the same leader: no news here
	election.becomes(again)
	election.becomes(leading)
	if got := next(); got != `data: {"name":"web-0","last_update":"2026-11-29T18:30:12Z"}` {
		t.Errorf("then %s", got)
	}
	election.becomes(stopped)
	if got := next(); !strings.HasPrefix(got, `data: {"name":"",`) {
		t.Errorf("then %s", got)
	}
	if got := next(); got != "the end" {
		t.Errorf("then %s", got)
	}
}

func TestWithoutNaisThereIsNoSSE(t *testing.T) {
	server := httptest.NewServer(httpapi.New(newScripted(following), httpapi.Config{Lease: "shop/web", MaxWaiters: 1}))
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("/sse answers %s", response.Status)
	}
}

func body(t *testing.T, server *httptest.Server, path string) string {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
