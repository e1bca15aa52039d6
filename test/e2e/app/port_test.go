// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

func TestThePort(t *testing.T) {
	s := newStage(t, nil)
	port := httptest.NewServer(newPort(s.worker, time.Now(), killer{t.TempDir()}))
	t.Cleanup(port.Close)
	call := func(method, path string) (int, journal.Answer) {
		req, _ := http.NewRequestWithContext(t.Context(), method, port.URL+path, nil)
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var a journal.Answer
		_ = json.NewDecoder(response.Body).Decode(&a)
		return response.StatusCode, a
	}
	if code, a := call("GET", "/"); code != 503 || a != (journal.Answer{Pod: "p"}) {
		t.Errorf("a follower answers %d %+v", code, a)
	}
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	if code, a := call("GET", "/"); code != 200 || a != (journal.Answer{Pod: "p", Token: 7, Leading: true}) {
		t.Errorf("a leader answers %d %+v", code, a)
	}
	for _, step := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/readyz", 200}, {"GET", "/healthz", 200}, {"POST", "/sick", 200}, {"GET", "/healthz", 500}, {"POST", "/well", 200},
		{"GET", "/healthz", 200}, {"GET", "/nowhere", 404}, {"POST", "/kill/me", 404}, {"POST", "/kill/sidecar", 404}, {"POST", "/resign", 200},
	} {
		if code, _ := call(step.method, step.path); code != step.code {
			t.Errorf("%s %s: %d, want %d", step.method, step.path, code, step.code)
		}
	}
}

func TestProcesses(t *testing.T) {
	proc := t.TempDir()
	for pid, comm := range map[string]string{"7": "elector-sidecar\n", "12": "elector-sidecar\n", "13": "app\n", "self": "elector-sidecar\n"} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := processes(proc, sidecar)
	if slices.Sort(got); !slices.Equal(got, []int{7, 12}) {
		t.Errorf("the processes are %v", got)
	}
}
