// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package examples_test runs each example in two pods' worth of processes, takes leadership from one of them in every
// way, and looks at what the two have written.
package examples_test

import (
	"bytes"
	"context"
	"flag"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	handover      = 2 * time.Second
	patience      = 20 * time.Second // for what has to happen
)

// The units of work of the shell examples. One begins and ends with a line, so that an overlap shows; the other is long,
// and heeds no SIGTERM.
const (
	shellUnit = `line() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $POD_NAME $FENCING_TOKEN" >>"$OUTPUT"; }
line; sleep 0.05; line`
	cronJob = `trap "" TERM
for i in $(seq 60); do echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $POD_NAME $FENCING_TOKEN" >>"$OUTPUT"; sleep 0.05; done`
)

var examples = []struct {
	name    string
	command []string
	env     []string
}{
	{"python", []string{"python3", "python/app.py"}, []string{"INTERVAL=0.05", "UNIT=0.3"}},
	{"node", []string{"node", "node/app.js"}, []string{"INTERVAL=0.05", "UNIT=0.3"}},
	{"java", []string{"java", "java/App.java"}, []string{"INTERVAL=0.05", "UNIT=0.3", "JAVA_TOOL_OPTIONS=-Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}},
	{"shell", []string{"sh", "shell/app.sh", "sh", "-c", shellUnit}, []string{"PAUSE_MS=50", "UNIT_MS=300"}},
	{"cron", []string{"sh", "shell/cron.sh", "1", "sh", "-c", cronJob}, nil},
}

var losses = []struct {
	name string
	// lose takes leadership from the pod whose sidecar it is given.
	lose func(*process.Sidecar) error
	// back brings the sidecar back, where it can be.
	back func(*process.Sidecar) error
}{
	{name: "told-to-stop", lose: func(s *process.Sidecar) error { return s.Signal(syscall.SIGTERM) }},
	{name: "killed", lose: func(s *process.Sidecar) error { s.Kill(); return nil }},
	{name: "frozen", lose: func(s *process.Sidecar) error { return s.Signal(syscall.SIGSTOP) },
		back: func(s *process.Sidecar) error { return s.Signal(syscall.SIGCONT) }},
}

// TestMain runs many tests at a time, whatever the number of processors: they wait rather than work.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

func TestOnePodWorksAtATime(t *testing.T) {
	for _, tool := range []string{"python3", "node", "java", "curl", "sh", "setsid", "timeout", "seq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the examples need %s, which is not installed here", tool)
		}
	}
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range examples {
		for _, loss := range losses {
			t.Run(example.name+"/"+loss.name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, binary)
				pods := map[string]*pod{}
				for _, name := range []string{"pod-0", "pod-1"} {
					pods[name] = h.start(name, example.command, example.env)
				}
				h.await("work", func(lines []line) bool { return len(lines) >= 3 })

				before := h.lines()
				leader := before[len(before)-1]
				if err := loss.lose(pods[leader.pod].sidecar); err != nil {
					t.Fatal(err)
				}
				lost := time.Now()
				// What was known of its leadership is void by now, and nobody else can lead yet unless told so.
				time.Sleep(time.Until(lost.Add(renewDeadline)))
				atDeadline := h.linesOf(leader)

				h.await("work in the other pod", func(lines []line) bool {
					last := lines[len(lines)-1]
					return last.pod != leader.pod && last.token > leader.token
				})
				if loss.back != nil {
					if err := loss.back(pods[leader.pod].sidecar); err != nil {
						t.Fatal(err)
					}
				}
				// It goes on, and the pod that has lost stays quiet.
				taken := len(h.lines())
				h.await("more work", func(lines []line) bool { return len(lines) >= taken+8 })
				if n := h.linesOf(leader); n != atDeadline {
					t.Errorf("%s, whose sidecar was %s, still worked with token %d after %s: %d lines, then %d",
						leader.pod, loss.name, leader.token, renewDeadline, atDeadline, n)
				}
				for _, p := range pods {
					p.stop()
				}
				h.checkOrder()
			})
		}
	}
}

