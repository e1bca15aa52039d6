// SPDX-License-Identifier: Apache-2.0

// Package proxy is a TCP proxy that can be told to misbehave as networks do. TLS passes through it untouched.
package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/port"
)

// Proxy passes connections on to a target.
type Proxy struct {
	// Address is where it listens.
	Address string

	t      testing.TB
	target string
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: connections are refused
	links    map[*link]struct{}
	holds    holds
	delay    time.Duration
	changed  chan struct{} // closed at the next change of the above
}

// holds says what is swallowed: what goes to the server, and what comes from it.
type holds struct{ requests, replies bool }

// link is one connection, and its other half.
type link struct {
	client, server net.Conn
	dead           bool // silent for ever
	closed         chan struct{}
	once           sync.Once
}

// Start starts a proxy that passes everything on. It ends with the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, Address: port.Free(t), links: map[*link]struct{}{}, changed: make(chan struct{})}
	p.listen()
	t.Cleanup(func() {
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut refuses new connections and resets those that are open.
func (p *Proxy) Cut() {
	p.change(func() {
		if p.listener != nil {
			_ = p.listener.Close()
			p.listener = nil
		}
		for l := range p.links {
			l.close()
		}
	})
}

// BlackHole passes nothing on any more, either way, and closes nothing. New connections are no better.
func (p *Proxy) BlackHole() { p.change(func() { p.holds = holds{requests: true, replies: true} }) }

// HoldRequests passes nothing to the server until Heal; what the server sends goes through.
func (p *Proxy) HoldRequests() { p.change(func() { p.holds = holds{requests: true} }) }

// HoldReplies passes nothing from the server until Heal; what is sent to it goes through.
func (p *Proxy) HoldReplies() { p.change(func() { p.holds = holds{replies: true} }) }

// Deaden makes the connections that are open silent for ever. New ones work.
func (p *Proxy) Deaden() {
	p.change(func() {
		for l := range p.links {
			l.dead = true
		}
	})
}

// Delay makes everything take so much longer, each way.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Heal passes everything on again, what was held first. Connections that were deadened stay dead.
func (p *Proxy) Heal() {
	p.t.Helper()
	p.change(func() { p.holds, p.delay = holds{}, 0 })
	p.mu.Lock()
	refusing := p.listener == nil
	p.mu.Unlock()
	if refusing {
		p.listen()
	}
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) listen() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.Address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(listener, client) })
		}
	})
}

func (p *Proxy) serve(listener net.Listener, client net.Conn) {
	l := &link{client: client, closed: make(chan struct{})}
	defer l.close()
	var err error
	if l.server, err = net.Dial("tcp", p.target); err != nil {
		return
	}
	p.mu.Lock()
	cut := p.listener != listener
	p.links[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if cut {
		return
	}
	var halves sync.WaitGroup
	halves.Go(func() { p.pass(l, l.server, l.client, func(h holds) bool { return h.requests }) })
	halves.Go(func() { p.pass(l, l.client, l.server, func(h holds) bool { return h.replies }) })
	halves.Wait()
}

// pass copies one half of a connection to its end, and the end too.
func (p *Proxy) pass(l *link, to, from net.Conn, held func(holds) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.admit(l, held) {
			return
		}
		if _, broken := to.Write(buffer[:n]); broken != nil {
			l.close()
			return
		}
		if errors.Is(err, io.EOF) {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			l.close()
			return
		}
	}
}

// admit waits until something may pass; false where the connection ended first.
func (p *Proxy) admit(l *link, held func(holds) bool) bool {
	for {
		p.mu.Lock()
		blocked, delay, changed := l.dead || held(p.holds), p.delay, p.changed
		p.mu.Unlock()
		var due <-chan time.Time
		if !blocked {
			if delay == 0 {
				return true
			}
			due = time.After(delay)
			changed = nil
		}
		select {
		case <-due:
			return true
		case <-changed:
		case <-l.closed:
			return false
		}
	}
}

// close resets both halves.
func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		for _, conn := range []net.Conn{l.client, l.server} {
			if tcp, ok := conn.(*net.TCPConn); ok && tcp != nil {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			}
		}
	})
}
