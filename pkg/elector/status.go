// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what is known of the election at one instant.
type Status struct {
	State State
	// IsLeader is whether this process leads, and ValidFor how long that can stay true with no further renewal (else 0).
	IsLeader bool
	ValidFor time.Duration
	// Leader is the identity that is known to lead, "" when none is: while the lease is free or expired, and while it
	// names this process but this process does not lead.
	Leader string
	// Address is where Leader can be reached, zero where it has not said so or there is none.
	Address netip.Addr
	// Term is leaseTransitions of the Lease as last seen.
	Term int32
	// FencingToken is the resourceVersion of the write that began this process's term; 0 when it does not lead.
	FencingToken uint64
	// AcquireTime and RenewTime are as on the Lease; zero when absent.
	AcquireTime, RenewTime time.Time
	// Revision changes with every change of Leader, Term, IsLeader or State. It is opaque.
	Revision string
	// RenewalAge is the time since the renewal of the lease that counts: since it was sent where this process holds the
	// lease, since it was seen where another does. 0 where nobody holds it, as far as is known.
	RenewalAge time.Duration
	// Transitions counts the leaders that became known after the first; a leader counts again with another term.
	Transitions int
	// LeaderlessFor is for how long Leader has been "" now, and LeaderlessTotal for how long since New in all: what is read
	// during a step of the election can be an instant more than what is read after it.
	LeaderlessFor, LeaderlessTotal time.Duration
	// Reason is why this process steps down or does not contend, where that is the app's health or a resignation; else "".
	// A change of it alone is no change of Revision.
	Reason string
	// Unhealthy is whether the app was last told to be (SetHealth).
	Unhealthy bool
	// Known is whether the Lease has been read from the API server.
	Known bool
	// Stopping is whether the election has been told to end: this process will not lead again.
	Stopping bool
}

// snapshot is the machine's state as published. What depends on the time is worked out when it is read.
type snapshot struct {
	state       State
	known       bool
	stopping    bool
	holder      string     // of the Lease, "" where it is this process
	address     netip.Addr // of the holder, or of this process while it leads
	term        int32
	token       uint64
	acquired    time.Time
	renewed     time.Time
	leadsSince  Instant       // while leading: when the renewal that counts was sent
	holderUntil Instant       // while another holds the lease: when it expires
	deadline    time.Duration // how long a renewal counts
	held        bool          // the lease is held by somebody
	heldSince   Instant       // when it was last renewed
	illness     string        // of the app
	leaving     string        // why this process steps down, or contends again only at outUntil
	outUntil    Instant
	beat        Instant // when the loop last ran
	failure     error   // why it ended, if not in good order

	history
	revision string
	changed  chan struct{} // closed when there is another revision
}

// history is what comes of all snapshots, up to the beat of the one that has it.
type history struct {
	leader      string // the last that was known, and its term
	leaderTerm  int32
	transitions int
	spell       time.Duration // for how long no leader has been known, and in all
	total       time.Duration
}

func (m *machine) snapshot(now Instant) snapshot {
	s := snapshot{state: m.state, known: m.known, stopping: m.stopping || m.state == Stopped, beat: now,
		deadline: m.renewDeadline}
	s.illness, s.leaving, s.outUntil = m.illness(), m.leaving, m.outUntil
	if m.state == Leading {
		s.token, s.leadsSince, s.address = m.token, m.renewedAt, m.address
	}
	if r := m.seen; r != nil {
		s.held, s.heldSince = r.holder != "", m.seenAt
		if m.ours && m.renewedAt != (Instant{}) {
			s.heldSince = m.renewedAt
		}
		s.term, s.acquired, s.renewed = r.transitions, r.acquired, r.renewed
		if r.holder != "" && r.holder != m.identity && m.expiresIn(now) > 0 {
			s.holder, s.holderUntil, s.address = r.holder, now.Add(m.expiresIn(now)), r.address
		}
	}
	return s
}

// sameNews tells whether a reader of s has nothing to learn from next: renewals are no news.
func (s *snapshot) sameNews(next *snapshot) bool {
	return s.state == next.state && s.known == next.known && s.stopping == next.stopping &&
		s.holder == next.holder && s.term == next.term && s.token == next.token
}

// left is how long the snapshot holds: until the leader that it knows, ourselves or another, may be none any more.
// The second result is false where it holds for ever.
func (s *snapshot) left(now Instant) (time.Duration, bool) {
	switch {
	case s.state == Leading:
		return s.deadline - now.worstSince(s.leadsSince), true
	case s.holder != "":
		return s.holderUntil.Boot - now.Boot, true
	}
	return 0, false
}

// leaderless is for how long no leader has been known: in the spell that goes on, and in all.
func (s *snapshot) leaderless(now Instant) (spell, total time.Duration) {
	span := now.Boot - s.beat.Boot
	left, ends := s.left(now)
	if !ends {
		return s.spell + span, s.total + span
	}
	spell = min(max(0, -left), span)
	return spell, s.total + spell
}

// goOn carries the history of the snapshot before into s.
func (s *snapshot) goOn(before *snapshot, now Instant, identity string) {
	s.history = before.history
	s.spell, s.total = before.leaderless(now)
	leader := s.holder
	if s.state == Leading {
		leader = identity
	}
	if leader == "" || leader == s.leader && s.term == s.leaderTerm {
		return
	}
	if s.leader != "" {
		s.transitions++
	}
	s.leader, s.leaderTerm = leader, s.term
}

