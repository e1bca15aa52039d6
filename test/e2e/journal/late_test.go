// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"
	"time"
)

func TestLate(t *testing.T) {
	refused := entry("a", 5, 31, 31)
	refused.Stale = true
	entries := []Entry{entry("a", 5, 1, 2), entry("b", 6, 19, 20), refused}
	at := func(ms int, token int64) Request {
		return Request{Sent: time.Duration(ms) * time.Millisecond, Answered: time.Duration(ms+50) * time.Millisecond, Outcome: OK, Pod: "p", Token: token}
	}
	failed := at(40, 0)
	failed.Outcome = Unavailable
	for name, c := range map[string]struct {
		request Request
		late    bool
	}{
		"before anything was written":                    {at(0, 4), false},
		"by the leader":                                  {at(10, 5), false},
		"sent before the new leader's write had arrived": {at(20, 5), false},
		"sent after it":                                  {at(21, 5), true},
		"after a write that was refused":                 {at(40, 5), true},
		"by the new leader":                              {at(40, 6), false},
		"by one that has not written yet":                {at(40, 7), false},
		"no answer of a leader":                          {failed, false},
	} {
		if found := (Requests{c.request}).Late(entries); (len(found) > 0) != c.late {
			t.Errorf("%s: it finds %q", name, found)
		}
	}
}

func TestFirstAndSlowest(t *testing.T) {
	failed := Request{Sent: 60, Answered: 69, Outcome: TimedOut, Token: 5}
	rs := Requests{failed, request(70, 71, 5), request(80, 84, 5), request(90, 91, 6)}
	if first, ok := rs.First(5); !ok || first.Sent != 70 {
		t.Errorf("the first is %v", first)
	}
	if _, ok := rs.First(7); ok {
		t.Error("it finds an answer that there is not")
	}
	if got := rs.Slowest(); got != 4 {
		t.Errorf("the slowest took %d", got)
	}
}

func TestDuring(t *testing.T) {
	stale := entry("a", 5, 12, 12)
	stale.Stale = true
	entries := []Entry{entry("a", 5, 9, 10), entry("a", 5, 11, 12), entry("a", 5, 18, 19), entry("b", 6, 13, 14), stale, entry("a", 5, 19, 20)}
	r := Request{Sent: 10 * time.Millisecond, Answered: 20 * time.Millisecond, Token: 5}
	if got := r.During(entries); got != 2 {
		t.Errorf("%d writes arrived meanwhile, want 2", got)
	}
}
