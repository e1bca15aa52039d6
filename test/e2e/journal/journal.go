// SPDX-License-Identifier: Apache-2.0

// Package journal is what the apps of an end-to-end case write while they lead, how it is kept, and how it is judged.
package journal

import (
	"sync"
	"time"
)

// Beat is one write of an app at work.
type Beat struct {
	Pod      string        `json:"pod"`
	UID      string        `json:"uid"`     // of the pod
	Process  int64         `json:"process"` // the app's: when it began, in nanoseconds since boot
	Token    int64         `json:"token"`   // the fencing token
	Seq      int           `json:"seq"`     // counts the beats of a process, from 1
	Started  time.Duration `json:"started"` // when it was sent, by SinceBoot
	Wall     time.Time     `json:"wall"`    // the same by the time of day
	Boot     string        `json:"boot"`    // of the node
	Draining bool          `json:"draining,omitempty"`
}

// Entry is a beat as it was received.
type Entry struct {
	Beat
	Arrived     time.Duration `json:"arrived"` // by SinceBoot of the recorder's node
	ArrivedWall time.Time     `json:"arrivedWall"`
	Stale       bool          `json:"stale,omitempty"` // refused: its token is of the past
}

// Journal is the entries of one case in the order of their arrival.
type Journal struct {
	Recorder string  `json:"recorder"` // another one means that entries were lost
	Boot     string  `json:"boot"`     // of the recorder's node
	Entries  []Entry `json:"entries"`
}

// Keeper keeps a journal, as storage that remembers the largest token.
type Keeper struct {
	mu      sync.Mutex
	entries []Entry
	largest int64
}

// Add enters a beat, and tells whether it was accepted.
func (k *Keeper) Add(b Beat) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := Entry{Beat: b, Arrived: SinceBoot(), ArrivedWall: time.Now(), Stale: b.Token < k.largest}
	k.largest = max(k.largest, b.Token)
	k.entries = append(k.entries, e)
	return !e.Stale
}

// From is the entries from the given index on.
func (k *Keeper) From(index int) []Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Entry{}, k.entries[min(max(index, 0), len(k.entries)):]...)
}

// Status is what an app says of itself, by the time of day of its node.
type Status struct {
	Process int64     `json:"process"`
	Started time.Time `json:"started"`
	Serving time.Time `json:"serving"` // since when it is healthy
}
