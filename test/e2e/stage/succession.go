// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// Succession is what follows on the loss of a leader.
type Succession struct {
	Old, New journal.Reign
	Before   *Record // of the Lease, before the new term; nil where the term goes on
	Began    Record  // of the Lease, as the new term began
}

// Idle is the time in which no app was at work: from the arrival of the old leader's last write to that of the new one's
// first.
func (x Succession) Idle() time.Duration { return x.New.First.Arrived - x.Old.Last.Arrived }

// Vacant is the time from the last change of the Lease before the new term to the one that began it; 0 where the term goes on.
func (x Succession) Vacant() time.Duration {
	if x.Before == nil {
		return 0
	}
	return x.Began.Seen.Sub(x.Before.Seen)
}

// SamePod tells whether the old leader's pod leads again.
func (x Succession) SamePod() bool { return x.New.First.UID == x.Old.First.UID }

// SameTerm tells whether the pod has led on all the time, and only its app was away.
func (x Succession) SameTerm() bool { return x.New.First.Token == x.Old.First.Token }

// Released tells whether the Lease was free before the new term.
func (x Succession) Released() bool { return x.Before != nil && x.Before.Holder() == "" }

func (x Succession) String() string {
	switch {
	case x.SameTerm():
		return "the same pod, in the same term"
	case x.SamePod() && x.Before.Pod() == x.Began.Pod():
		return "the same pod, which takes its lease back"
	}
	who, how := "another pod", "on expiry"
	if x.SamePod() {
		who = "the same pod"
	}
	if x.Released() {
		how = "after a release"
	}
	return fmt.Sprintf("%s, %s", who, how)
}

// Lose waits until the stage is settled, lets something happen to the leader's pod, and waits for who is at work next. What
// has been written is judged.
func (s *Stage) Lose(act func(leader journal.Reign)) Succession {
	s.T.Helper()
	leader := s.Settle()
	from := len(s.Journal().Entries)
	act(leader)
	return s.Succession(leader, from)
}

// Succession waits for the first to be at work after a leader, among the entries from an index on.
func (s *Stage) Succession(old journal.Reign, from int) (x Succession) {
	s.T.Helper()
	s.AwaitFor(patience+s.Timings.Expiry(), fmt.Sprintf("somebody is at work after %s", old), func() bool {
		entries := s.Journal().Entries
		for _, e := range entries[from:] {
			if e.Stale || old.Same(e) {
				continue
			}
			for _, r := range journal.Reigns(entries) {
				switch {
				case r.Same(e):
					x.New = r
				case old.Same(r.First):
					x.Old = r
				}
			}
			return true
		}
		return false
	})
	if !x.SameTerm() {
		x.Before, x.Began = s.TermOf(x.New.First.Token)
	}
	s.Judge()
	return x
}

// DrainedFor is for how long the old leader worked on after its app was told to finish.
func (x Succession) DrainedFor() time.Duration {
	if !x.Old.Last.Draining {
		return 0
	}
	return x.Old.Last.Started - x.Old.Drains
}
