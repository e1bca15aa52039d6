// SPDX-License-Identifier: Apache-2.0

package apphealth_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

const (
	period   = 200 * time.Millisecond
	failures = 3
	maxAge   = 300 * time.Millisecond
	patience = 10 * time.Second // for what has to happen
)

// appVariable makes this test's binary an app: it names an address and a heartbeat file.
const appVariable = "APPHEALTH_TEST_APP"

// binary is the sidecar, built once.
var binary = sync.OnceValues(func() (string, error) { return process.Build(context.Background(), "../..", scratch) })

var scratch string // removed in the end

// TestMain runs many tests at a time, whatever the number of processors: they wait rather than work.
func TestMain(m *testing.M) {
	if app := os.Getenv(appVariable); app != "" {
		fmt.Fprintln(os.Stderr, serve(strings.Cut(app, " ")))
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "apphealth"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return m.Run()
}

// serve is the app. It ends with the process that started it, whose end of standard input then closes.
func serve(address, file string, _ bool) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	go func() {
		for ; ; time.Sleep(50 * time.Millisecond) {
			if err := os.WriteFile(file, []byte("alive"), 0o600); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	return http.Serve(listener, nil)
}

func init() {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
}

// An app is killed under a sidecar that is well: the other pod leads, and this one stays out until its app is back.
func TestTheAppIsKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "tcp", "file"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, kind)
			pods := []*pod{h.pod("pod-0"), h.pod("pod-1")}
			for _, p := range pods {
				p.startApp()
				p.startSidecar()
				p.await("pod-0 leads", func(l process.Leader) bool { return l.Name == "pod-0" })
			}
			for i := range 4 { // each pod loses its app twice
				from, to := pods[i%2], pods[(i+1)%2]
				to.awaitReason("")
				from.app.kill()
				killed := time.Now()
				to.await("leads", func(l process.Leader) bool { return l.IsLeader })
				limit := failures*period + time.Second
				if kind == "file" {
					limit += maxAge
				}
				if took := time.Since(killed); took > limit {
					t.Errorf("leadership moved after %s, not within %s", took, limit)
				}
				from.awaitReason("the app is unhealthy: ")
				if l := from.leader(); l.IsLeader || l.State != "following" || l.Name != to.name {
					t.Errorf("the pod without an app says %+v", l)
				}
				from.startApp()
			}
			for _, p := range pods {
				p.awaitReason("")
				for line, want := range map[string]int{`"the app is unhealthy"`: 2, `"handing over"`: 2, `because="the app is unhealthy: `: 2} {
					if n := strings.Count(p.sidecar.Log(), line); n != want {
						t.Errorf("%s logs %s %d times:\n%s", p.name, line, n, p.sidecar.Log())
					}
				}
			}
		})
	}
}

// An app takes its time to start: the sidecar does not even write the Lease before.
func TestTheAppStartsSlowly(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "http without an answer", "tcp", "file"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kind, hangs, _ := strings.Cut(kind, " ")
			h := newHouse(t, kind)
			p := h.pod("pod-0")
			if hangs != "" { // so that the first check fails only when the sidecar could have led for long
				listener, err := net.Listen("tcp", p.address)
				h.must(err)
				defer listener.Close()
				time.AfterFunc(8*period, func() { _ = listener.Close() })
			}
			p.startSidecar()
			p.await("follows", func(l process.Leader) bool { return l.State == "following" })
			p.awaitReason("the app is unhealthy: not seen healthy yet: ")
			for end := time.Now().Add(10 * period); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if l := p.leader(); l.IsLeader || l.Name != "" || h.store.Peek("default", "work") != nil {
					t.Fatalf("with no app: %+v; the Lease is %v", l, h.store.Peek("default", "work"))
				}
			}
			p.startApp()
			begun := time.Now()
			p.await("leads", func(l process.Leader) bool { return l.IsLeader })
			if took := time.Since(begun); took > period+time.Second {
				t.Errorf("it leads %s after the app has started", took)
			}
			p.awaitReason("")
		})
	}
}

