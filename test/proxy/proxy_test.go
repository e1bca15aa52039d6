// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// quiet is long enough for what is passed on to arrive.
const quiet = 100 * time.Millisecond

func TestPassesOnAndEnds(t *testing.T) {
	c := dial(t, Start(t, echo(t)))
	c.says("hello")
	c.hears("hello")
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end, the read gives %v", err)
	}
}

func TestCutAndHeal(t *testing.T) {
	p := Start(t, echo(t))
	c := dial(t, p)
	c.says("hello")
	c.hears("hello")
	p.Cut()
	if _, err := c.reader.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the open connection gives %v, not a reset", err)
	}
	if conn, err := net.Dial("tcp", p.Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection gives %v, %v; it should be refused", conn, err)
	}
	p.Heal()
	c = dial(t, p)
	c.says("again")
	c.hears("again")
}

func TestBlackHoleHoldsAllAndHealDelivers(t *testing.T) {
	p := Start(t, echo(t))
	before := dial(t, p)
	p.BlackHole()
	after := dial(t, p)
	before.says("one")
	after.says("two")
	before.hearsNothing()
	after.hearsNothing()
	p.Heal()
	before.hears("one")
	after.hears("two")
}

func TestDeadenSparesNewConnections(t *testing.T) {
	p := Start(t, echo(t))
	old := dial(t, p)
	old.says("hello")
	old.hears("hello")
	p.Deaden()
	old.says("anyone?")
	fresh := dial(t, p)
	fresh.says("hello")
	fresh.hears("hello")
	p.Heal()
	old.hearsNothing()
}

func TestHoldOneWay(t *testing.T) {
	said := make(chan string, 1)
	target := serve(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "welcome\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		said <- line
	})
	p := Start(t, target)
	p.HoldRequests()
	c := dial(t, p)
	c.says("hello")
	c.hears("welcome")
	select {
	case line := <-said:
		t.Errorf("the server heard %q although requests were held", line)
	case <-time.After(quiet):
	}
	p.HoldReplies()
	<-said
	c = dial(t, p)
	c.hearsNothing()
	p.Heal()
	c.hears("welcome")
}

func TestDelay(t *testing.T) {
	p := Start(t, echo(t))
	c := dial(t, p)
	p.Delay(quiet)
	start := time.Now()
	c.says("hello")
	c.hears("hello")
	if took := time.Since(start); took < 2*quiet {
		t.Errorf("there and back took %s, with a delay of %s each way", took, quiet)
	}
}

type client struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) says(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) hears(want string) {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, err := c.reader.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func (c *client) hearsNothing() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(quiet))
	if b, err := c.reader.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("heard %q, %v; want silence", b, err)
	}
}

func echo(t *testing.T) string {
	return serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}

func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return listener.Addr().String()
}
