// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// asSidecar makes the test's binary be the sidecar's: real processes, with the race detector where the test has it.
const asSidecar = "TEST_BINARY_IS_THE_SIDECAR"

func init() {
	if os.Getenv(asSidecar) != "" {
		main()
	}
}

// TestMain runs many tests at a time, whatever the number of processors: they wait rather than work.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// patience is how long a test waits for what has to happen soon. The machine may be busy.
const patience = 60 * time.Second

// stage is where pods contend for one Lease, and write into one log.
type stage struct {
	t     *testing.T
	store *electortest.Store
	api   string // host:port
	log   string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, store: electortest.NewStore(), log: filepath.Join(t.TempDir(), "log")}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.api = listener.Addr().String()
	server := &http.Server{Handler: leaseserver.New(s.store), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		s.exclusive()
		for _, line := range s.lines() {
			if f := strings.Fields(line); f[0] == "pid" && !s.gone(f[3]) {
				t.Errorf("process %s of %s is left behind", f[3], f[1])
			}
		}
		if t.Failed() {
			t.Logf("the common log:\n%s", strings.Join(slices.Compact(s.lines()), "\n"))
		}
	})
	return s
}

// lines are those of the common log, each of which begins with its kind, the pod and the fencing token.
func (s *stage) lines() []string {
	text, err := os.ReadFile(s.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// exclusive checks that nothing is written for a leader of the past once a later one has written.
func (s *stage) exclusive() {
	s.t.Helper()
	last := uint64(0)
	for i, line := range s.lines() {
		f := strings.Fields(line)
		token, err := strconv.ParseUint(f[2], 10, 64)
		if err != nil || token < last {
			s.t.Errorf("line %d of the log, %q, comes after one of the token %d", i+1, line, last)
		}
		last = token
	}
}

// await waits until the log has the nth line (from 1) that begins like this, and returns it.
func (s *stage) await(begin string, nth int) string {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		n := 0
		for _, line := range s.lines() {
			if strings.HasPrefix(line, begin+" ") {
				if n++; n == nth {
					return line
				}
			}
		}
	}
	s.t.Fatalf("the log never has %q for the %d. time", begin, nth)
	return ""
}

// field is the nth field, from 0, of the first line that begins like this, once there is one.
func (s *stage) field(begin string, n int) string {
	s.t.Helper()
	return strings.Fields(s.await(begin, 1))[n]
}

// before checks that the last line that begins with a comes before the first that begins with b.
func (s *stage) before(a, b string) {
	s.t.Helper()
	lines, last := s.lines(), -1
	for i, line := range lines {
		if strings.HasPrefix(line, a+" ") {
			last = i
		}
	}
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, b+" ") })
	if last < 0 || first < 0 || first < last {
		s.t.Errorf("the last %q is line %d of the log, the first %q line %d", a, last+1, b, first+1)
	}
}

// gone tells whether a process ends soon.
func (s *stage) gone(pid string) bool {
	s.t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) || syscall.Kill(number, 0) != nil {
			return true
		}
	}
	return false
}

