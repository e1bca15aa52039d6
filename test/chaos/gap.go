// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// sighting is what the Lease was found to be at some time.
type sighting struct {
	at   time.Duration
	held bool          // by somebody, also by one who is dead
	good time.Duration // how long that counts without a change
}

// gap is a time in which nobody was seen to lead.
type gap struct{ from, to time.Duration }

func (g gap) length() time.Duration { return g.to - g.from }

// gaps are all times in which nobody was seen to lead, until the end of the campaign.
func gaps(all []*leadership, end time.Duration) []gap {
	var found []gap
	led := time.Duration(0)
	for _, l := range all { // in the order of their beginnings
		if l.first.received > led {
			found = append(found, gap{led, l.first.received})
		}
		led = max(led, l.last.sent)
	}
	if end > led {
		found = append(found, gap{led, end})
	}
	return found
}

// scene is what a gap is judged by.
type scene struct {
	healthy   *condition   // the API server answers
	able      []*condition // each sidecar runs, is not frozen, and reaches the API server
	sightings []sighting   // of the Lease, in order
}

// longest finds the longest stretches without a leader: one in which the API server was healthy and some sidecar able all
// the time, and the part of one that was left after the last record had expired for a sidecar that was able.
func (s *scene) longest(gaps []gap) (raw, overdue gap) {
	times := s.healthy.times()
	for _, c := range s.able {
		times = append(times, c.times()...)
	}
	for _, sighting := range s.sightings {
		times = append(times, sighting.at)
	}
	slices.Sort(times)
	for _, g := range gaps {
		first, _ := slices.BinarySearch(times, g.from)
		begin, fine := g.from, false // of the stretch
		for at, i := g.from, first; at < g.to; i++ {
			next := g.to
			if i < len(times) {
				next = min(next, times[i])
			}
			if due, ok := s.due(at); !ok {
				fine = false
			} else {
				if !fine {
					begin, fine = at, true
				}
				if stretch := (gap{begin, next}); stretch.length() > raw.length() {
					raw = stretch
				}
				if late := (gap{max(due, g.from), next}); late.length() > overdue.length() {
					overdue = late
				}
			}
			at = next
		}
	}
	return raw, overdue
}

// due is when the first of the sidecars that are able at an instant may take the lease, going by what is known of it
// then; false where none is.
func (s *scene) due(now time.Duration) (time.Duration, bool) {
	healthy, since := s.healthy.at(now)
	if !healthy {
		return 0, false
	}
	i, found := slices.BinarySearchFunc(s.sightings, now, func(s sighting, now time.Duration) int { return int(s.at - now) })
	if !found {
		i--
	}
	wait := time.Duration(0)
	if i >= 0 {
		since = max(since, s.sightings[i].at)
		if s.sightings[i].held {
			wait = s.sightings[i].good
		}
	}
	due, some := time.Duration(0), false
	for _, c := range s.able {
		if able, able0 := c.at(now); able {
			if at := max(since, able0) + wait; !some || at < due {
				due, some = at, true
			}
		}
	}
	return due, some
}
