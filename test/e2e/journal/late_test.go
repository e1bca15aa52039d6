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

func TestFirstAndLast(t *testing.T) {
	failed := Request{Sent: 60, Answered: 69, Outcome: Refused, Token: 5}
	rs := Requests{request(1, 2, 5), request(10, 12, 5), request(20, 21, 6), failed}
	if first, ok := rs.First(5); !ok || first.Sent != 1 {
		t.Errorf("the first is %v", first)
	}
	if last, ok := rs.Last(5); !ok || last.Sent != 10 {
		t.Errorf("the last is %v", last)
	}
	_, first := rs.First(7)
	if _, last := rs.Last(7); first || last {
		t.Error("it finds an answer that there is not")
	}
}
