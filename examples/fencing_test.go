// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// TestFrozenLeaderIsRefused freezes a leader, sidecar and app, between its last look at its leadership and its write.
// Another takes over and writes. When the old one wakes, its write is refused.
func TestFrozenLeaderIsRefused(t *testing.T) {
	t.Parallel()
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, binary)
	path := audited(t)
	old := h.startWriter("pod-0", path)

	oldToken := old.hears("leading with token ")
	old.says("first")
	if token := old.hears("written with token "); token != oldToken {
		t.Errorf("it was told the token %d and wrote with %d", oldToken, token)
	}
	next := h.startWriter("pod-1", path)
	next.hearsLine("not leading")
	if token := old.hears("leading with token "); token != oldToken {
		t.Errorf("within one leadership its token went from %d to %d", oldToken, token)
	}
	old.freeze()

	newToken := next.hears("leading with token ")
	if newToken <= oldToken {
		t.Errorf("the next leader has the token %d, after %d", newToken, oldToken)
	}
	next.says("new")
	next.hears("written with token ")
	next.hears("leading with token ") // it asked anew, and has not written yet

	old.says("old") // which it reads as soon as it goes on
	old.thaw()
	if line := old.hearsLine("refused: token "); line != fmt.Sprintf("refused: token %d is of the past: token %d has written", oldToken, newToken) {
		t.Errorf("the old leader says %q", line)
	}
	old.hearsLine("not leading")
	next.says("newer")
	next.hears("written with token ")

	want := []entry{{"first", oldToken}, {"new", newToken}, {"newer", newToken}}
	if entries := history(t, path); !slices.Equal(entries, want) {
		t.Errorf("stored were, one after the other, %v; want %v", entries, want)
	}
}

// TestTokensOnlyGrow lets many writers with tokens of all ages loose on one register.
func TestTokensOnlyGrow(t *testing.T) {
	t.Parallel()
	path := audited(t)
	const program = `
import random, sys
from register import Refused, Register
register, mine = Register(sys.argv[1]), random.Random(int(sys.argv[2]))
for i in range(100):
    token = mine.randrange(1, 50) + i
    try:
        register.write(f"{sys.argv[2]}-{i}", token)
    except Refused:
        pass
`
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			if out, err := python(t.Context(), program, path, strconv.Itoa(i)).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	writers.Wait()
	entries := history(t, path)
	if !slices.IsSortedFunc(entries, func(a, b entry) int { return int(a.token) - int(b.token) }) {
		t.Errorf("a token became smaller: %v", entries)
	}
	if len(entries) < 20 || len(entries) == 400 {
		t.Errorf("of 400 writes %d were taken, which proves nothing", len(entries))
	}
}

// entry is one write that was stored.
type entry struct {
	value string
	token uint64
}

// audited makes a register that keeps all that was ever stored in it, and returns its path.
func audited(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "register.db")
	out, err := python(t.Context(), `
import sqlite3, sys
from register import Register
Register(sys.argv[1])
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("CREATE TABLE history (n INTEGER PRIMARY KEY, value TEXT, token INTEGER)")
    db.execute("CREATE TRIGGER audit AFTER UPDATE ON register BEGIN INSERT INTO history (value, token) VALUES (new.value, new.token); END")
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func history(t *testing.T, path string) (entries []entry) {
	t.Helper()
	out, err := python(t.Context(), `
import sqlite3, sys
for value, token in sqlite3.connect(sys.argv[1]).execute("SELECT value, token FROM history ORDER BY n"):
    print(value, token)
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		var e entry
		if _, err := fmt.Sscan(line, &e.value, &e.token); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// python runs a program that can import the example.
func python(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-c", program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH=fencing", "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// writer is a pod: a sidecar, and the example beside it.
type writer struct {
	*testing.T
	name    string
	sidecar *process.Sidecar
	app     *exec.Cmd
	stdin   io.Writer
	lines   chan string
}

func (h *house) startWriter(name, register string) *writer {
	h.Helper()
	sidecar, err := process.Start(h.binary, name, []string{
		"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + h.kubeconfig,
		"ELECTOR_LEASE_DURATION=" + leaseDuration.String(), "ELECTOR_RENEW_DEADLINE=" + renewDeadline.String(), "ELECTOR_RETRY_PERIOD=300ms",
	}, nil)
	if err != nil {
		h.Fatal(err)
	}
	app := exec.Command("python3", "fencing/writer.py")
	app.Env = append(os.Environ(), "SIDECAR_URL="+sidecar.URL, "REGISTER="+register, "PYTHONDONTWRITEBYTECODE=1", "http_proxy=http://127.0.0.1:1", "no_proxy=")
	app.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	app.Stderr = os.Stderr
	stdin, err := app.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	stdout, err := app.StdoutPipe()
	if err != nil {
		h.Fatal(err)
	}
	w := &writer{T: h.T, name: name, sidecar: sidecar, app: app, stdin: stdin, lines: make(chan string, 100)}
	if err := app.Start(); err != nil {
		h.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(w.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()
	h.Cleanup(func() {
		_ = app.Process.Kill() // it may have ended
		<-read
		_ = app.Wait()
		sidecar.Kill()
		if h.Failed() {
			h.Logf("the sidecar of %s:\n%s", name, sidecar.Log())
		}
	})
	return w
}

// hearsLine waits for the next line of the writer that begins like this.
func (w *writer) hearsLine(prefix string) string {
	w.Helper()
	var heard []string
	for end := time.After(patience); ; {
		select {
		case line, ok := <-w.lines:
			switch {
			case !ok:
				w.Fatalf("the writer of %s has ended, after %q", w.name, heard)
			case strings.HasPrefix(line, prefix):
				return line
			}
			heard = append(heard, line)
		case <-end:
			w.Fatalf("the writer of %s does not say %q within %s, only %q", w.name, prefix, patience, heard)
		}
	}
}

// hears waits for such a line, and returns the token that follows.
func (w *writer) hears(prefix string) uint64 {
	w.Helper()
	line := w.hearsLine(prefix)
	digits, _, _ := strings.Cut(strings.TrimPrefix(line, prefix), " ")
	token, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || token == 0 {
		w.Fatalf("the writer of %s says %q", w.name, line)
	}
	return token
}

func (w *writer) says(value string) {
	w.Helper()
	if _, err := io.WriteString(w.stdin, value+"\n"); err != nil {
		w.Fatal(err)
	}
}

func (w *writer) freeze() { w.signal(syscall.SIGSTOP) }
func (w *writer) thaw()   { w.signal(syscall.SIGCONT) }

func (w *writer) signal(s syscall.Signal) {
	w.Helper()
	for _, err := range []error{w.app.Process.Signal(s), w.sidecar.Signal(s)} {
		if err != nil {
			w.Fatal(err)
		}
	}
}
