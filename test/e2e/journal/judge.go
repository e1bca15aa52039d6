// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"slices"
	"time"
)

// Reign is the work of one process of an app under one token.
type Reign struct {
	First, Last Entry
	Beats       int
	Drains      time.Duration // when the first beat of its drain was sent; 0: there was none
}

func (r Reign) String() string {
	return fmt.Sprintf("%s with token %d (process %d), %d beats from %s to %s",
		r.First.Pod, r.First.Token, r.First.Process, r.Beats, stamp(r.First.Started), stamp(r.Last.Arrived))
}

func stamp(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// Same tells whether an entry is of this reign.
func (r Reign) Same(e Entry) bool {
	return r.First.UID == e.UID && r.First.Process == e.Process && r.First.Token == e.Token
}

// Reigns is the reigns of those entries that were accepted, in the order in which they began.
func Reigns(entries []Entry) (reigns []Reign) {
	for _, e := range entries {
		if e.Stale {
			continue
		}
		i := slices.IndexFunc(reigns, func(r Reign) bool { return r.Same(e) })
		if i < 0 {
			reigns = append(reigns, Reign{First: e})
			i = len(reigns) - 1
		}
		reigns[i].Last = e
		reigns[i].Beats++
		if e.Draining && reigns[i].Drains == 0 {
			reigns[i].Drains = e.Started
		}
	}
	return reigns
}

// Violations is what must never be: two at work at once, and writes of the past.
func (j Journal) Violations() (found []string) {
	var newest *Entry
	for i, e := range j.Entries {
		switch {
		case e.Stale:
			found = append(found, fmt.Sprintf("%s wrote with token %d at %s: a later leader had written", e.Pod, e.Token, stamp(e.Arrived)))
		case newest != nil && e.Token < newest.Token:
			found = append(found, fmt.Sprintf("a stale write was accepted: token %d of %s after token %d of %s", e.Token, e.Pod, newest.Token, newest.Pod))
		case newest != nil && e.Token == newest.Token && e.UID != newest.UID:
			found = append(found, fmt.Sprintf("%s and %s share token %d", newest.Pod, e.Pod, e.Token))
		default:
			newest = &j.Entries[i]
		}
	}
	reigns := Reigns(j.Entries)
	for i, a := range reigns {
		for _, b := range reigns[i+1:] {
			if overlap(a, b, j.Boot) {
				found = append(found, fmt.Sprintf("two at work at once: %s, and %s", a, b))
			}
		}
	}
	return found
}

// overlap tells whether the later of two reigns began before the earlier was over. A reign lasts from the sending of its
// first beat to the arrival of its last, by the clock of the nodes where that is one, else by the recorder's alone.
func overlap(a, b Reign, boot string) bool {
	return began(a, boot) <= b.Last.Arrived && began(b, boot) <= a.Last.Arrived
}

func began(r Reign, boot string) time.Duration {
	if boot != "" && r.First.Boot == boot {
		return r.First.Started
	}
	return r.First.Arrived
}
