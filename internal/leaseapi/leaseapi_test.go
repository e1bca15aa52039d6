// SPDX-License-Identifier: Apache-2.0

package leaseapi_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// The tests TestCase… make the faults that others have reported; docs/guarantees.md has the table.

const (
	namespace = "default"
	leaseName = "web"
)

// contend runs an elector on a client of the API server until the test ends. Its log goes to say.
func contend(t *testing.T, cluster *rest.Config, change func(*elector.Config), say func(line string)) *elector.Elector {
	t.Helper()
	client, err := leaseapi.New(cluster, namespace)
	if err != nil {
		t.Fatal(err)
	}
	config := elector.Config{Client: client, Namespace: namespace, Name: leaseName, Identity: "a_1",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	change(&config)
	e, err := elector.New(config)
	if err != nil {
		t.Fatal(err)
	}
	logger := funcr.New(func(_, line string) { say(line) }, funcr.Options{})
	ctx, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), logger))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return e
}

func leads(s elector.Status) bool { return s.IsLeader }

// becomes waits for a status, and returns how long that took.
func becomes(t *testing.T, e *elector.Elector, what string, within time.Duration, enough func(elector.Status) bool) time.Duration {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if status, err := e.Wait(ctx, enough); err != nil {
		t.Fatalf("not within %s: %s; status %+v", within, what, status)
	}
	return time.Since(begun)
}

// ---- F2: connections that die silently ------------------------------------------------------------------------------

// mortal is a connection that can die without telling anybody: what is sent is lost, and nothing arrives.
type mortal struct {
	net.Conn
	dead   atomic.Bool
	closed chan struct{}
	close  func() error
}

func newMortal(conn net.Conn) *mortal {
	m := &mortal{Conn: conn, closed: make(chan struct{})}
	m.close = sync.OnceValue(func() error {
		close(m.closed)
		return conn.Close()
	})
	return m
}

func (m *mortal) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.dead.Load() {
		<-m.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.dead.Load() {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

func (m *mortal) Close() error { return m.close() }

// dialler dials connections that can die.
type dialler struct {
	mu    sync.Mutex
	conns []*mortal
}

func (d *dialler) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	m := newMortal(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, m)
	return m, nil
}

// deaden lets the connections that are open now die, and returns their number.
func (d *dialler) deaden() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		conn.dead.Store(true)
	}
	return len(d.conns)
}

func (d *dialler) dialled() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// A dead HTTP/2 connection is used for minutes, since it takes any number of requests: longer than a lease lasts.
func TestCaseF2DeadConnectionIsReplacedBeforeTheDeadline(t *testing.T) {
	store := electortest.NewStore()
	var older atomic.Bool
	handler := leaseserver.New(store)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			older.Store(true)
		}
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections() // the dead ones never end by themselves
		server.Close()
	})

	network := &dialler{}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	e := contend(t, &rest.Config{Host: server.URL, Dial: network.DialContext, TLSClientConfig: rest.TLSClientConfig{CAData: ca}},
		func(c *elector.Config) {
			c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 4*time.Second, 3*time.Second, 500*time.Millisecond
		}, func(string) {})
	becomes(t, e, "it leads", 10*time.Second, leads)
	before := e.Status()
	for range 2 { // the connection that replaces the first can die like it
		dialled := network.deaden()
		died := time.Now()
		for s := e.Status(); s.RenewTime.Before(died.Add(time.Second)); s = e.Status() {
			if !s.IsLeader || s.FencingToken != before.FencingToken {
				t.Fatalf("%s after its connection died it says %+v", time.Since(died), s)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if network.dialled() == dialled {
			t.Error("nothing was dialled, which proves nothing")
		}
	}
	if older.Load() {
		t.Error("not all requests came over HTTP/2, which proves nothing")
	}
}

// ---- F3: tokens ------------------------------------------------------------------------------------------------------

// guarded is an API server in virtual time that accepts some tokens.
type guarded struct {
	tokens  atomic.Value
	dialled chan net.Conn
	closed  chan struct{}
}

func (g *guarded) Accept() (net.Conn, error) {
	select {
	case conn := <-g.dialled:
		return conn, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *guarded) accept(tokens ...string) { g.tokens.Store(tokens) }

func (g *guarded) Close() error   { close(g.closed); return nil }
func (g *guarded) Addr() net.Addr { return &net.TCPAddr{} }

func (g *guarded) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case g.dialled <- server:
		return client, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`

func guard(t *testing.T) *guarded {
	g := &guarded{dialled: make(chan net.Conn), closed: make(chan struct{})}
	handler := leaseserver.New(electortest.NewStore())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); !slices.Contains(g.tokens.Load().([]string), token) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(unauthorized))
			return
		}
		handler.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(g) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return g
}

// bubbleClock is the time of the bubble.
type bubbleClock struct{ start time.Time }

func (c bubbleClock) Now() elector.Instant {
	return elector.Instant{Boot: time.Since(c.start), Wall: time.Now().Round(0)}
}

// A token that is read once ends all: after its rotation each request is answered with 401. And the file itself can be
// out of date for hours: that is no leadership, and the log says why.
func TestCaseF3TokenIsRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reread = time.Minute // client-go keeps a token for so long
		api := guard(t)
		file := filepath.Join(t.TempDir(), "token")
		rotate := func(token string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		rotate("first")
		api.accept("first")
		var mu sync.Mutex
		var lines []string
		refusals := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, line := range lines {
				if strings.Contains(line, "Unauthorized") {
					n++
				}
			}
			return n
		}
		e := contend(t, &rest.Config{Host: "http://api", BearerTokenFile: file, Dial: api.dial},
			func(c *elector.Config) { c.Clock = bubbleClock{time.Now()} },
			func(line string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			})
		becomes(t, e, "it leads", time.Second, leads)

		time.Sleep(2 * reread)
		rotate("second") // as the kubelet does, with the first good for a while
		api.accept("first", "second")
		time.Sleep(reread)
		api.accept("second")
		time.Sleep(2 * reread)
		if s := e.Status(); !s.IsLeader || refusals() > 0 {
			t.Fatalf("a rotation in good time: status %+v, %d refusals", s, refusals())
		}

		rotate("third") // and the second is revoked at once
		api.accept("third")
		time.Sleep(reread + 2*time.Second)
		synctest.Wait()
		if s := e.Status(); !s.IsLeader {
			t.Errorf("a revocation: a minute later the status is %+v", s)
		}

		said := refusals()
		api.accept("fourth") // and the file stays as it is
		took := becomes(t, e, "it does not lead", time.Minute, func(s elector.Status) bool { return !s.IsLeader })
		if took > 10*time.Second {
			t.Errorf("it leads for %s without a renewal", took)
		}
		for range 20 {
			time.Sleep(time.Minute)
			if e.Status().IsLeader {
				t.Fatal("it leads")
			}
		}
		if n := refusals() - said; n == 0 || n > 3 { // of a renewal, an acquisition and the observer
			t.Errorf("the log has %d lines about it: %q", n, lines)
		}
		rotate("fourth")
		becomes(t, e, "it leads again", reread+2*time.Second, leads)
	})
}
