// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// planted is a history that is written in milliseconds.
type planted struct {
	history
	lives map[string]*life
}

// life is a process of a pod, as in "a/1".
func (p *planted) life(name string) *life {
	if p.lives == nil {
		p.lives = map[string]*life{}
	}
	if p.lives[name] == nil {
		shared := &stops{}
		for _, other := range p.lives {
			if other.pod == name[:1] {
				shared = other.stops
			}
		}
		p.lives[name] = &life{pod: name[:1], number: int(name[2] - '0'), stops: shared}
	}
	return p.lives[name]
}

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

func (p *planted) leads(name string, token uint64, sent, received, valid int) *planted {
	p.answers = append(p.answers, answer{who: p.life(name), token: token, sent: at(sent), received: at(received), valid: at(valid)})
	return p
}

func (p *planted) told(name string, ms int) *planted {
	p.life(name).stops.add(at(ms))
	return p
}

func (p *planted) tampered(invoked, answered int) *planted {
	p.tamperings = append(p.tamperings, tampering{what: deletion, invoked: at(invoked), answered: at(answered)})
	return p
}

func a() *planted { return (&planted{}).leads("a/1", 5, 1000, 1010, 2000) }

func TestJudgeFindsWhatMustNotBe(t *testing.T) {
	for name, test := range map[string]struct {
		history *planted
		// overlaps, broken promises, those of them that are excused, and other violations
		overlaps, promises, excused, excusedPromises, others int
	}{
		"one alone":                      {history: a()},
		"one after the other":            {history: a().leads("b/1", 7, 3100, 3110, 2000)},
		"at once, as far as can be seen": {history: a().told("a/1", 1011).leads("b/1", 7, 1005, 1020, 2000)},
		"the old one again":              {history: a().told("a/1", 1011).leads("b/1", 7, 1100, 1110, 2000).leads("a/1", 5, 1111, 1120, 1900), overlaps: 1},
		"the new one within the old one": {history: a().leads("b/1", 7, 1100, 1110, 2000).leads("a/1", 5, 1200, 1210, 1800), overlaps: 1, promises: 1},
		"seen late":                      {history: a().told("a/1", 1011).leads("a/1", 5, 1105, 1500, 1900).leads("b/1", 7, 1100, 1110, 2000)},
		"one token, two pods":            {history: a().leads("b/1", 5, 9000, 9010, 2000), others: 1},
		"one token, two lives":           {history: a().leads("a/2", 5, 9000, 9010, 2000), others: 1},
		"a token that falls":             {history: a().leads("b/1", 3, 9000, 9010, 2000), overlaps: 1, promises: 1},
		"a token that falls in a pod":    {history: a().leads("a/2", 3, 9000, 9010, 2000), overlaps: 1},

		"before the promise is over": {history: a().leads("b/1", 7, 2900, 2990, 2000), promises: 1},
		"once the promise is over":   {history: a().leads("b/1", 7, 2900, 3010, 2000)},
		"after it was told to stop":  {history: a().told("a/1", 1020).leads("b/1", 7, 1030, 1040, 2000)},
		"after its next life was":    {history: a().leads("a/2", 6, 1010, 1015, 2000).told("a/2", 1020).leads("b/1", 7, 1030, 1040, 2000)},
		"and once more after that":   {history: a().told("a/1", 1020).leads("b/1", 7, 1030, 1040, 2000).told("a/1", 1900)},
		"before it was told to stop": {history: a().told("a/1", 1050).leads("b/1", 7, 1030, 1040, 2000), promises: 1},
		"restarted in the same pod":  {history: a().leads("a/2", 7, 1030, 1040, 2000)},

		"excused by a tampering":            {history: a().leads("b/1", 7, 1100, 1110, 2000).leads("a/1", 5, 1200, 1210, 1800).tampered(1050, 1060), excused: 1, excusedPromises: 1},
		"tampered with, but renewed since":  {history: a().leads("b/1", 7, 1100, 1110, 2000).leads("a/1", 5, 1200, 1210, 2400).tampered(1050, 1060), overlaps: 1, promises: 1, excusedPromises: 1},
		"tampered with afterwards":          {history: a().leads("b/1", 7, 1100, 1110, 2000).leads("a/1", 5, 1200, 1210, 1800).tampered(1150, 1160), overlaps: 1, promises: 1},
		"a promise excused":                 {history: a().leads("b/1", 7, 2900, 2990, 2000).tampered(2850, 2860), excusedPromises: 1},
		"a token that no tampering excuses": {history: a().leads("b/1", 5, 1100, 1110, 2000).tampered(1050, 1060), others: 1},
	} {
		v := judge(&test.history.history)
		got := fmt.Sprintf("overlaps %d, promises %d, excused %d and %d, violations %d",
			len(v.overlaps), len(v.brokenPromises), len(v.excused), len(v.excusedPromises), len(v.violations))
		want := fmt.Sprintf("overlaps %d, promises %d, excused %d and %d, violations %d",
			test.overlaps, test.promises, test.excused, test.excusedPromises, test.overlaps+test.promises+test.others)
		if got != want {
			t.Errorf("%s: %s; want %s: %v", name, got, want, v.violations)
		}
		drawing := filepath.Join(t.TempDir(), "drawing.html")
		if err := linearizable(owned(&test.history.history, v), drawing); (err != nil) != (test.overlaps > 0) {
			t.Errorf("%s: the check of linearizability says: %v", name, err)
		}
	}
}

