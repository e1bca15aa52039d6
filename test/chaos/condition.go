// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sort"
	"sync"
	"time"
)

// condition is whether something is so, over time. It begins as not so. All times are since the campaign began.
type condition struct {
	mu      sync.Mutex
	changes []change
}

type change struct {
	at time.Duration
	is bool
}

func (c *condition) set(at time.Duration, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.changes); n == 0 && !is || n > 0 && c.changes[n-1].is == is {
		return
	}
	c.changes = append(c.changes, change{at, is})
}

// at tells whether it was so, and since when it had been as it was.
func (c *condition) at(when time.Duration) (is bool, since time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := sort.Search(len(c.changes), func(i int) bool { return c.changes[i].at > when })
	if i == 0 {
		return false, 0
	}
	return c.changes[i-1].is, c.changes[i-1].at
}

// throughout tells whether it was so all the time.
func (c *condition) throughout(from, to time.Duration) bool {
	is, since := c.at(to)
	return is && since <= from
}

func (c *condition) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := make([]time.Duration, len(c.changes))
	for i, change := range c.changes {
		times[i] = change.at
	}
	return times
}