func (s *stage) holder() string {
	s.t.Helper()
	lease, err := s.store.Leases("shop").Get(s.t.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "no Lease"
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// The commands. worker works until SIGTERM, takes a moment to finish, and says so.
const (
	prologue = `say() { echo "$1 $POD_NAME $ELECTOR_FENCING_TOKEN $2" >>"$LOG"; }
say start "$ELECTOR_TERM"; say pid $$; say pid $PPID; say watchdog $PPID
`
	labour  = `while :; do say tick; sleep 0.03; done`
	worker  = prologue + `trap 'say stopping; sleep 0.3; say stop; exit 0' TERM` + "\n" + labour
	deaf    = prologue + `trap '' TERM; say deaf; ` + labour
	parents = prologue + `trap '' TERM
sh -c 'say() { echo "$1 $POD_NAME $ELECTOR_FENCING_TOKEN $2" >>"$LOG"; }; trap "" TERM; say pid $$; while :; do say tick; sleep 0.03; done' &
setsid sh -c 'say() { echo "$1 $POD_NAME $ELECTOR_FENCING_TOKEN $2" >>"$LOG"; }; trap "" TERM; say pid $$; (say() { echo "$1 $POD_NAME $ELECTOR_FENCING_TOKEN $2" >>"$LOG"; }; while :; do say tick; sleep 0.03; done) & say family; exit' &
` + labour
)

// pod is a process that runs exec.
type pod struct {
	*stage
	name  string
	url   string
	cmd   *exec.Cmd
	wire  *wire
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *pod) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// start starts exec with a shell command; env comes on top of what it needs.
func (s *stage) start(name, script string, env ...string) *pod {
	s.t.Helper()
	return s.run(name, []string{"exec", "--", "sh", "-c", script}, nil, env...)
}

// run runs the sidecar's binary with args, by a wrapper where there is one.
func (s *stage) run(name string, args, wrapper []string, env ...string) *pod {
	s.t.Helper()
	address, err := process.FreeAddress()
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &pod{stage: s, name: name, url: "http://" + address, ended: make(chan struct{}), wire: newWire(s.t, s.api)}
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := process.WriteKubeconfig(kubeconfig, "http://"+p.wire.address); err != nil {
		s.t.Fatal(err)
	}
	line := slices.Concat(wrapper, []string{self}, args)
	p.cmd = exec.Command(line[0], line[1:]...) //nolint:noctx // it is killed at the end
	p.cmd.Env = append([]string{
		asSidecar + "=1", "LOG=" + s.log, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig,
		"POD_NAME=" + name, "POD_NAMESPACE=shop", "ELECTOR_LEASE_NAME=web", "ELECTOR_HTTP_ADDRESS=" + address,
		"ELECTOR_LEASE_DURATION=3s", "ELECTOR_RENEW_DEADLINE=2s", "ELECTOR_RETRY_PERIOD=300ms",
	}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		if log := p.out.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
			s.t.Errorf("%s broke", name)
		}
		if s.t.Failed() {
			s.t.Logf("the output of %s:\n%s", name, &p.out)
		}
	})
	return p
}

func (p *pod) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s to %s: %v", s, p.name, err)
	}
}

// exits waits for the end, and checks the exit code.
func (p *pod) exits(code int) {
	p.t.Helper()
	select {
	case <-p.ended:
		if got := p.cmd.ProcessState.ExitCode(); got != code {
			p.t.Errorf("%s exits with %d (%s), not %d", p.name, got, p.cmd.ProcessState, code)
		}
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
	}
}

func (p *pod) lives() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("%s has ended: %s", p.name, p.cmd.ProcessState)
	default:
	}
}

// asks sends a request to its API, again until that listens.
func (p *pod) asks(method, path string) (code int, body string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			return response.StatusCode, string(text)
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s does not answer: %v", p.name, err)
		}
	}
}

// wire is a pod's connection to the API server, which can be cut.
type wire struct {
	address string
	mu      sync.Mutex
	isCut   bool
	open    map[net.Conn]bool
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil || !w.add(near, far) {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _, _ = far.Close(), near.Close() }()
			go func() { _, _ = io.Copy(near, far); _, _ = far.Close(), near.Close() }()
		}
	}()
	return w
}

func (w *wire) add(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		if w.isCut {
			_ = c.Close()
		}
		w.open[c] = true
	}
	return !w.isCut
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.open {
		_ = c.Close()
	}
	clear(w.open)
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