func TestRegisterRefusesThePast(t *testing.T) {
	r := &register{}
	for _, step := range []struct {
		token uint64
		want  bool
	}{{5, true}, {5, true}, {7, true}, {5, false}, {7, true}, {9, true}} {
		if got := r.write(step.token); got != step.want {
			t.Errorf("%d: accepted is %t", step.token, got)
		}
	}
}

func TestRegisterIsChecked(t *testing.T) {
	w := func(token uint64, invoked, answered int, accepted bool) write {
		return write{token: token, invoked: at(invoked), answered: at(answered), accepted: accepted}
	}
	for name, test := range map[string]struct {
		writes []write
		stale  int
		ok     bool
	}{
		"in order":                  {[]write{w(5, 0, 1, true), w(7, 2, 3, true), w(5, 4, 5, false)}, 0, true},
		"at once":                   {[]write{w(7, 0, 3, true), w(5, 1, 2, true)}, 0, true},
		"a stale one accepted":      {[]write{w(7, 0, 1, true), w(5, 2, 3, true)}, 1, false},
		"a good one refused":        {[]write{w(5, 0, 1, true), w(7, 2, 3, false)}, 0, false},
		"refused before its reason": {[]write{w(5, 0, 1, false), w(7, 2, 3, true)}, 0, false},
	} {
		if got := stale(test.writes); len(got) != test.stale {
			t.Errorf("%s: found stale %v", name, got)
		}
		if err := linearizable(shown(test.writes), filepath.Join(t.TempDir(), "drawing.html")); (err == nil) != test.ok {
			t.Errorf("%s: the check says %v", name, err)
		}
	}
}

// What is wrong is found wherever the history is cut.
func TestLongHistoriesAreCheckedInPieces(t *testing.T) {
	var history []porcupine.Operation
	for i := range 5 * pieceSize {
		begin := int64(i) * 10
		history = append(history, porcupine.Operation{ClientId: i % 2, Input: uint64(i / 100), Output: true, Call: begin, Return: begin + int64(i%15)})
	}
	drawing := filepath.Join(t.TempDir(), "drawing.html")
	if err := linearizable(history, drawing); err != nil {
		t.Error(err)
	}
	for i := 2 * 100; i < len(history); i += pieceSize/2 + 1 {
		broken := slices.Clone(history)
		broken[i].Input = uint64(i/100 - 2)
		if err := linearizable(broken, drawing); err == nil {
			t.Errorf("what is wrong at %d is not found", i)
		}
	}
}

func TestLongestGap(t *testing.T) {
	p := &planted{}
	p.leads("a/1", 5, 1000, 1010, 2000).leads("a/1", 5, 2000, 2010, 2000)
	p.leads("b/1", 7, 12000, 12010, 2000)
	all := gaps(leaderships(p.answers), at(12000))
	if want := []gap{{0, at(1010)}, {at(2000), at(12010)}}; !slices.Equal(all, want) {
		t.Fatalf("the gaps are %v; want %v", all, want)
	}
	set := func(is ...int) *condition { // so from the first instant, not so from the second, …
		c := &condition{}
		for i, ms := range is {
			c.set(at(ms), i%2 == 0)
		}
		return c
	}
	held := sighting{at(1900), true, at(5000)}
	for name, test := range map[string]struct {
		healthy, able *condition
		sightings     []sighting
		raw, overdue  int
	}{
		"all well":             {set(0), set(0), []sighting{held}, 10010, 5110},
		"free":                 {set(0), set(0), []sighting{held, {at(3000), false, 0}}, 10010, 9010},
		"taken and not told":   {set(0), set(0), []sighting{held, {at(9000), true, at(2000)}}, 10010, 2100},
		"nobody able":          {set(0), set(), []sighting{held}, 0, 0},
		"able for a time":      {set(0), set(0, 4000, 6000), []sighting{held}, 6010, 1010},
		"the API away":         {set(0, 3000, 8000), set(0), []sighting{held}, 4010, 0},
		"able only for a time": {set(0), set(0, 4000), []sighting{held}, 2000, 0},
	} {
		s := &scene{healthy: test.healthy, able: []*condition{set(), test.able}, sightings: test.sightings}
		if raw, overdue := s.longest(all[1:]); raw.length() != at(test.raw) || overdue.length() != at(test.overdue) {
			t.Errorf("%s: longest %s, overdue %s; want %d and %d", name, raw.length(), overdue.length(), test.raw, test.overdue)
		}
	}
}

func TestScheduleIsTheSeeds(t *testing.T) {
	one, again, other := newSchedule(1), newSchedule(1), newSchedule(2)
	same, seen := true, map[kind]int{}
	deck := 0
	for _, k := range kinds {
		deck += k.weight
	}
	for range 3 * deck {
		f, g, h := one.next(), again.next(), other.next()
		if f != g {
			t.Fatalf("with one seed there are %+v and %+v", f, g)
		}
		same = same && f == h
		seen[f.kind]++
	}
	if same {
		t.Error("two seeds give one schedule")
	}
	for _, k := range kinds {
		if seen[k.kind] != 3*k.weight {
			t.Errorf("in 3 decks, %q comes %d times; want %d", k.kind, seen[k.kind], 3*k.weight)
		}
	}
}
