// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// noticeTime is how long a leader that nothing hinders may take to notice that somebody tampered with the Lease. The
	// contract says 100 ms; the machine may be busy.
	noticeTime = time.Second
	// overdueTime is how long nobody may lead although a sidecar could: a backstop, since the figure itself is reported.
	overdueTime = 2 * leaseDuration
)

// report is what came of a campaign.
type report struct {
	seed        uint64
	length      time.Duration
	faults      map[kind]int
	leaderships int // all, and those of client-go
	theirs      int
	lives       int
	asked       int
	answers     int // that said "leading"
	accepted    int
	refused     int
	stale       int
	deaths      int
	verdict     *verdict
	noticed     [3]overlaps // those that are excused: of sidecars that nothing hindered, of others, of client-go
	raw         gap
	overdue     gap
	violations  []violation
	dir         string
	events      []event
}

func (c *campaign) report() *report {
	h := c.history.clone()
	v := judge(h)
	r := &report{seed: c.seed, length: c.ended, faults: c.faults, leaderships: len(v.leaderships), asked: h.asked, answers: len(h.answers),
		deaths: int(c.deaths.Load()), verdict: v, violations: append(c.wrongs(), v.violations...), dir: c.dir, events: c.events}
	for _, l := range v.leaderships {
		if l.who.theirs {
			r.theirs++
		}
	}
	for _, w := range h.writes {
		if w.accepted {
			r.accepted++
		} else {
			r.refused++
		}
	}
	for _, s := range c.seats {
		r.lives += s.born
	}
	for _, w := range stale(h.writes) {
		r.stale++
		r.violate(w.answered, "a stale token was accepted: %d", w.token)
	}
	if err := linearizable(owned(h, v), filepath.Join(c.dir, "ownership.html")); err != nil {
		r.violate(r.length, "what the candidates said: %v", err)
	}
	if err := linearizable(shown(h.writes), filepath.Join(c.dir, "register.html")); err != nil {
		r.violate(r.length, "what the register said: %v", err)
	}
	r.judgeNotice(c)
	r.judgeGaps(c)
	r.judgeLogs(c)
	slices.SortStableFunc(r.violations, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	return r
}

func (r *report) violate(at time.Duration, format string, args ...any) {
	r.violations = append(r.violations, violation{at, fmt.Sprintf(format, args...)})
}

// owned is what the candidates said as operations on the ownership, but for what is excused.
func owned(h *history, v *verdict) []porcupine.Operation {
	type key struct {
		who   *life
		token uint64
	}
	excused := map[key]time.Duration{} // answers that were asked for after the instant
	for _, o := range v.excused {
		excused[key{o.late.who, o.late.token}] = o.rival.received
	}
	var operations []porcupine.Operation
	for _, a := range h.answers {
		if from, ok := excused[key{a.who, a.token}]; !ok || a.sent <= from {
			operations = append(operations, porcupine.Operation{ClientId: a.who.seat, Input: a.token, Call: int64(a.sent), Output: true, Return: int64(a.received)})
		}
	}
	return operations
}

func shown(writes []write) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, w := range writes {
		operations = append(operations, porcupine.Operation{ClientId: w.seat, Input: w.token, Call: int64(w.invoked), Output: w.accepted, Return: int64(w.answered)})
	}
	return operations
}

// judgeNotice looks at the overlaps that a tampering excuses: a sidecar that nothing hindered has to notice soon.
func (r *report) judgeNotice(c *campaign) {
	for _, o := range r.verdict.excused {
		from := max(0, o.rival.received-lingering)
		switch {
		case o.late.who.theirs:
			r.noticed[2].add(o)
		case !c.healthy.throughout(from, o.late.sent) || !c.seats[o.late.who.seat].able.throughout(from, o.late.sent):
			r.noticed[1].add(o)
		default:
			r.noticed[0].add(o)
			if o.length > noticeTime {
				r.violate(o.late.sent, "after a tampering, and with nothing to hinder it: %s", o)
			}
		}
	}
}

// overlaps is how many there are, and the longest.
type overlaps struct {
	n       int
	longest time.Duration
}

