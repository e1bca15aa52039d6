// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// binary is the sidecar, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "demo-test-")
		if err == nil {
			defer os.RemoveAll(dir)
			binary, err = process.Build(context.Background(), "..", dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// quick are options with short timings.
func quick() options {
	return options{lease: 2 * time.Second, renew: 1500 * time.Millisecond, retry: 300 * time.Millisecond, binary: binary}
}

// leavesNothing makes sure that the test leaves no process and no file.
func leavesNothing(t *testing.T) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Cleanup(func() {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left in the temporary folder: %v, %v", left, err)
		}
		for _, pid := range sidecars(t) {
			t.Errorf("process %s is left", pid)
		}
	})
}

// sidecars are the PIDs of the running ones, where there is a /proc.
func sidecars(t *testing.T) []string {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(command, []byte(binary+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// screen is where a demo prints. It can be read and waited for meanwhile.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

// wait returns what is shown once it matches, and the submatches.
func (s *screen) wait(t *testing.T, pattern string) []string {
	t.Helper()
	late := time.After(20 * time.Second)
	for expression := regexp.MustCompile(pattern); ; {
		s.mu.Lock()
		text, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if match := expression.FindStringSubmatch(text); match != nil {
			return match
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s is not shown:\n%s", pattern, text)
		}
	}
}

// runInBackground runs a demo until the test ends, or interrupts it.
func runInBackground(t *testing.T, o options) (shown *screen, interrupt func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	shown = newScreen()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, o, shown) }()
	interrupt = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = interrupt() })
	return shown, interrupt
}

func TestWalk(t *testing.T) {
	leavesNothing(t)
	var shown bytes.Buffer
	if err := run(t.Context(), quick(), &shown); err != nil {
		t.Fatalf("%v\n%s", err, &shown)
	}
	for _, row := range []string{
		`start, on a free Lease +nobody → web-\d +[0-9.]+ m?s  .`,
		`stopped in good order +web-\d → web-\d +[0-9.]+ ms  .`,
		`killed +web-\d → web-\d +[12]\.\d\d s  .`,
		`frozen +web-\d → web-\d +[12]\.\d\d s  .`,
		`  and woken: first answer +web-\d → not leader +[0-9.]+ ms  .`,
		`Lease taken by an intruder +web-\d → intruder +[0-9.]+ ms  .`,
		`  which is never renewed +intruder → web-\d +2\.\d\d s  .`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).Match(shown.Bytes()) {
			t.Errorf("the table has no row %q", row)
		}
	}
	for _, unwanted := range []string{"\x1b", "\r", os.TempDir()} {
		if strings.Contains(shown.String(), unwanted) {
			t.Errorf("the output has %q in it", unwanted)
		}
	}
	if t.Failed() {
		t.Logf("\n%s", &shown)
	}
}

// TestInterrupted ends the demo while the leader is frozen: the hardest to clean up after.
func TestInterrupted(t *testing.T) {
	leavesNothing(t)
	shown, interrupt := runInBackground(t, quick())
	shown.wait(t, `4\. [^\n]*\n +waiting for the lease to expire`)
	if err := interrupt(); !errors.Is(err, errInterrupted) {
		t.Errorf("the demo ended with: %v", err)
	}
}

func TestReaderLeaves(t *testing.T) {
	leavesNothing(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	_ = read.Close()
	if err := run(t.Context(), quick(), write); !errors.Is(err, errInterrupted) {
		t.Errorf("the demo ended with: %v", err)
	}
}

// TestStepFails: a lease duration that the sidecars refuse.
func TestStepFails(t *testing.T) {
	leavesNothing(t)
	o := quick()
	o.lease = 1500 * time.Millisecond
	shown := newScreen()
	err := run(t.Context(), o, shown)
	if err == nil || !strings.Contains(err.Error(), "step 1 did not come true: web-") {
		t.Errorf("the demo ended with: %v", err)
	}
	shown.wait(t, `The log of web-\d ends with:\n +elector-sidecar: ELECTOR_LEASE_DURATION is "1.5s"`)
}

func TestInteractive(t *testing.T) {
	leavesNothing(t)
	o := quick()
	o.interactive = true
	shown, interrupt := runInBackground(t, o)

	url := shown.wait(t, `curl -s (http\S+)/leader `)[1]
	response, err := http.Get(url + "/leader") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()

	leader := shown.wait(t, `(web-\d) leads`)[1]
	pid, err := strconv.Atoi(shown.wait(t, leader+` +(\d+) `)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	shown.wait(t, leader+` ended \(signal: killed\)`)
	shown.wait(t, leader+` leads[\s\S]* leads`)
	shown.wait(t, leader+` runs again`)
	if err := interrupt(); !errors.Is(err, errInterrupted) {
		t.Errorf("the demo ended with: %v", err)
	}
}

// useCluster makes a Lease API at url the current cluster.
func useCluster(t *testing.T, url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: url}},
		Contexts:       map[string]*clientcmdapi.Context{"b": {Cluster: "a", Namespace: "team"}},
		CurrentContext: "b",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
}

func TestCluster(t *testing.T) {
	store := electortest.NewStore()
	server := httptest.NewServer(leaseserver.New(store))
	t.Cleanup(server.Close)
	useCluster(t, server.URL)
	t.Setenv("POD_NAME", "not-this")
	leavesNothing(t)
	o := quick()
	o.cluster = true
	var shown bytes.Buffer
	if err := run(t.Context(), o, &shown); err != nil {
		t.Fatalf("%v\n%s", err, &shown)
	}
	if !strings.Contains(shown.String(), "The Lease is team/elector-demo, in the cluster at "+server.URL+" (context b)") {
		t.Errorf("the output does not tell where the Lease is:\n%s", &shown)
	}
	if store.Peek("team", leaseName) != nil {
		t.Error("the Lease is left")
	}
	if writes := store.Writes(); len(writes) < 5 {
		t.Errorf("only %d writes came to the cluster", len(writes))
	}
}

func TestClusterCannotBeUsed(t *testing.T) {
	store := electortest.NewStore()
	server := httptest.NewServer(leaseserver.New(store))
	useCluster(t, server.URL)
	leavesNothing(t)
	o := options{cluster: true}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}}
	if _, err := store.Leases("team").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fails := func(want string) {
		t.Helper()
		if err := run(t.Context(), o, newScreen()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it ended with %v, not with %q", err, want)
		}
	}

	fails("there is a Lease team/elector-demo already")
	if store.Peek("team", leaseName) == nil {
		t.Error("another's Lease was deleted")
	}
	server.Close()
	fails("the Lease API cannot be used in the cluster at " + server.URL)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	fails("there is no cluster to use")
}
