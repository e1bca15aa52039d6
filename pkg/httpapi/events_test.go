// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// pipeListener hands out the server's ends of in-memory connections.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func (l *pipeListener) dial(t *testing.T, request string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	l.conns <- theirs
	if _, err := io.WriteString(ours, request); err != nil {
		t.Fatal(err)
	}
	return ours
}

func TestEventsTellAtOnceOnEachRevisionAndBeatMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := newScripted(following)
		election.changed = make(chan struct{})
		listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		server := httpapi.NewServer(httpapi.New(election, httpapi.Config{PodName: "web-0", Lease: "shop/web", MaxWaiters: 2}))
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(listener) }()
		defer func() { _ = server.Close(); <-served }()

		mute := listener.dial(t, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n") // reads nothing, ever
		defer mute.Close()
		conn := listener.dial(t, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
		defer conn.Close()
		lines := make(chan string)
		go func() {
			defer close(lines)
			for scan := bufio.NewScanner(conn); scan.Scan(); {
				if line := scan.Text(); line != "" && !isChunkSize(line) {
					lines <- line
				}
			}
		}()
		begun := time.Now()
		expect := func(after time.Duration, prefixes ...string) {
			t.Helper()
			for _, prefix := range prefixes {
				if line := <-lines; !strings.HasPrefix(line, prefix) {
					t.Fatalf("got %q, want %q…", line, prefix)
				}
			}
			if at := time.Since(begun); at != after {
				t.Fatalf("%v came after %s, want %s", prefixes, at, after)
			}
		}
		for line := range lines {
			if strings.HasPrefix(line, "X-Content") || strings.HasPrefix(line, "Transfer-Encoding") {
				break
			}
		}
		expect(0, "event: leader", "id: k3v9q-1", `data: {"name":"web-1","identity":"web-1_a81d22c4","isLeader":false,`)
		expect(15*time.Second, ": still here")
		expect(30*time.Second, ": still here")
		election.becomes(leading)
		expect(30*time.Second, "event: leader", "id: k3v9q-2", `data: {"name":"web-0","identity":"web-0_3f0c9f1e","isLeader":true,`)
		// The client that never read was given up after one write timeout, and made room.
		third := listener.dial(t, "HEAD /events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(third)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.Contains(string(answer), "text/event-stream") {
			t.Errorf("HEAD: %s, %v", answer, err)
		}
		election.becomes(stopped)
		expect(30*time.Second, "event: leader", "id: k3v9q-4", `data: {"name":""`)
		for range lines {
			t.Error("the stream goes on after the end")
		}
	})
}

func isChunkSize(line string) bool {
	return strings.Trim(line, "0123456789abcdef") == ""
}

// A hundred clients, of whom ten never read: the others are told of each change as if those were not there.
func TestEventsOfManyClients(t *testing.T) {
	const all, mute, rounds = 100, 10, 5
	p := newPod(t, electortest.NewStore(), all)
	told := make(chan string, all*rounds)
	for i := range all {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
		if i < mute {
			continue
		}
		go func() {
			for scan := bufio.NewScanner(conn); scan.Scan(); {
				if id, ok := strings.CutPrefix(scan.Text(), "id: "); ok {
					told <- id
				}
			}
		}()
	}
	hear := func(revision string) {
		t.Helper()
		heard := 0
		for patience := time.After(5 * time.Second); heard < all-mute; {
			select {
			case id := <-told:
				if id == revision {
					heard++
				}
			case <-patience:
				t.Fatalf("%d of %d were told of %s", heard, all-mute, revision)
			}
		}
	}
	hear(p.Status().Revision)
	p.api.Cut()
	if _, err := p.Elector.Wait(t.Context(), func(s elector.Status) bool { return s.State == elector.Following }); err != nil {
		t.Fatal(err)
	}
	p.api.Heal()
	led, err := p.Elector.Wait(t.Context(), func(s elector.Status) bool { return s.IsLeader })
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	hear(led.Revision)
	t.Logf("%d clients, of whom %d never read: the others were told within %s", all, mute, time.Since(begun))
}
