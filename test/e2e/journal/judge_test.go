// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"strings"
	"testing"
	"time"
)

// entry is a beat of a pod with that name and UID, sent and received at these milliseconds on the node "n".
func entry(pod string, token int64, sent, arrived int) Entry {
	return Entry{
		Beat:    Beat{Pod: pod, UID: pod, Process: 1, Token: token, Started: time.Duration(sent) * time.Millisecond, Boot: "n"},
		Arrived: time.Duration(arrived) * time.Millisecond,
	}
}

func TestViolations(t *testing.T) {
	restarted := entry("a", 5, 30, 31)
	restarted.Process = 2
	elsewhere := entry("b", 6, 1, 31) // on a node that was booted later
	elsewhere.Boot = "m"
	stale := entry("a", 5, 30, 31)
	stale.Stale = true
	for name, c := range map[string]struct {
		entries []Entry
		want    string // part of the only violation; none where empty
	}{
		"nothing":                                  {nil, ""},
		"one after the other":                      {[]Entry{entry("a", 5, 1, 2), entry("a", 5, 20, 21), entry("b", 6, 30, 31)}, ""},
		"an app that is restarted":                 {[]Entry{entry("a", 5, 1, 2), restarted}, ""},
		"a new term of the same pod":               {[]Entry{entry("a", 5, 1, 2), entry("a", 6, 30, 31)}, ""},
		"clocks of two nodes":                      {[]Entry{entry("a", 5, 10, 11), elsewhere}, ""},
		"sent before the other's last has arrived": {[]Entry{entry("a", 5, 10, 21), entry("b", 6, 20, 22)}, "two at work at once"},
		"one within the other's reign":             {[]Entry{entry("a", 5, 10, 11), entry("b", 5, 20, 21), entry("a", 5, 30, 31)}, "share token 5"},
		"a refused write":                          {[]Entry{entry("b", 6, 1, 2), stale}, "a later leader had written"},
		"a stale write that was accepted":          {[]Entry{entry("b", 6, 1, 2), entry("a", 5, 30, 31)}, "a stale write was accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Journal{Boot: "n", Entries: c.entries}.Violations()
			if c.want == "" && len(got) > 0 {
				t.Errorf("it finds %q", got)
			}
			if c.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want)) {
				t.Errorf("it finds %q, want %q", got, c.want)
			}
		})
	}
}

func TestReigns(t *testing.T) {
	refused := entry("c", 1, 3, 3)
	refused.Stale = true
	got := Reigns([]Entry{entry("a", 5, 1, 2), refused, entry("a", 5, 20, 21), entry("b", 6, 30, 31)})
	if len(got) != 2 || got[0].Beats != 2 || got[0].Last.Arrived != 21*time.Millisecond || got[1].First.Pod != "b" {
		t.Errorf("the reigns are %v", got)
	}
}

func TestKeeperRefusesThePast(t *testing.T) {
	var k Keeper
	for _, step := range []struct {
		token  int64
		accept bool
	}{{5, true}, {5, true}, {7, true}, {6, false}, {7, true}} {
		if got := k.Add(Beat{Token: step.token}); got != step.accept {
			t.Errorf("token %d is accepted: %t", step.token, got)
		}
	}
	if all, rest := k.From(0), k.From(3); len(all) != 5 || len(rest) != 2 || !rest[0].Stale || len(k.From(9)) != 0 {
		t.Errorf("it keeps %v, and from 3 on %v", all, rest)
	}
}

func request(sent, answered int, token int64) Request {
	return Request{Sent: time.Duration(sent), Answered: time.Duration(answered), Outcome: OK, Pod: "p", Token: token}
}

func TestRequests(t *testing.T) {
	failed := Request{Sent: 25, Answered: 26, Outcome: Unavailable, Token: 1}
	good := Requests{request(1, 2, 5), request(10, 40, 5), request(20, 22, 6), failed, request(50, 51, 6)}
	if found := good.Violations(); len(found) > 0 { // the second was sent while the old leader may still have led
		t.Errorf("it finds %q", found)
	}
	if found := append(good, request(60, 61, 5)).Violations(); len(found) != 1 {
		t.Errorf("of the answer of a former leader it finds %q", found)
	}
	if count := good.Count(); count[OK] != 4 || count[Unavailable] != 1 {
		t.Errorf("it counts %v", count)
	}
	if got := (Requests{request(1, 2, 5), failed, request(50, 51, 6)}).Silence(); got != 49 {
		t.Errorf("the silence is %d", got)
	}
}

func TestSinceBootGoesOn(t *testing.T) {
	before := SinceBoot()
	if after := SinceBoot(); before <= 0 || after < before || Boot() == "" {
		t.Errorf("%s, then %s, of boot %q", before, after, Boot())
	}
}