// A leader that is told to stop: its command finishes, and only then does the other's begin.
func TestExecHandsOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", worker)
	s.await("tick a", 2)
	b := s.start("b", worker)
	if code, body := b.asks(http.MethodGet, "/leader?wait=5s&revision=x"); code != http.StatusOK || !strings.Contains(body, `"podName":"b"`) {
		t.Errorf("b's API says %d: %s", code, body)
	}
	_, body := a.asks(http.MethodGet, "/leader")
	if token := s.field("start a", 2); !strings.Contains(body, `"fencingToken":`+token+",") {
		t.Errorf("the command's ELECTOR_FENCING_TOKEN is %s, the API says %s", token, body)
	}
	if term := s.field("start a", 3); !strings.Contains(body, `"term":`+term+",") {
		t.Errorf("the command's ELECTOR_TERM is %s, the API says %s", term, body)
	}
	a.signal(syscall.SIGTERM)
	s.await("stopping a", 1)
	if code, body := a.asks(http.MethodGet, "/leader"); code != http.StatusOK || !strings.Contains(body, `"state":"handing-over"`) {
		t.Errorf("while its command finishes a says %s", body)
	}
	a.exits(0)
	s.await("start b", 1)
	s.before("stop a", "start b")
	b.signal(syscall.SIGTERM)
	b.exits(0)
	if holder := s.holder(); holder != "" {
		t.Errorf("in the end the lease is held by %q", holder)
	}
}

// A command that ignores SIGTERM is killed when the handover timeout is over, and not before.
func TestExecKillsADeafCommand(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", deaf, "ELECTOR_HANDOVER_TIMEOUT=1s")
	s.await("deaf a", 1)
	b := s.start("b", worker)
	told := time.Now()
	a.signal(syscall.SIGTERM)
	s.await("start b", 1)
	if took := time.Since(told); took < time.Second {
		t.Errorf("it was given %s", took)
	}
	a.exits(128 + 9)
	b.signal(syscall.SIGTERM)
	b.exits(0)
}

// A second SIGTERM does not wait for that.
func TestExecIsToldToStopTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", deaf, "ELECTOR_HANDOVER_TIMEOUT=1h")
	s.await("deaf a", 1)
	a.signal(syscall.SIGTERM)
	for body := ""; !strings.Contains(body, "handing-over"); {
		_, body = a.asks(http.MethodGet, "/leader")
	}
	a.lives()
	a.signal(syscall.SIGTERM)
	a.exits(128 + 9)
	if holder := s.holder(); holder != "" {
		t.Errorf("the lease is held by %q", holder)
	}
}

// A handover that is longer than the renew deadline, and the lease: it is renewed meanwhile.
func TestExecGivesTheCommandAllItsTime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", prologue+`trap 'say stopping; sleep 4; say stop; exit 7' TERM; `+labour, "ELECTOR_HANDOVER_TIMEOUT=30s")
	s.await("tick a", 1)
	s.start("b", worker)
	a.signal(syscall.SIGTERM)
	a.exits(7)
	s.await("start b", 1)
	s.before("stop a", "start b")
}

// A follower that is told to stop never runs its command.
func TestExecFollowerStops(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.start("a", worker)
	s.await("tick a", 1)
	b := s.start("b", worker)
	b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
	b.signal(syscall.SIGHUP) // is for the command, of which there is none
	b.signal(syscall.SIGUSR1)
	if code, _ := b.asks(http.MethodGet, "/healthz"); code != http.StatusOK {
		t.Errorf("it is unhealthy: %d", code)
	}
	b.signal(syscall.SIGQUIT)
	b.exits(0)
	if slices.ContainsFunc(s.lines(), func(line string) bool { return strings.HasPrefix(line, "start b") }) {
		t.Error("it ran")
	}
}

// A stopped sidecar cannot keep its command alive. Once it goes on it contends again.
func TestExecSidecarIsStopped(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"command": worker, "deaf command": deaf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			a := s.start("a", script)
			s.await("tick a", 1)
			b := s.start("b", worker)
			b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
			a.signal(syscall.SIGSTOP)
			s.await("tick b", 5)
			s.before("tick a", "start b")
			a.signal(syscall.SIGCONT)
			b.signal(syscall.SIGTERM)
			b.exits(0)
			s.await("start a", 2)
			a.lives()
		})
	}
}

