// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"time"
)

// Outcome is what became of a request.
type Outcome string

// The outcomes of requests through a Service that follows the leader.
const (
	OK          Outcome = "ok"          // a leader answered
	Refused     Outcome = "refused"     // no connection, at once
	Unavailable Outcome = "unavailable" // 503, at once: the pod does not lead
	TimedOut    Outcome = "timed out"
	Wrong       Outcome = "wrong" // anything else
)

// Answer is the body of an app's answer.
type Answer struct {
	Pod     string `json:"pod"`
	Token   int64  `json:"token"` // 0 where the pod does not lead
	Leading bool   `json:"leading"`
}

// Request is one request of a client, with times by SinceBoot.
type Request struct {
	Sent     time.Duration `json:"sent"`
	Answered time.Duration `json:"answered"` // or failed
	Outcome  Outcome       `json:"outcome"`
	Pod      string        `json:"pod,omitempty"` // who answered
	Token    int64         `json:"token,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// Requests is what a client has seen, in the order of sending.
type Requests []Request

// Count counts the requests by their outcome.
func (rs Requests) Count() map[Outcome]int {
	count := map[Outcome]int{}
	for _, r := range rs {
		count[r.Outcome]++
	}
	return count
}

// Violations is the answers of former leaders: those whose token is below one that had been answered before they were
// sent.
func (rs Requests) Violations() (found []string) {
	for _, late := range rs {
		if late.Outcome != OK {
			continue
		}
		for _, early := range rs {
			if early.Outcome == OK && early.Answered < late.Sent && early.Token > late.Token {
				found = append(found, fmt.Sprintf("%s answered with token %d a request of %s, after %s had answered with token %d at %s",
					late.Pod, late.Token, stamp(late.Sent), early.Pod, early.Token, stamp(early.Answered)))
				break
			}
		}
	}
	return found
}

// Silence is the longest time between two answers of leaders: from the arrival of one to that of the next.
func (rs Requests) Silence() time.Duration {
	var longest, last time.Duration
	for _, r := range rs {
		if r.Outcome != OK {
			continue
		}
		if last != 0 {
			longest = max(longest, r.Answered-last)
		}
		last = r.Answered
	}
	return longest
}