// TestAnAppThatIsToldToStop ends at once, whether it leads or blocks in a request. Its sidecar, which has not been told yet,
// neither goes on leading nor waits for anything.
func TestAnAppThatIsToldToStop(t *testing.T) {
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, binary)
			leader := h.start("pod-0", example.command, example.env)
			h.await("work", func(lines []line) bool { return len(lines) >= 3 })
			follower := h.start("pod-1", example.command, example.env)
			follower.awaitRequest()
			time.Sleep(500 * time.Millisecond) // so that its request blocks
			follower.stop()
			leader.stop()
			stopped := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := follower.sidecar.Await(ctx, func(l process.Leader) bool { return l.IsLeader }); err != nil {
				t.Fatalf("the next pod does not lead: %v", err)
			}
			if took := time.Since(stopped); took > handover/2 {
				t.Errorf("the next pod led %s after the app's end, with a handover timeout of %s", took, handover)
			}
			n := len(h.lines())
			time.Sleep(300 * time.Millisecond)
			if later := len(h.lines()); later != n {
				t.Errorf("work went on after the app had ended: %d lines, then %d", n, later)
			}
		})
	}
}

// TestAnAppWithoutASidecar does nothing, however long it is left alone, and stops when told.
func TestAnAppWithoutASidecar(t *testing.T) {
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "")
			// Its first request tells that it runs, and is not answered. From then on nobody listens.
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(patience, func() { listener.Close() }).Stop()
			p := h.startApp("pod-0", "http://"+listener.Addr().String(), example.command, example.env)
			connection, err := listener.Accept()
			if err != nil {
				t.Fatalf("it did not look for a sidecar within %s", patience)
			}
			connection.Close()
			listener.Close()
			time.Sleep(2 * time.Second)
			if lines := h.lines(); len(lines) > 0 {
				t.Errorf("it worked without a sidecar: %v", lines)
			}
			p.stop()
		})
	}
}

// TestAUnitThatCouldOutliveLeadership is not begun.
func TestAUnitThatCouldOutliveLeadership(t *testing.T) {
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tooLong := []string{"UNIT=" + strconv.FormatFloat(renewDeadline.Seconds(), 'f', -1, 64), "UNIT_MS=" + strconv.FormatInt(renewDeadline.Milliseconds(), 10)}
	for _, example := range examples[:4] { // cron's jobs are watched over instead
		t.Run(example.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, binary)
			p := h.start("pod-0", example.command, slices.Concat(example.env, tooLong))
			if _, err := p.sidecar.Await(t.Context(), func(l process.Leader) bool { return l.IsLeader }); err != nil {
				t.Fatal(err)
			}
			p.awaitRequest()
			time.Sleep(time.Second)
			if n := len(h.lines()); n > 0 {
				t.Errorf("it began %d units that may take as long as leadership lasts", n)
			}
			p.stop()
		})
	}
}

// TestSnippets runs each script of docs/patterns.md in two pods: it works in the one that leads, and not in the other.
func TestSnippets(t *testing.T) {
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/patterns.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts := strings.Split(string(page), "```sh\n")[1:]
	if len(scripts) != 3 {
		t.Errorf("docs/patterns.md has %d scripts, not 3", len(scripts))
	}
	for i, script := range scripts {
		script, _, _ = strings.Cut(script, "\n```")
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, binary)
			for name, does := range map[string]string{"work": `echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $POD_NAME 1" >>"$OUTPUT"`, "rest": ":"} {
				if err := os.WriteFile(filepath.Join(filepath.Dir(h.output), name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			const elsewhere = `cd "$TMPDIR" && curl() { command curl --connect-to "localhost:4040:${SIDECAR_URL#http://}" "$@"; }` + "\n"
			h.start("pod-0", []string{"sh", "-uc", elsewhere + script}, nil)
			h.await("work", func(lines []line) bool { return len(lines) > 0 })
			h.start("pod-1", []string{"sh", "-uc", elsewhere + script}, nil)
			time.Sleep(3 * time.Second)
			if n := h.linesOf(line{"pod-1", 1}); n > 0 {
				t.Errorf("it worked %d times in the pod that follows", n)
			}
		})
	}
}

// house is a cluster of two pods and the log that their apps share.
type house struct {
	*testing.T
	binary     string
	kubeconfig string
	output     string
}

func newHouse(t *testing.T, binary string) *house {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewServer(leaseserver.New(electortest.NewStore()))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h := &house{T: t, binary: binary, kubeconfig: filepath.Join(dir, "kubeconfig"), output: filepath.Join(dir, "output")}
	if err := process.WriteKubeconfig(h.kubeconfig, server.URL); err != nil {
		t.Fatal(err)
	}
	return h
}

// pod is a sidecar and its app.
type pod struct {
	h       *house
	name    string
	sidecar *process.Sidecar
	app     *exec.Cmd
	said    *bytes.Buffer
	ended   chan error
}

