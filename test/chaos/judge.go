// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// life is one process of a candidate, from its start to its end.
type life struct {
	seat   int
	pod    string // name and UID: a restart in the same pod is another life of it
	number int    // counts the lives of a seat
	theirs bool   // client-go's
	began  time.Duration
	stops  *stops // of its pod: all lives of a pod share them
}

// stops are the instants at which a pod was told to stop. After one it may have been started again.
type stops struct {
	mu sync.Mutex
	at []time.Duration
}

func (s *stops) add(at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, at)
}

// next is the first of them from an instant on.
func (s *stops) next(from time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.at, func(at time.Duration) bool { return at >= from })
	if i < 0 {
		return 0, false
	}
	return s.at[i], true
}

func (l *life) String() string { return fmt.Sprintf("%s (life %d)", l.pod, l.number) }

// answer is one of those that said "isLeader": at some instant between sent and received that was so. All times are
// since the campaign began.
type answer struct {
	who            *life
	token          uint64
	sent, received time.Duration
	valid          time.Duration // how long that can stay true with no further renewal
}

func (a answer) String() string {
	return fmt.Sprintf("%s with token %d, asked at %s, answered at %s, valid for %s", a.who, a.token, stamp(a.sent), stamp(a.received), a.valid)
}

// promised is until when an app may count on the answer. A pod that is told to stop hands over earlier, also where the
// answer was that of a former life of its sidecar: the next one has resumed the lease.
func (a answer) promised() time.Duration {
	until := a.sent + a.valid
	if stop, ok := a.who.stops.next(a.who.began); ok {
		until = min(until, stop)
	}
	return until
}

// tampering is a change of the Lease by somebody who is no candidate, as far as it can end a leadership.
type tampering struct {
	what              kind
	invoked, answered time.Duration // it happened in between
}

// history is what happened, as far as it is judged.
type history struct {
	mu         sync.Mutex
	answers    []answer
	writes     []write
	tamperings []tampering
	asked      int // requests to candidates
	unanswered int
}

func (h *history) clone() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &history{answers: slices.Clone(h.answers), writes: slices.Clone(h.writes), tamperings: slices.Clone(h.tamperings),
		asked: h.asked, unanswered: h.unanswered}
}

// leadership is one term of one process, as far as it was seen: in between of two answers with one token the process led
// all the time.
type leadership struct {
	who         *life
	token       uint64
	first, last answer
	answers     []answer
}

// leaderships are in the order in which they were first seen.
func leaderships(answers []answer) []*leadership {
	type key struct {
		who   *life
		token uint64
	}
	all := map[key]*leadership{}
	for _, a := range slices.SortedStableFunc(slices.Values(answers), byReceived) {
		l := all[key{a.who, a.token}]
		if l == nil {
			l = &leadership{who: a.who, token: a.token, first: a}
			all[key{a.who, a.token}] = l
		}
		l.last = a
		l.answers = append(l.answers, a)
	}
	var sorted []*leadership
	for _, l := range all {
		sorted = append(sorted, l)
	}
	slices.SortFunc(sorted, func(a, b *leadership) int {
		return cmp.Or(byReceived(a.first, b.first), cmp.Compare(a.token, b.token))
	})
	return sorted
}

func byReceived(a, b answer) int { return cmp.Compare(a.received, b.received) }

// violation is something that must not be.
type violation struct {
	at   time.Duration
	what string
}

// overlap is a claim to lead after another process with a larger token was known to.
type overlap struct {
	late   answer // the worst of the leadership that should have been over
	rival  answer // the first that shows that it was
	length time.Duration
}

func (o overlap) String() string {
	return fmt.Sprintf("%s, although there had been %s: for %s", o.late, o.rival, o.length.Round(time.Millisecond))
}

// verdict is what the judge found.
type verdict struct {
	violations []violation
	// overlaps of what was said, and brokenPromises of how long it would stay so: those among the violations, and those
	// that are excused by a tampering.
	overlaps, excused               []overlap
	brokenPromises, excusedPromises []overlap
	leaderships                     []*leadership
}

// judge finds what must not be in a history of answers:
//
//   - one token in two processes,
//   - overlaps: a process that was asked after another one's answer with a larger token had come, and said that it leads,
//   - broken promises: another pod that leads with a larger token before the time is over for which a process said that
//     it will lead.
//
// A tampering after the last renewal of the old leader, and before the new one was first seen, excuses the last two: until
// its watch shows it, or where that is cut off until its deadline, the old leader cannot know.
func judge(h *history) *verdict {
	v := &verdict{leaderships: leaderships(h.answers)}
	for i, old := range v.leaderships {
		var rival, stranger *answer // the first with a larger token, of any life, and of another pod
		for j, other := range v.leaderships {
			switch {
			case i < j && other.token == old.token:
				v.violate(other.first.received, "one token in two processes: %s; and %s", old.first, other.first)
			case other.token > old.token:
				if rival == nil {
					rival = &other.first
				}
				if stranger == nil && other.who.pod != old.who.pod {
					stranger = &other.first
				}
			}
		}
		v.judge(h, old, rival, answer.asked, &v.overlaps, &v.excused, "two leaders at once")
		if old.who.theirs {
			continue // client-go makes no promise, and takes the name alone for its own
		}
		v.judge(h, old, stranger, answer.promised, &v.brokenPromises, &v.excusedPromises, "another leads before validForMs is over")
	}
	slices.SortFunc(v.violations, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	return v
}

func (a answer) asked() time.Duration { return a.sent }

// judge compares one leadership with the first sign of a later one.
func (v *verdict) judge(h *history, old *leadership, rival *answer, until func(answer) time.Duration, unexcused, excused *[]overlap, what string) {
	if rival == nil {
		return
	}
	var worst, worstExcused overlap
	for _, a := range old.answers {
		o := overlap{late: a, rival: *rival, length: until(a) - rival.received}
		switch {
		case o.length <= 0:
		case !h.excuses(o):
			worst = longer(worst, o)
		default:
			worstExcused = longer(worstExcused, o)
		}
	}
	if worstExcused.length > 0 {
		*excused = append(*excused, worstExcused)
	}
	if worst.length > 0 {
		*unexcused = append(*unexcused, worst)
		v.violate(max(worst.late.sent, rival.received), "%s: %s", what, worst)
	}
}

func longer(a, b overlap) overlap {
	if b.length > a.length {
		return b
	}
	return a
}

func (v *verdict) violate(at time.Duration, format string, args ...any) {
	v.violations = append(v.violations, violation{at, fmt.Sprintf(format, args...)})
}

// renewed is when the renewal that an answer rests on was sent, or up to slack before that.
func (a answer) renewed() time.Duration { return a.sent + a.valid - renewDeadline - slack }

// slack is for validForMs, which is in whole milliseconds.
const slack = 5 * time.Millisecond

// excuses tells whether somebody tampered with the Lease after the old leader's last renewal, and before the first sign of
// the new one.
func (h *history) excuses(o overlap) bool {
	return slices.ContainsFunc(h.tamperings, func(t tampering) bool {
		return t.answered >= o.late.renewed() && t.invoked <= o.rival.received
	})
}