// Nor can one that is cut off.
func TestExecSidecarIsCutOff(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"command": worker, "deaf command": deaf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			a := s.start("a", script)
			s.await("tick a", 1)
			b := s.start("b", worker)
			b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
			a.wire.cut()
			s.await("start b", 1)
			s.before("tick a", "start b")
			if script == worker {
				s.await("stopping a", 1) // SIGTERM came first
			}
			a.lives()
			a.wire.heal()
			s.await("tick b", 5)
			b.signal(syscall.SIGTERM)
			b.exits(0)
			s.await("start a", 2)
		})
	}
}

// Nor can one that is cut off while it hands over.
func TestExecIsCutOffWhileItHandsOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", deaf, "ELECTOR_HANDOVER_TIMEOUT=1h")
	s.await("deaf a", 1)
	b := s.start("b", worker)
	b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
	a.signal(syscall.SIGTERM)
	for body := ""; !strings.Contains(body, "handing-over"); {
		_, body = a.asks(http.MethodGet, "/leader")
	}
	a.wire.cut()
	s.await("start b", 1)
	s.before("tick a", "start b")
}

// A sidecar that is killed takes its command along, and all that came of it.
func TestExecSidecarIsKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", parents)
	s.await("family a", 1)
	b := s.start("b", worker)
	b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
	a.signal(syscall.SIGKILL)
	s.dead("a")
	s.await("start b", 1)
	s.before("tick a", "start b")
}

// dead checks that all processes of a pod are gone soon, and that their log has ended then.
func (s *stage) dead(name string) {
	s.t.Helper()
	count := 0
	for _, line := range s.lines() {
		if f := strings.Fields(line); f[0] == "pid" && f[1] == name {
			if count++; !s.gone(f[3]) {
				s.t.Fatalf("process %s lives", f[3])
			}
		}
	}
	if count == 0 {
		s.t.Fatal("there was none")
	}
}

// When the watchdog is killed, the command dies, and the sidecar makes an end.
func TestExecWatchdogIsKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", parents)
	s.await("family a", 1)
	b := s.start("b", worker)
	b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
	s.kill(s.field("watchdog a", 3), syscall.SIGKILL)
	a.exits(1)
	s.dead("a")
	s.await("start b", 1)
	s.before("tick a", "start b")
}

// Both at once: the command dies with its watchdog, whether or not the sidecar can do anything.
func TestExecWatchdogIsKilledUnderAStoppedSidecar(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", deaf)
	s.await("deaf a", 1)
	a.signal(syscall.SIGSTOP)
	s.kill(s.field("watchdog a", 3), syscall.SIGKILL)
	s.dead("a")
	a.signal(syscall.SIGCONT)
	a.exits(1)
}

func (s *stage) kill(pid string, signal syscall.Signal) {
	s.t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Kill(number, signal); err != nil {
		s.t.Fatal(err)
	}
}

// A watchdog that is stopped, and a sidecar that has to stop leading.
func TestExecWatchdogIsStopped(t *testing.T) {
	t.Parallel()
	t.Run("told to stop", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		a := s.start("a", parents, "ELECTOR_HANDOVER_TIMEOUT=100ms")
		s.await("family a", 1)
		s.start("b", worker)
		s.kill(s.field("watchdog a", 3), syscall.SIGSTOP)
		a.signal(syscall.SIGTERM)
		a.exits(128 + 9)
		s.dead("a")
		s.await("start b", 1)
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		a := s.start("a", parents)
		s.await("family a", 1)
		b := s.start("b", worker)
		b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
		s.kill(s.field("watchdog a", 3), syscall.SIGSTOP)
		a.wire.cut()
		s.await("start b", 1)
		s.before("tick a", "start b")
		a.lives()
	})
}

// The command's own end is the pod's: the lease is released, and the exit code passed on.
func TestExecCommandEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		code   int
	}{
		"in good order":    {"exit 0", 0},
		"with a code":      {"exit 3", 3},
		"by a signal":      {"kill -KILL $$", 128 + 9},
		"leaving children": {"setsid sh -c 'echo pid $POD_NAME $ELECTOR_FENCING_TOKEN $$ >>$LOG; exec sleep 1000' & sleep 0.5; exit 4", 4},
		"stopping itself":  {"kill -TERM $$", 128 + 15},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			a := s.start("a", prologue+test.script)
			a.exits(test.code)
			if holder := s.holder(); holder != "" {
				t.Errorf("the lease is held by %q", holder)
			}
			s.dead("a")
		})
	}
}

