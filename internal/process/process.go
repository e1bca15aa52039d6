// SPDX-License-Identifier: Apache-2.0

// Package process runs built sidecars as processes of their own, for the demo and for tests. They end with the process
// that started them.
package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds the sidecar from the module at root (flags go to go build) into dir, and returns the binary's path.
func Build(ctx context.Context, root, dir string, flags ...string) (string, error) {
	binary := filepath.Join(dir, "elector-sidecar")
	args := append([]string{"build", "-o", binary}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/elector-sidecar")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the sidecar: %w\n%s", err, out)
	}
	return binary, nil
}

// Sidecar is a running sidecar.
type Sidecar struct {
	// Name is the pod's name that it was given.
	Name string
	// URL is where its API is, without a slash at the end.
	URL string

	cmd    *exec.Cmd
	log    *logBuffer
	client *http.Client
	ended  chan struct{}
}

// Start starts a sidecar of the given pod name. The environment is env alone, on top of which come POD_NAME and, where
// env has none, ELECTOR_HTTP_ADDRESS with a free port on the loopback interface. Its log is kept, and copied to log
// where that is not nil.
func Start(binary, name string, env []string, log io.Writer) (*Sidecar, error) {
	address := lookup(env, "ELECTOR_HTTP_ADDRESS")
	if address == "" {
		var err error
		if address, err = FreeAddress(); err != nil {
			return nil, err
		}
		env = append([]string{"ELECTOR_HTTP_ADDRESS=" + address}, env...)
	}
	s := &Sidecar{
		Name:   name,
		URL:    "http://" + address,
		cmd:    exec.Command(binary), //nolint:noctx // it outlives the caller's context; Stop and Kill end it
		log:    &logBuffer{copy: log},
		client: &http.Client{Transport: &http.Transport{}},
		ended:  make(chan struct{}),
	}
	s.cmd.Env = append([]string{"POD_NAME=" + name}, env...)
	s.cmd.Stderr = s.log
	s.cmd.Stdout = s.log
	s.cmd.SysProcAttr = diesWithParent()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting sidecar %s: %w", name, err)
	}
	go func() {
		_ = s.cmd.Wait() // ExitCode tells how it ended
		s.client.CloseIdleConnections()
		close(s.ended)
	}()
	return s, nil
}

func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// Leader is the part of the answer of /leader that callers look at.
type Leader struct {
	Name         string `json:"name"`
	Identity     string `json:"identity"`
	Address      string `json:"address"`
	IsLeader     bool   `json:"isLeader"`
	State        string `json:"state"`
	PodName      string `json:"podName"`
	Term         int32  `json:"term"`
	FencingToken uint64 `json:"fencingToken"`
	ValidForMs   int64  `json:"validForMs"`
	Reason       string `json:"reason"`
	Revision     string `json:"revision"`
}

// Leader asks /leader; query is what follows the "?", as in "revision=x&wait=5s".
func (s *Sidecar) Leader(ctx context.Context, query string) (Leader, error) {
	var answer Leader
	code, body, err := s.Get(ctx, "/leader?"+query)
	if err != nil {
		return answer, err
	}
	if code != http.StatusOK {
		return answer, fmt.Errorf("%s: /leader answered %d: %s", s.Name, code, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("%s: /leader answered %s: %w", s.Name, body, err)
	}
	return answer, nil
}

// Get asks for a path of the API.
func (s *Sidecar) Get(ctx context.Context, path string) (code int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// Await asks /leader, blocking in between, until the answer is as wanted. Until the sidecar listens it tries again.
func (s *Sidecar) Await(ctx context.Context, wanted func(Leader) bool) (Leader, error) {
	query := ""
	for {
		answer, err := s.Leader(ctx, query)
		switch {
		case err == nil && wanted(answer):
			return answer, nil
		case err == nil:
			query = "wait=30s&revision=" + answer.Revision
		case errors.Is(err, syscall.ECONNREFUSED):
			select {
			case <-time.After(2 * time.Millisecond):
			case <-s.ended:
				return answer, fmt.Errorf("%s ended with code %d:\n%s", s.Name, s.cmd.ProcessState.ExitCode(), s.Log())
			case <-ctx.Done():
				return answer, fmt.Errorf("%s: %w", s.Name, ctx.Err())
			}
		default:
			return answer, err
		}
	}
}

// Signal sends a signal.
func (s *Sidecar) Signal(signal os.Signal) error { return s.cmd.Process.Signal(signal) }

// Ended is closed when the process has ended.
func (s *Sidecar) Ended() <-chan struct{} { return s.ended }

// HowEnded tells how the process ended, as in "exit status 0" or "signal: killed"; "" while it runs.
func (s *Sidecar) HowEnded() string {
	select {
	case <-s.ended:
		return s.cmd.ProcessState.String()
	default:
		return ""
	}
}

// PID is the process's.
func (s *Sidecar) PID() int { return s.cmd.Process.Pid }

// Wait waits for the process to end and returns its exit code; -1 after a signal, or when ctx ends first.
func (s *Sidecar) Wait(ctx context.Context) (int, error) {
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return -1, fmt.Errorf("%s has not ended: %w", s.Name, ctx.Err())
	}
}

// Kill ends the process with SIGKILL, also a stopped one, and waits for its end.
func (s *Sidecar) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// Log returns what the sidecar has logged.
func (s *Sidecar) Log() string { return s.log.String() }

type logBuffer struct {
	mu   sync.Mutex
	kept bytes.Buffer
	copy io.Writer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copy != nil {
		_, _ = b.copy.Write(p)
	}
	return b.kept.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}