// While every app is unhealthy nobody leads.
func TestNoAppIsHealthy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "http")
	pods := []*pod{h.pod("pod-0"), h.pod("pod-1")}
	for _, p := range pods {
		p.startApp()
		p.startSidecar()
		p.await("pod-0 leads", func(l process.Leader) bool { return l.Name == "pod-0" })
	}
	for _, p := range pods {
		p.app.kill()
	}
	for _, p := range pods {
		p.await("nobody leads", func(l process.Leader) bool { return l.Name == "" && l.State == "following" })
		p.awaitReason("the app is unhealthy: ")
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, p := range pods {
			if l := p.leader(); l.IsLeader || l.Name != "" {
				t.Fatalf("%s says %+v", p.name, l)
			}
		}
	}
	if holder := h.store.Peek("default", "work").Spec.HolderIdentity; holder == nil || *holder != "" {
		t.Errorf("the Lease names %v", holder)
	}
	pods[1].startApp()
	pods[1].await("leads", func(l process.Leader) bool { return l.IsLeader })
}

// house is a cluster.
type house struct {
	*testing.T
	binary, kind, dir string
	store             *electortest.Store
}

func newHouse(t *testing.T, kind string) *house {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{T: t, binary: path, kind: kind, dir: t.TempDir(), store: electortest.NewStore()}
	server := httptest.NewServer(leaseserver.New(h.store))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h.must(process.WriteKubeconfig(filepath.Join(h.dir, "kubeconfig"), server.URL))
	return h
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// pod is a sidecar and its app, neither of which runs before it is started.
type pod struct {
	*house
	name, address, file string
	sidecar             *process.Sidecar
	app                 *app
}

func (h *house) pod(name string) *pod {
	h.Helper()
	address, err := process.FreeAddress()
	h.must(err)
	return &pod{house: h, name: name, address: address, file: filepath.Join(h.dir, name)}
}

func (p *pod) startSidecar() {
	p.Helper()
	target := map[string]string{
		"http": "http://" + p.address + "/healthz",
		"tcp":  "tcp://" + p.address,
		"file": "file://" + p.file + "?maxAge=" + maxAge.String(),
	}[p.kind]
	sidecar, err := process.Start(p.binary, p.name, []string{
		"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + filepath.Join(p.dir, "kubeconfig"),
		"ELECTOR_LEASE_DURATION=3s", "ELECTOR_RENEW_DEADLINE=2s", "ELECTOR_RETRY_PERIOD=300ms",
		"ELECTOR_APP_HEALTH=" + target, "ELECTOR_APP_HEALTH_PERIOD=" + period.String(), "ELECTOR_APP_HEALTH_TIMEOUT=" + period.String(),
		fmt.Sprint("ELECTOR_APP_HEALTH_FAILURES=", failures),
	}, nil)
	p.must(err)
	p.sidecar = sidecar
	p.Cleanup(func() {
		sidecar.Kill()
		if p.Failed() {
			p.Logf("the sidecar of %s:\n%s", p.name, sidecar.Log())
		}
	})
}

func (p *pod) leader() process.Leader {
	p.Helper()
	l, err := p.sidecar.Leader(p.Context(), "")
	p.must(err)
	return l
}

func (p *pod) await(what string, is func(process.Leader) bool) {
	p.Helper()
	for end := time.Now().Add(patience); ; {
		l, err := p.sidecar.Await(p.Context(), func(process.Leader) bool { return true })
		p.must(err)
		switch {
		case is(l):
			return
		case time.Now().After(end):
			p.Fatalf("%s: not within %s: %s; it says %+v", p.name, patience, what, l)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitReason waits until the reason begins like this; "" is for none.
func (p *pod) awaitReason(like string) {
	p.Helper()
	p.await(fmt.Sprintf("the reason is %q", like), func(l process.Leader) bool {
		return like == "" && l.Reason == "" || like != "" && strings.HasPrefix(l.Reason, like)
	})
}

// app is a process.
type app struct {
	command *exec.Cmd
	ended   chan struct{}
}

func (p *pod) startApp() {
	p.Helper()
	self, err := os.Executable()
	p.must(err)
	a := &app{command: exec.Command(self), ended: make(chan struct{})}
	a.command.Env = []string{appVariable + "=" + p.address + " " + p.file}
	a.command.Stderr = os.Stderr
	_, err = a.command.StdinPipe()
	p.must(err)
	p.must(a.command.Start())
	go func() {
		_ = a.command.Wait() // it is killed
		close(a.ended)
	}()
	p.Cleanup(a.kill)
	p.app = a
	// It has started when it listens and its file is there.
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(p.file)
		if err == nil && time.Since(info.ModTime()) < maxAge/2 {
			if connection, err := net.Dial("tcp", p.address); err == nil {
				_ = connection.Close()
				return
			}
		}
		if time.Now().After(end) {
			p.Fatalf("the app of %s does not start: %v", p.name, err)
		}
	}
}

func (a *app) kill() {
	_ = a.command.Process.Kill() // it may have ended
	<-a.ended
}