// Nothing is contended for with a command that cannot be run.
func TestExecCommandCannotBeRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("no program\n"), 0o755); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"exec", "--", "no-such-command-anywhere"}, 127, "no-such-command-anywhere"},
		{[]string{"exec", "--", "/no/such/command"}, 127, "/no/such/command"},
		{[]string{"exec", "--", plain}, 126, plain},
		{[]string{"exec"}, 2, "a command is missing"},
		{[]string{"exec", "--"}, 2, "a command is missing"},
		{[]string{"exec", "--loud", "--", "true"}, 2, "-loud"},
	} {
		p := s.run("a", test.args, nil)
		p.exits(test.code)
		if !strings.Contains(p.out.String(), test.says) || strings.Count(p.out.String(), "\n") != 1 {
			t.Errorf("%q says %q", test.args, &p.out)
		}
	}
	if holder := s.holder(); holder != "no Lease" {
		t.Errorf("the lease is held by %q", holder)
	}
	p := s.run("a", []string{"exec", "--", broken}, nil) // looks like a program until it is run
	p.exits(126)
	if holder := s.holder(); holder != "" {
		t.Errorf("the lease is held by %q", holder)
	}
}

// Signals reach the command; those that mean the end are passed on as they are.
func TestExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", prologue+`for s in HUP USR1 USR2 WINCH ALRM; do trap "say $s" $s; done; trap 'say QUIT; exit 5' QUIT; `+labour)
	s.await("tick a", 1)
	for name, sent := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		"WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM} {
		if signal.Ignored(sent) {
			continue // from the start, as under nohup: then it is for the command, too
		}
		a.signal(sent)
		s.await(name+" a", 1)
	}
	a.lives()
	a.signal(syscall.SIGQUIT)
	s.await("QUIT a", 1)
	a.exits(5)
	if holder := s.holder(); holder != "" {
		t.Errorf("the lease is held by %q", holder)
	}
}

// POST /resign: the command ends, another pod's begins, and later it may be this one's turn again.
func TestExecResigns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", worker)
	s.await("tick a", 1)
	b := s.start("b", worker)
	b.asks(http.MethodGet, "/leader?wait=5s&revision=x")
	if code, body := a.asks(http.MethodPost, "/resign?wait=30s"); code != http.StatusOK {
		t.Errorf("/resign answers %d: %s", code, body)
	}
	s.await("tick b", 1)
	s.before("stop a", "start b")
	a.lives()
	b.signal(syscall.SIGTERM)
	b.exits(0)
	s.await("start a", 2)
}

// POST /release: the command says that it has finished, so it is dead before the lease is released.
func TestExecReleasesOnRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", deaf, "ELECTOR_HANDOVER_TIMEOUT=1h")
	s.await("deaf a", 1)
	s.start("b", worker)
	a.signal(syscall.SIGTERM)
	for code := 0; code != http.StatusAccepted; {
		code, _ = a.asks(http.MethodPost, "/release")
	}
	a.exits(128 + 9)
	s.await("start b", 1)
	s.before("tick a", "start b")
}

// A Lease that was taken away: another may lead already, so the command is killed at once.
func TestExecIsRobbed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.start("a", worker)
	s.await("tick a", 1)
	if err := s.store.Leases("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("start a", 2)
	a.lives()
	if slices.ContainsFunc(s.lines(), func(line string) bool { return strings.HasPrefix(line, "stopping a") }) {
		t.Error("it was given time")
	}
}

