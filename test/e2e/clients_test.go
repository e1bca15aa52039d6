// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// soon is the part of a client's timeout within which a request has failed while there is a leader to be reached, or within the
// time that its slowest answer took, where the machine is that busy. While the Service leads to nobody, the kernel of the client's
// node refuses the first requests at once and the others at one a second, and what it drops times out.
const soon = stage.ClientTimeout / 2

// beat is the time from one write of an app to the next: the default of APP_BEAT.
const beat = 20 * time.Millisecond

// judge holds what a client has seen to the promise: an answer is the leader's, and while there is a leader to be reached a request
// that fails does so soon.
func judge(s *stage.Stage, name string, client *stage.Client) journal.Requests {
	s.T.Helper()
	requests, entries := client.Requests(), s.Journal().Entries
	s.T.Logf("by %s: %v, longest without an answer %s", name, requests.Count(), seconds(requests.Silence()))
	found := slices.Concat(requests.Violations(), requests.Late(entries))
	for _, r := range requests {
		if r.Outcome == journal.Wrong {
			found = append(found, r.Error)
		}
	}
	limit := max(soon, requests.Slowest())
	for _, r := range requests.Needless() {
		// A leader that has hardly written meanwhile could not answer either: the machine is busy.
		if took := r.Answered - r.Sent; took > limit && r.During(entries) > int(took/beat)/2 {
			found = append(found, fmt.Sprintf("%s after %s, while there was a leader: %s", r.Outcome, took, r.Error))
		}
	}
	if len(found) > 0 {
		s.T.Errorf("by %s %d requests went wrong, the first of them: %q", name, len(found), found[:min(len(found), 5)])
	}
	return requests
}

// reached is the time from a leader's first write to its first answer to a client. It is held to a lease duration.
func reached(s *stage.Stage, requests journal.Requests, leader journal.Reign) time.Duration {
	s.T.Helper()
	first, ok := requests.First(leader.First.Token)
	if !ok {
		s.T.Logf("no request has reached %s: it has lost the lease before", leader)
		return 0
	}
	after := first.Answered - leader.First.Arrived
	if after > s.Timings.Lease {
		s.T.Errorf("the first request that reached %s was answered %s after its first write, want at most a lease duration", leader, after)
	}
	return after
}

// follows holds the EndpointSlice of a Service that follows the leader to its rules, and tells the longest time from the
// beginning of a term to the EndpointSlice that shows it. The order of writes is that of their resourceVersions.
func follows(s *stage.Stage, path *stage.Path) (longest time.Duration) {
	s.T.Helper()
	records, history := s.Records(), path.History()
	for _, shown := range history {
		if len(shown.List) == 0 {
			continue
		}
		began := slices.IndexFunc(records, func(r stage.Record) bool { return r.Version() == shown.Token })
		if began < 0 || len(shown.List) > 1 || records[began].Pod() != shown.List[0].Pod {
			s.T.Errorf("the EndpointSlice shows %s, which is not the leader of that term", shown)
			continue
		}
		for _, r := range records[began:] {
			if r.Version() < shown.Version && r.Holder() != records[began].Holder() {
				s.T.Errorf("the EndpointSlice shows %s after the Lease was %s", shown, r)
			}
		}
	}
	for i, r := range records {
		if r.Holder() == "" || i > 0 && r.Holder() == records[i-1].Holder() {
			continue
		}
		shows := slices.IndexFunc(history, func(e stage.Endpoints) bool { return e.Token == r.Version() && len(e.List) > 0 })
		if shows < 0 {
			continue
		}
		longest = max(longest, history[shows].Seen.Sub(r.Seen))
		released := slices.IndexFunc(records[i:], func(later stage.Record) bool { return later.Holder() == "" })
		if released < 0 {
			continue
		}
		emptied := slices.IndexFunc(history, func(e stage.Endpoints) bool { return e.Token == r.Version() && len(e.List) == 0 })
		if emptied < 0 || history[emptied].Version > records[i+released].Version() {
			s.T.Errorf("the Lease was released (%s) before the Service was emptied of %s", records[i+released], r.Pod())
		}
	}
	if longest > s.Timings.Lease/2 {
		s.T.Errorf("the EndpointSlice has shown a new leader only after %s", longest)
	}
	return longest
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
