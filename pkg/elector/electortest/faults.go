// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"context"
	"net"
	"os"
	"syscall"
)

// Interceptor stands between a client and the store for one call. The verb is "get", "list", "watch", "create",
// "update", "patch" or "delete"; call commits the request and returns the store's error. What the Interceptor returns is
// what the client's caller sees:
//
//   - an error without call: the request never arrived;
//   - a wait before call: a slow request; a wait after it: a slow reply;
//   - an error after call: committed, but the reply was lost;
//   - an error now, and call later from another goroutine: the caller gave up on a request that still arrives.
//
// To return nil it must have made the call.
type Interceptor func(ctx context.Context, verb string, call func() error) error

// Intercept sends every call from now on through intercept; nil removes it. Calls under way are not affected.
func (c *Client) Intercept(intercept Interceptor) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.intercept = intercept
}

// Cut makes every call fail like a refused connection until Heal, and breaks the open watches.
func (c *Client) Cut() {
	c.store.mu.Lock()
	c.cut = true
	c.store.mu.Unlock()
	c.BreakWatches()
}

// Heal ends what Cut began. Broken watches stay broken.
func (c *Client) Heal() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.cut = false
}

// Deafen makes the watches that are open now silently dead: they stay open and deliver nothing, not even the
// end of their timeoutSeconds, until Hear. Watches that are opened later work.
func (c *Client) Deafen() {
	c.eachWatch(func(w *watcher) {
		w.deaf = true
		w.signal()
	})
}

// Hear ends what Deafen began; what was missed is delivered.
func (c *Client) Hear() {
	c.eachWatch(func(w *watcher) {
		w.deaf = false
		w.signal()
	})
}

// BreakWatches ends the open watches, as a lost connection does: events that were not yet received are lost.
func (c *Client) BreakWatches() {
	c.eachWatch((*watcher).Stop)
}

func (c *Client) eachWatch(visit func(*watcher)) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	for w := range c.store.watches {
		if w.client == c {
			visit(w)
		}
	}
}

func (c *Client) faults() (Interceptor, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.cut {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if c.intercept == nil {
		return passThrough, nil
	}
	return c.intercept, nil
}

func passThrough(_ context.Context, _ string, call func() error) error {
	return call()
}