// Orphans are reaped, by the watchdog and, as process 1 of a container, by the sidecar.
func TestExecReapsOrphans(t *testing.T) {
	t.Parallel()
	orphans := prologue + `for i in 1 2 3 4 5; do (sleep 0.2 &); done; ` + labour
	t.Run("subreaper", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.start("a", orphans)
		s.await("tick a", 1)
		watchdog := s.field("watchdog a", 3)
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if len(childrenOf(watchdog)) == 1 {
				break // but for the command they are gone
			}
			if time.Now().After(end) {
				t.Fatalf("the watchdog has the children %v", childrenOf(watchdog))
			}
		}
	})
	t.Run("process 1", func(t *testing.T) {
		t.Parallel()
		unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
		if out, err := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("there are no process namespaces to be had: %v: %s", err, out)
		}
		s := newStage(t)
		// The process numbers in the log would be those of the namespace.
		a := s.run("a", []string{"exec", "--", "sh", "-c", strings.ReplaceAll(orphans, "say pid", ": ")}, unshare)
		s.await("tick a", 1)
		first := childrenOf(strconv.Itoa(a.cmd.Process.Pid))
		if len(first) != 1 {
			t.Fatalf("unshare has the children %v", first)
		}
		// What "kubectl exec" leaves behind becomes a child of process 1. It begins a session, as there.
		out, err := exec.CommandContext(t.Context(), "nsenter", "--target", first[0], "--pid", "--mount",
			"setsid", "--wait", "sh", "-c", "(sleep 0.3 >/dev/null 2>&1 &)").CombinedOutput()
		if err != nil {
			t.Skipf("nsenter: %v: %s", err, out)
		}
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if len(childrenOf(first[0])) == 1 {
				break // but for the watchdog they are gone
			}
			if time.Now().After(end) {
				t.Fatalf("process 1 has the children %v", childrenOf(first[0]))
			}
		}
		s.kill(first[0], syscall.SIGTERM)
		a.exits(128 + 15) // dash dies of it
	})
}

func childrenOf(pid string) (found []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); f[1] == pid {
			found = append(found, strings.Split(path, "/")[2])
		}
	}
	return found
}

// Two pods are told to stop by turns; the log shows that their commands never overlap.
func TestExecManyHandovers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pods := map[string]*pod{"a": s.start("a", worker), "b": s.start("b", worker)}
	for i := range 6 {
		name := "a"
		for leading := false; !leading; {
			for name = range pods {
				if _, body := pods[name].asks(http.MethodGet, "/is-leader"); strings.HasPrefix(body, "leading") {
					leading = true
					break
				}
			}
		}
		s.await(fmt.Sprintf("tick %s", name), 1)
		pods[name].signal(syscall.SIGTERM)
		<-pods[name].ended
		delete(pods, name)
		name = fmt.Sprintf("c%d", i)
		pods[name] = s.start(name, worker)
	}
}

// recorder is a Lease API that notes who writes.
type recorder struct {
	elector.LeaseClient
	holders []string
}

func (r *recorder) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	holder := "nil"
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	r.holders = append(r.holders, holder)
	return lease, nil
}

// No release is sent while the command lives, and one that would be late is not sent at all.
func TestExecGate(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	x, api := &executor{current: &charge{orders: write, ended: make(chan struct{})}}, &recorder{}
	contest := elector.Config{Client: api}
	x.prepare(&contest)
	update := func(ctx context.Context, holder *string) error {
		_, err := contest.Client.Update(ctx, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}, metav1.UpdateOptions{})
		return err
	}
	if err := update(t.Context(), new("me")); err != nil || !slices.Equal(api.holders, []string{"me"}) {
		t.Errorf("a renewal: %v, written: %q", err, api.holders)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, empty := range []*string{nil, new("")} {
		if err := update(short, empty); err == nil || len(api.holders) != 1 {
			t.Errorf("a release while the command lives: %v, written: %q", err, api.holders)
		}
	}
	var o order
	if err := json.NewDecoder(read).Decode(&o); err != nil || !o.Kill {
		t.Errorf("the watchdog was told %+v, %v", o, err)
	}
	released := make(chan error)
	go func() { released <- update(t.Context(), new("")) }()
	time.Sleep(10 * time.Millisecond)
	close(x.current.ended)
	if err := <-released; err != nil || !slices.Equal(api.holders, []string{"me", ""}) {
		t.Errorf("a release: %v, written: %q", err, api.holders)
	}
	x.current = nil
	if err := update(t.Context(), new("")); err != nil {
		t.Error(err)
	}
}

