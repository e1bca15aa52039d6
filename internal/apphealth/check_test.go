// SPDX-License-Identifier: Apache-2.0

package apphealth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParse(t *testing.T) {
	for target, wrong := range map[string]string{
		"http://127.0.0.1:8080/healthz":     "",
		"tcp://127.0.0.1:5432":              "",
		"tcp://[::1]:5432":                  "",
		"tcp://localhost:1":                 "",
		"file:///beat?maxAge=30s":           "",
		"file:///a%20b/c?maxAge=1m30s":      "",
		"":                                  "begin with",
		"127.0.0.1:8080":                    "first path segment",
		"/healthz":                          "begin with",
		"https://127.0.0.1/":                "begin with",
		"exec://true":                       "begin with",
		"http://web/healthz":                "loopback",
		"http://127.0.0.1:x/":               "port",
		"tcp://127.0.0.1":                   "host:port",
		"tcp://127.0.0.1:5432/db":           "host:port",
		"tcp://127.0.0.1:5432?x=1":          "host:port",
		"tcp://me@127.0.0.1:5432":           "host:port",
		"tcp:127.0.0.1:5432":                "host:port",
		"tcp://db:5432":                     "loopback",
		"tcp://:5432":                       "loopback",
		"tcp://127.0.0.1:0":                 "65535",
		"file:///beat":                      "maxAge",
		"file:///beat?maxAge=":              "maxAge must be",
		"file:///beat?maxAge=30":            "maxAge must be",
		"file:///beat?maxAge=0s":            "maxAge must be",
		"file:///beat?maxAge=-30s":          "maxAge must be",
		"file:///beat?maxage=30s":           "maxAge",
		"file:///beat?maxAge=1s&maxAge=2s":  "once",
		"file:///beat?maxAge=30s&minAge=1s": "no other",
		"file:///beat?maxAge=30s#x":         "absolute path",
		"file://beat?maxAge=30s":            "absolute path",
		"file://localhost/beat?maxAge=30s":  "absolute path",
		"file:beat?maxAge=30s":              "absolute path",
		"file:///?maxAge=30s":               "absolute path",
		"file:///../?maxAge=30s":            "absolute path",
	} {
		switch check, err := Parse(target); {
		case wrong == "" && (err != nil || check == nil):
			t.Errorf("%s is refused: %v", target, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("of %s it is said %v, not %q", target, err, wrong)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("of %q more than one line is said: %v", target, err)
		}
	}
}

func parse(t *testing.T, target string) Check {
	t.Helper()
	check, err := Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func TestHTTP(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			if r.Method != http.MethodGet || r.UserAgent() != "elector-sidecar" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/to-204":
			http.Redirect(w, r, "/204", http.StatusFound)
		case "/to-503":
			http.Redirect(w, r, "/503", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	for path, wrong := range map[string]string{
		"/": "", "/204": "", "/304": "", "/to-204": "", "/elsewhere": "", "/endless": "",
		"/404": "answers 404 Not Found", "/503": "answers 503 Service Unavailable", "/to-503": "503", "/loop": "10 redirects", "/broken": "EOF",
	} {
		switch err := parse(t, server.URL+path)(t.Context()); {
		case wrong == "" && err != nil:
			t.Errorf("%s: %v", path, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v, not %q", path, err, wrong)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("a redirect to another host was followed %d times", n)
	}
}

func TestHTTPEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := parse(t, server.URL)(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	check := parse(t, "tcp://"+listener.Addr().String())
	if err := check(t.Context()); err != nil {
		t.Error(err)
	}
	_ = listener.Close()
	if err := check(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	const maxAge = 30 * time.Second
	beat := func(t *testing.T, file string, ago time.Duration) {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-ago)); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]func(t *testing.T, file string, check func(wrong string)){
		"missing, then there": func(t *testing.T, file string, check func(string)) {
			check("no such file")
			beat(t, file, 0)
			check("")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			check("no such file")
		},
		"ages": func(t *testing.T, file string, check func(string)) {
			beat(t, file, 0)
			check("")
			time.Sleep(maxAge)
			check("")
			time.Sleep(time.Millisecond)
			check("was written 30.001s ago, more than 30s")
			beat(t, file, 0)
			check("")
		},
		"old at first": func(t *testing.T, file string, check func(string)) {
			beat(t, file, maxAge-time.Second)
			check("")
			time.Sleep(2 * time.Second)
			check("was written 31s ago")
		},
		"written with an old time": func(t *testing.T, file string, check func(string)) {
			beat(t, file, 0)
			check("")
			beat(t, file, time.Hour)
			check("was written 1h0m0s ago")
		},
		"ahead at first": func(t *testing.T, file string, check func(string)) {
			beat(t, file, -time.Hour)
			check("lies ahead")
			time.Sleep(30 * time.Minute)
			check("lies ahead")
			time.Sleep(30*time.Minute + time.Second) // an hour after it was written it is no sign of life either
			check("lies ahead")
			beat(t, file, 0)
			check("")
		},
		"ahead, as after the time of day was set back": func(t *testing.T, file string, check func(string)) {
			beat(t, file, 0)
			check("")
			beat(t, file, -time.Hour)
			check("")
			time.Sleep(maxAge)
			check("")
			time.Sleep(time.Second)
			check("was written 31s ago")
			beat(t, file, -time.Hour)
			check("")
		},
		"a directory": func(t *testing.T, file string, check func(string)) {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
			check("is a directory")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "beat")
				look := parse(t, "file://"+file+"?maxAge="+maxAge.String())
				test(t, file, func(wrong string) {
					t.Helper()
					switch err := look(t.Context()); {
					case wrong == "" && err != nil:
						t.Error(err)
					case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
						t.Errorf("%v, not %q", err, wrong)
					}
				})
			})
		})
	}
}
