// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// runs runs the binary's own code path.
func runs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// listens makes handler the sidecar of this pod.
func listens(t *testing.T, handler http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ELECTOR_HTTP_ADDRESS", ":"+port)
}

func answers(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestSubcommandsThatAreMistaken(t *testing.T) {
	tests := map[string]struct {
		args []string
		says string
	}{
		"unknown":             {[]string{"lead"}, `subcommand "lead": there are exec, is-leader, wait and install`},
		"empty":               {[]string{""}, `subcommand ""`},
		"behind a flag":       {[]string{"-v=1", "exec"}, `argument "exec": a subcommand has to come first`},
		"is-leader's flag":    {[]string{"is-leader", "--quiet"}, "is-leader: flag provided but not defined: -quiet"},
		"is-leader's word":    {[]string{"is-leader", "web"}, "is-leader: the only flag is --timeout"},
		"no time at all":      {[]string{"is-leader", "--timeout=0"}, "is-leader: the only flag is --timeout"},
		"time without a unit": {[]string{"wait", "--for=leading", "--timeout=5"}, `wait: invalid value "5" for flag -timeout`},
		"wait for nothing":    {[]string{"wait"}, "wait --for=leading or wait --for=not-leading"},
		"wait for following":  {[]string{"wait", "--for=following"}, "wait --for=leading or wait --for=not-leading"},
		"wait's word":         {[]string{"wait", "--for=leading", "now"}, "wait --for=leading or wait --for=not-leading"},
		"install nowhere":     {[]string{"install"}, "install DIR"},
		"install twice":       {[]string{"install", "a", "b"}, "install DIR"},
		"exec nothing":        {[]string{"exec"}, "exec [-v=N] -- COMMAND [ARG...]"},
		"watchdog by hand":    {[]string{"watchdog", "true"}, "watchdog: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runs(t, test.args...)
			if code != exitMisconfigured || stdout != "" || !strings.HasPrefix(stderr, "elector-sidecar: ") ||
				!strings.Contains(stderr, test.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, %q on standard output, %q on standard error", code, stdout, stderr)
			}
		})
	}
	t.Run("address", func(t *testing.T) {
		t.Setenv("ELECTOR_HTTP_ADDRESS", "4040")
		for _, args := range [][]string{{"is-leader"}, {"wait", "--for=leading"}} {
			if code, _, stderr := runs(t, args...); code != exitMisconfigured || !strings.Contains(stderr, `ELECTOR_HTTP_ADDRESS is "4040"`) {
				t.Errorf("exit code %d, %q", code, stderr)
			}
		}
	})
}

func TestHelpMentionsTheSubcommands(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"exec", "--help"}, {"is-leader", "-h"}, {"wait", "--help"}, {"install", "--help"}} {
		code, stdout, stderr := runs(t, args...)
		for name := range subcommands {
			if has := strings.Contains(stdout, "  "+name+" "); has == (name == watchdogArg) {
				t.Errorf("%q: %s is mentioned: %t", args, name, has)
			}
		}
		if code != exitOrderly || stderr != "" {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	}
}