// The command's deadline is never later than what the status says.
func TestExecDeadline(t *testing.T) {
	t.Parallel()
	x := &executor{deadline: 10 * time.Second}
	now := instant{Boot: 1000 * time.Second, Wall: 5000 * time.Second}
	tests := map[string]struct {
		status elector.Status
		left   time.Duration // 0: not held
	}{
		"leading":                   {elector.Status{State: elector.Leading, IsLeader: true, FencingToken: 7, ValidFor: 9 * time.Second, RenewalAge: time.Second}, 9 * time.Second},
		"leading anew":              {elector.Status{State: elector.Leading, IsLeader: true, FencingToken: 8, ValidFor: 9 * time.Second, RenewalAge: time.Second}, 0},
		"following":                 {elector.Status{State: elector.Following, Leader: "other", RenewalAge: time.Second}, 0},
		"lapsed":                    {elector.Status{State: elector.Following, RenewalAge: 10 * time.Second}, 0},
		"handing over":              {elector.Status{State: elector.HandingOver, RenewalAge: 3 * time.Second}, 7 * time.Second},
		"handing over for too long": {elector.Status{State: elector.HandingOver, RenewalAge: 10 * time.Second}, 0},
		"handed over":               {elector.Status{State: elector.HandingOver}, 0},
		"handing over, robbed":      {elector.Status{State: elector.HandingOver, Leader: "other", RenewalAge: time.Second}, 0},
		"stopped":                   {elector.Status{State: elector.Stopped}, 0},
	}
	for name, test := range tests {
		deadline, held := x.until(now, test.status, 7)
		if held != (test.left > 0) || held && deadline != now.add(test.left) {
			t.Errorf("%s: until %v, %t", name, deadline, held)
		}
	}
	if left := now.add(time.Second).before(instant{Boot: now.Boot + time.Hour, Wall: now.Wall + 2*time.Second}); left != time.Second {
		t.Errorf("%s left after the time of day was set", left)
	}
}

// Orders never wait for a watchdog that does not read: in the end it is killed.
func TestExecOrdersDoNotBlock(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	c := &charge{orders: write, cmd: exec.Command("sleep", "1000")} //nolint:noctx // it is killed
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for n := 0; !c.givenUp; n++ {
		if n > 10_000 {
			t.Fatal("it is given so many orders, and takes none")
		}
		c.order(order{Deadline: new(rightNow())})
	}
	if err := c.cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	_ = write.Close()
	c.order(order{Kill: true}) // there is nobody any more
}

// The helpers that client-go starts for credentials are left to client-go, which waits for them.
func TestExecLeavesCredentialHelpersAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	server := httptest.NewTLSServer(leaseserver.New(s.store)) // credentials are sent over TLS alone
	t.Cleanup(server.Close)
	dir := t.TempDir()
	used := filepath.Join(dir, "used")
	helper := filepath.Join(dir, "helper")
	// Each answer expires at once, so that it is asked often.
	script := `#!/bin/sh
echo x >>` + used + `
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}}'
`
	if err := os.WriteFile(helper, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: server.URL, InsecureSkipTLSVerify: true}},
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "me"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"me": {Exec: &clientcmdapi.ExecConfig{Command: helper, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}},
		CurrentContext: "it",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	a := s.start("a", worker, "KUBECONFIG="+kubeconfig)
	s.await("tick a", 60) // longer than the renew deadline
	a.signal(syscall.SIGTERM)
	a.exits(0)
	times, err := os.ReadFile(used)
	if err != nil || len(times) < 8 {
		t.Errorf("the helper ran %d times: %v", len(times)/2, err)
	}
	if strings.Contains(a.out.String(), "request failed") {
		t.Error("requests failed")
	}
}