// at is the status at an instant, which may be later than the loop has got to (rules S3 and S6); over is what over says,
// or what is known better.
func (s *snapshot) at(now Instant, identity string, over bool) Status {
	status := Status{State: s.state, Leader: s.holder, Address: s.address, Term: s.term, AcquireTime: s.acquired, RenewTime: s.renewed,
		Revision: s.revision, Known: s.known, Stopping: s.stopping, Transitions: s.transitions,
		Unhealthy: s.illness != ""}
	status.LeaderlessFor, status.LeaderlessTotal = s.leaderless(now)
	if s.held {
		status.RenewalAge = now.Boot - s.heldSince.Boot
	}
	switch {
	case s.state == Stopped:
	case s.illness != "":
		status.Reason = s.illness
	case s.state == HandingOver || now.Boot < s.outUntil.Boot:
		status.Reason = s.leaving
	}
	switch left, _ := s.left(now); {
	case over:
		status.Leader, status.Address = "", netip.Addr{}
		status.Revision += "x"
		if s.state == Leading {
			status.State = Following
		}
	case s.state == Leading:
		status.IsLeader, status.ValidFor, status.FencingToken, status.Leader = true, left, s.token, identity
	}
	return status
}

// board is where the loop publishes snapshots and readers find them.
type board struct {
	clock    Clock
	identity string
	epoch    string

	mu      sync.RWMutex
	current snapshot
	number  int
	lapse   *time.Timer // wakes those who wait when the current snapshot ends, whatever the loop is doing

	// ended: leadership was seen to have ended since the last renewal. A time of day that jumps ahead and back again does
	// not bring it back.
	ended atomic.Bool
}

func newBoard(clock Clock, identity string, deadline time.Duration) *board {
	random := make([]byte, 5)
	_, _ = rand.Read(random) // it never fails
	b := &board{clock: clock, identity: identity,
		epoch: strings.ToLower(base32.StdEncoding.EncodeToString(random))[:5]}
	b.current = snapshot{deadline: deadline, beat: clock.Now(), revision: b.epoch + "-0", changed: make(chan struct{})}
	return b
}

// publish makes s the current snapshot, and wakes those who wait if it is news. It returns for how long no leader has
// been known until now.
func (b *board) publish(now Instant, s snapshot) (leaderless time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.goOn(&b.current, now, b.identity)
	if b.current.over(now) || !b.current.sameNews(&s) {
		b.number++
		s.revision = b.epoch + "-" + strconv.Itoa(b.number)
		s.changed = make(chan struct{})
		defer close(b.current.changed)
	} else {
		s.revision, s.changed = b.current.revision, b.current.changed
	}
	if s.leadsSince != b.current.leadsSince {
		b.ended.Store(false)
	}
	b.current = s
	b.watchLapse(now)
	return s.spell
}

// end publishes the end of the loop: nothing is led from here on, whatever the machine thought (rule S6).
func (b *board) end(failure error) {
	b.mu.RLock()
	s := b.current
	b.mu.RUnlock()
	s.state, s.token, s.stopping, s.failure = Stopped, 0, true, failure
	b.publish(s.beat, s)
}

// over tells whether the leader that the snapshot knows may be none any more.
func (s *snapshot) over(now Instant) bool {
	left, ends := s.left(now)
	return ends && left <= 0
}

// watchLapse sets the timer for the end of the current snapshot. Called with the lock held.
func (b *board) watchLapse(now Instant) {
	left, ends := b.current.left(now)
	switch {
	case !ends:
		if b.lapse != nil {
			b.lapse.Stop()
		}
	case b.lapse == nil:
		b.lapse = time.AfterFunc(left, b.checkLapse)
	default:
		b.lapse.Reset(left)
	}
}

// checkLapse runs when the current snapshot should have ended.
func (b *board) checkLapse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left, ends := b.current.left(b.clock.Now()); ends && left > 0 {
		b.lapse.Reset(left)
		return
	}
	close(b.current.changed)
	b.current.changed = make(chan struct{})
}

// read returns the status now, and a channel that is closed when it may be another.
func (b *board) read() (Status, <-chan struct{}) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	now := b.clock.Now()
	over := b.current.over(now) || b.current.state == Leading && b.ended.Load()
	if over && b.current.state == Leading {
		b.ended.Store(true)
	}
	return b.current.at(now, b.identity, over), b.current.changed
}

// wait returns the status once enough says so. Where ctx ends first it returns the status of then and ctx's error.
func (b *board) wait(ctx context.Context, enough func(Status) bool) (Status, error) {
	for {
		status, changed := b.read()
		if enough(status) {
			return status, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			status, _ = b.read()
			return status, context.Cause(ctx)
		}
	}
}

// health says what is wrong with the loop (rule S6).
func (b *board) health() error {
	b.mu.RLock()
	s := b.current
	b.mu.RUnlock()
	now := b.clock.Now()
	switch {
	case s.state == Stopped && s.failure != nil:
		return fmt.Errorf("the election has ended: %w", s.failure)
	case s.state == Stopped:
		return nil
	case s.state == Leading && s.over(now):
		return errors.New("the leader outlived its renew deadline")
	case now.Boot-s.beat.Boot > s.deadline:
		return fmt.Errorf("the election loop has not run for %s", (now.Boot - s.beat.Boot).Round(time.Millisecond))
	}
	return nil
}