func (h *house) start(name string, command, env []string) *pod {
	h.Helper()
	sidecar, err := process.Start(h.binary, name, []string{
		"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + h.kubeconfig,
		"ELECTOR_LEASE_DURATION=" + leaseDuration.String(), "ELECTOR_RENEW_DEADLINE=" + renewDeadline.String(),
		"ELECTOR_RETRY_PERIOD=300ms", "ELECTOR_HANDOVER_TIMEOUT=" + handover.String(), "ELECTOR_LOG_FORMAT=json",
	}, nil)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		sidecar.Kill()
		if h.Failed() {
			h.Logf("the sidecar of %s:\n%s", name, sidecar.Log())
		}
	})
	p := h.startApp(name, sidecar.URL, command, env)
	p.sidecar = sidecar
	return p
}

func (h *house) startApp(name, url string, command, env []string) *pod {
	h.Helper()
	p := &pod{h: h, name: name, app: exec.Command(command[0], command[1:]...), said: &bytes.Buffer{}, ended: make(chan error, 1)}
	// A proxy for other hosts must not come between.
	p.app.Env = append(os.Environ(), "SIDECAR_URL="+url, "POD_NAME="+name, "OUTPUT="+h.output, "TMPDIR="+filepath.Dir(h.output),
		"http_proxy=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "no_proxy=", "NO_PROXY=")
	p.app.Env = append(p.app.Env, env...)
	p.app.Stdout, p.app.Stderr = p.said, p.said
	p.app.WaitDelay = time.Second
	p.app.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.app.Start(); err != nil {
		h.Fatal(err)
	}
	go func() { p.ended <- p.app.Wait() }()
	h.Cleanup(func() {
		_ = syscall.Kill(-p.app.Process.Pid, syscall.SIGKILL) // it may have ended
		p.wait(patience)
		if h.Failed() {
			h.Logf("the app of %s:\n%s", name, p.said)
		}
	})
	return p
}

// stop tells the app to stop, as the kubelet does, and checks that it does so in order and in good time.
func (p *pod) stop() {
	p.h.Helper()
	began := time.Now()
	if err := p.app.Process.Signal(syscall.SIGTERM); err != nil {
		p.h.Errorf("the app of %s has ended too early: %v", p.name, err)
		return
	}
	// A job that heeds no SIGTERM may go on until its leadership ends.
	if err := p.wait(renewDeadline + time.Second); err != nil {
		p.h.Errorf("the app of %s ended with %v, %s after it was told to", p.name, err, time.Since(began))
	}
}

// awaitRequest waits until the app's request blocks in its sidecar: some take a while to start.
func (p *pod) awaitRequest() {
	p.h.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, body, err := p.sidecar.Get(p.h.Context(), "/metrics")
		if err == nil && bytes.Contains(body, []byte("\nelector_waiters 1\n")) {
			return
		}
	}
	p.h.Fatalf("the app of %s sent no request that blocks within %s", p.name, patience)
}

func (p *pod) wait(limit time.Duration) error {
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(limit):
		return context.DeadlineExceeded
	}
}

// line is what one unit of work has written.
type line struct {
	pod   string
	token uint64
}

func (h *house) lines() []line {
	h.Helper()
	content, err := os.ReadFile(h.output)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	var lines []line
	for text := range strings.Lines(string(content)) {
		fields := strings.Fields(text)
		if len(fields) != 3 || !strings.HasSuffix(text, "\n") {
			h.Fatalf("an app wrote %q, not a time, a pod and a token", text)
		}
		token, err := strconv.ParseUint(fields[2], 10, 64)
		if err != nil || token == 0 {
			h.Fatalf("an app wrote %q, whose token is none", text)
		}
		lines = append(lines, line{fields[1], token})
	}
	return lines
}

// linesOf counts the lines that equal l.
func (h *house) linesOf(l line) (n int) {
	h.Helper()
	for _, other := range h.lines() {
		if other == l {
			n++
		}
	}
	return n
}

func (h *house) await(what string, enough func([]line) bool) {
	h.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if lines := h.lines(); len(lines) > 0 && enough(lines) {
			return
		}
	}
	h.Fatalf("there was no %s within %s; the log is:\n%v", what, patience, h.lines())
}

// checkOrder checks that no two terms overlapped: appended lines are in the order in which they were written, so each
// token's stand together, the larger after the smaller, and all from one pod.
func (h *house) checkOrder() {
	h.Helper()
	var last line
	for i, l := range h.lines() {
		switch {
		case l.token < last.token:
			h.Errorf("line %d: %s worked with token %d after %s had begun with %d", i+1, l.pod, l.token, last.pod, last.token)
		case l.token == last.token && l.pod != last.pod:
			h.Errorf("line %d: %s and %s both worked with token %d", i+1, l.pod, last.pod, l.token)
		}
		last = l
	}
}