func TestIsLeader(t *testing.T) {
	tests := map[string]struct {
		sidecar        http.HandlerFunc
		code           int
		stdout, stderr string
	}{
		"leading":        {answers(http.StatusOK, "leading\n"), 0, "leading\n", ""},
		"not leading":    {answers(http.StatusServiceUnavailable, "not leading\n"), 1, "not leading\n", ""},
		"something else": {answers(http.StatusNotFound, "?"), 1, "", "does not answer as a sidecar does: 404"},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 1, "",
			"no answer, so not leading: context deadline exceeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			listens(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.String() != "/is-leader" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				test.sidecar(w, r)
			})
			timeout := "--timeout=30s"
			if name == "silent" {
				timeout = "--timeout=50ms"
			}
			code, stdout, stderr := runs(t, "is-leader", timeout)
			if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Setenv("ELECTOR_HTTP_ADDRESS", "127.0.0.1:1")
		if code, _, stderr := runs(t, "is-leader"); code != 1 || !strings.Contains(stderr, "no answer") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
	t.Run("past a proxy", func(t *testing.T) {
		t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
		listens(t, answers(http.StatusOK, "leading\n"))
		if code, _, stderr := runs(t, "is-leader", "--timeout=30s"); code != 0 {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
}

func TestWait(t *testing.T) {
	stopping := answers(http.StatusServiceUnavailable, "{}")
	timedOut := answers(http.StatusGatewayTimeout, "{}")
	crowded := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	tests := map[string]struct {
		answers []http.HandlerFunc // in turn; the last for ever
		args    []string
		code    int
		says    string
		asked   int // times; 0: any number
	}{
		"so at once":      {[]http.HandlerFunc{answers(http.StatusOK, "{}")}, []string{"--for=leading"}, 0, "", 1},
		"so later":        {[]http.HandlerFunc{timedOut, timedOut, answers(http.StatusOK, "{}")}, []string{"--for=leading"}, 0, "", 3},
		"not leading":     {[]http.HandlerFunc{answers(http.StatusOK, "{}")}, []string{"--for=not-leading", "--timeout=1h"}, 0, "", 1},
		"stopping":        {[]http.HandlerFunc{timedOut, stopping}, []string{"--for=leading", "--timeout=1h"}, 1, "the sidecar is stopping", 2},
		"not yet there":   {[]http.HandlerFunc{answers(http.StatusNotFound, "?"), answers(http.StatusOK, "{}")}, []string{"--for=leading"}, 0, "", 2},
		"many wait":       {[]http.HandlerFunc{crowded, answers(http.StatusOK, "{}")}, []string{"--for=leading"}, 0, "", 2},
		"timeout":         {[]http.HandlerFunc{timedOut}, []string{"--for=leading", "--timeout=100ms"}, 1, "this pod is still not leading after 100ms", 0},
		"another program": {[]http.HandlerFunc{answers(http.StatusNotFound, "?")}, []string{"--for=leading", "--timeout=100ms"}, 1, "answered 404: ?", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			listens(t, func(w http.ResponseWriter, r *http.Request) {
				timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
				if wanted := strings.TrimPrefix(test.args[0], "--for="); r.URL.Path != "/wait" || r.URL.Query().Get("for") != wanted || err != nil || timeout > 5*time.Minute {
					t.Errorf("it asks for %s", r.URL)
				}
				if n := int(asked.Add(1)); n <= len(test.answers) {
					test.answers[n-1](w, r)
				} else {
					test.answers[len(test.answers)-1](w, r)
				}
			})
			code, stdout, stderr := runs(t, append([]string{"wait"}, test.args...)...)
			if code != test.code || stdout != "" || !strings.Contains(stderr, test.says) || test.says == "" && stderr != "" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			if n := int(asked.Load()); test.asked != 0 && n != test.asked {
				t.Errorf("it asked %d times, not %d", n, test.asked)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Setenv("ELECTOR_HTTP_ADDRESS", "127.0.0.1:1")
		for _, wanted := range []string{"leading", "not-leading"} { // no answer is no proof either way
			if code, _, stderr := runs(t, "wait", "--for="+wanted, "--timeout=100ms"); code != 1 || !strings.Contains(stderr, "no answer") {
				t.Errorf("exit code %d, %q", code, stderr)
			}
		}
	})
	t.Run("silent", func(t *testing.T) {
		listens(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		if code, _, stderr := runs(t, "wait", "--for=leading", "--timeout=100ms"); code != 1 || stderr == "" {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
}

func TestInstall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "elector-sidecar")
	for range 2 { // the second over the first
		code, stdout, stderr := runs(t, "install", dir)
		if code != 0 || stdout != target+"\n" || stderr != "" {
			t.Fatalf("exit code %d, %q, %q", code, stdout, stderr)
		}
		got, err := os.ReadFile(target)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the copy is another: %v", err)
		}
		if info, err := os.Stat(target); err != nil || info.Mode() != 0o755 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the directory has %v, %v", entries, err)
		}
	}
	for name, dir := range map[string]string{"missing": filepath.Join(dir, "none"), "a file": target} {
		code, stdout, stderr := runs(t, "install", dir)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "elector-sidecar: install: ") || !strings.Contains(stderr, dir) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
	}
	// A directory of the target's name is no place for the rename; nothing is left behind.
	taken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(taken, "elector-sidecar", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runs(t, "install", taken); code != 1 || stderr == "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if entries, err := os.ReadDir(taken); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}