func (l *overlaps) add(o overlap) { l.n, l.longest = l.n+1, max(l.longest, o.length) }

func (l overlaps) String() string {
	return fmt.Sprintf("%d (longest %s)", l.n, l.longest.Round(time.Millisecond))
}

func (r *report) judgeGaps(c *campaign) {
	s := &scene{healthy: &c.healthy, sightings: c.sightings}
	for _, seat := range c.seats[:sidecars] {
		s.able = append(s.able, &seat.able)
	}
	r.raw, r.overdue = s.longest(gaps(r.verdict.leaderships, r.length))
	if r.overdue.length() > overdueTime {
		r.violate(r.overdue.to, "nobody led for %s although the lease had expired, the API server was healthy and a sidecar could lead", stamp(r.overdue.length()))
	}
}

// judgeLogs looks for what a sidecar must never log.
func (r *report) judgeLogs(c *campaign) {
	for _, s := range c.seats {
		log, err := os.ReadFile(s.log.Name())
		if err != nil {
			r.violate(r.length, "%v", err)
		}
		for _, never := range []string{"DATA RACE", "panic", "illegal transition"} {
			if bytes.Contains(log, []byte(never)) {
				r.violate(r.length, "%s logs %q", s.name, never)
			}
		}
	}
}

func (r *report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("chaos: seed %d, %s; %d sidecars and client-go's elector; lease %s, renew deadline %s, retry period %s (client-go %s)",
		r.seed, r.length.Round(time.Second), sidecars, leaseDuration, renewDeadline, retryPeriod, theirRetryPeriod)
	total := 0
	for _, n := range r.faults {
		total += n
	}
	line("faults injected: %d", total)
	for _, k := range kinds {
		line("  %-32s %d", k.kind, r.faults[k.kind])
	}
	line("processes started: %d; died unexpectedly: %d", r.lives, r.deaths)
	line("requests asked: %d; answers that said \"leader\": %d", r.asked, r.answers)
	line("leaderships: %d, %d of them client-go's", r.leaderships, r.theirs)
	line("tokens accepted: %d; refused: %d; stale ones accepted: %d", r.accepted, r.refused, r.stale)
	line("overlaps: %d of leaderships, %d of validForMs", len(r.verdict.overlaps), len(r.verdict.brokenPromises))
	line("  excused, since somebody tampered with the Lease: %d of leaderships, %d of validForMs", len(r.verdict.excused), len(r.verdict.excusedPromises))
	line("  those of leaderships: sidecars that nothing hindered %s, cut off or frozen ones %s, client-go %s", r.noticed[0], r.noticed[1], r.noticed[2])
	line("longest without a leader, while the API server was healthy and a sidecar could lead: %s, from %s", stamp(r.raw.length()), stamp(r.raw.from))
	line("  beyond the expiry of the lease: %s, from %s", stamp(r.overdue.length()), stamp(r.overdue.from))
	line("violations: %d", len(r.violations))
	return b.String()
}

// story is what there is to read about the violations: each of the first ones with what happened around it. All that
// happened goes to a file, and so does each answer that said "leader".
func (r *report) story() string {
	const most, before, after = 5, 15 * time.Second, 3 * time.Second
	slices.SortStableFunc(r.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var b, all, answers strings.Builder
	for _, e := range r.events {
		fmt.Fprintf(&all, "%s %s\n", stamp(e.at), e.what)
	}
	for _, l := range r.verdict.leaderships {
		for _, a := range l.answers {
			fmt.Fprintln(&answers, a)
		}
	}
	for name, text := range map[string]string{"events.txt": all.String(), "answers.txt": answers.String()} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	for i, v := range r.violations {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(r.violations)-most)
			break
		}
		fmt.Fprintf(&b, "VIOLATION at %s: %s\n", stamp(v.at), v.what)
		for _, e := range r.events {
			if v.at-before <= e.at && e.at <= v.at+after {
				fmt.Fprintf(&b, "    %s %s\n", stamp(e.at), e.what)
			}
		}
	}
	fmt.Fprintf(&b, "logs and events are in %s\nseed: %d\n", r.dir, r.seed)
	return b.String()
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}
