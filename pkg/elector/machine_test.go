// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// table drives a machine by hand, with a Lease that is what the test says.
type table struct {
	*testing.T
	*machine
	now     Instant
	version uint64
	last    output
}

func newTable(t *testing.T, change ...func(*settings)) *table {
	s := settings{
		lease: types.NamespacedName{Namespace: "default", Name: "web"}, identity: "a_1",
		leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second,
		random: func() float64 { return 0 },
	}
	for _, f := range change {
		f(&s)
	}
	return &table{T: t, machine: newMachine(s), version: 100,
		now: Instant{Boot: time.Hour, Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
}

func (t *table) do(in input) output {
	t.last = t.step(t.now, in)
	return t.last
}

func (t *table) after(d time.Duration) *table {
	t.now = t.now.Add(d)
	return t
}

// stored is r as the API server would have stored it now.
func (t *table) stored(r *record) *record {
	t.Helper()
	t.version++
	lease := r.lease.DeepCopy()
	if lease.UID == "" {
		lease.UID = "1"
	}
	lease.ResourceVersion = fmt.Sprint(t.version)
	read, err := readLease(lease)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// others is a record that another candidate has just written.
func (t *table) others(holder string) *record {
	t.Helper()
	return t.stored(claim(t.seen, &settings{identity: holder, leaseDuration: 15 * time.Second, lease: t.lease}, t.now.Wall))
}

func (t *table) see(r *record) output {
	t.Helper()
	return t.do(observed{from: byWatch, record: r, version: r.version})
}

func (t *table) seeNone() output {
	t.Helper()
	t.version++
	return t.do(observed{from: byWatch, version: t.version})
}

// succeed answers the write in flight with success.
func (t *table) succeed() output {
	t.Helper()
	if t.inFlight == nil {
		t.Fatal("no write is in flight")
	}
	return t.do(written{write: t.inFlight, record: t.stored(t.inFlight.record)})
}

func (t *table) fail(how outcome) output {
	t.Helper()
	if t.inFlight == nil {
		t.Fatal("no write is in flight")
	}
	return t.do(writeFailed{write: t.inFlight, outcome: how, err: errors.New(`Put "https://api": timeout`)})
}

// lead makes the machine the leader of a new Lease.
func (t *table) lead() *table {
	t.Helper()
	t.seeNone()
	t.succeed()
	t.is(Leading)
	return t
}

func (t *table) is(want State) {
	t.Helper()
	if t.machine.state != want {
		t.Fatalf("state %s, want %s", t.machine.state, want)
	}
}

// writes checks that the last step sent a write of this purpose.
func (t *table) writes(want purpose) *write {
	t.Helper()
	if t.last.write == nil || t.last.write.purpose != want {
		t.Fatalf("write %+v, want to %s", t.last.write, want)
	}
	return t.last.write
}

// waits checks that the last step sent nothing.
func (t *table) waits() {
	t.Helper()
	if t.last.write != nil || t.last.read {
		t.Fatalf("write %+v, read %t, want neither", t.last.write, t.last.read)
	}
}

// reads checks that the last step sent a read.
func (t *table) reads() {
	t.Helper()
	if !t.last.read || t.last.write != nil {
		t.Fatalf("write %+v, read %t, want a read", t.last.write, t.last.read)
	}
}

func TestNothingIsWrittenBeforeTheLeaseWasRead(t *testing.T) {
	m := newTable(t)
	for range 100 {
		m.after(time.Second).do(tick{})
		m.is(Starting)
		m.waits()
	}
}

// Rule S2.
func TestOnlyASuccessfulWriteMakesALeader(t *testing.T) {
	m := newTable(t)
	m.seeNone()
	w := m.writes(acquiring)
	m.see(m.stored(w.record)) // the watch is faster than the answer
	m.is(Following)
	m.fail(unknown)
	m.is(Following)
	m.after(2 * time.Second).do(tick{})
	m.reads()
	m.do(observed{from: byRead, record: m.seen, version: m.seen.version})
	m.is(Following)
	m.writes(acquiring) // its own record: taken again, by a write that has to succeed
	m.succeed()
	m.is(Leading)
}

// Rule S3: the deadline counts from before the write was sent, and an answer can come too late to lead.
func TestDeadlineCountsFromTheSendingOfTheWrite(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 4 * time.Second: 6 * time.Second, 9 * time.Second: time.Second} {
		m := newTable(t)
		m.seeNone()
		m.after(took).succeed()
		m.is(Leading)
		if !m.leading(m.now.Add(want-1)) || m.leading(m.now.Add(want)) {
			t.Errorf("an answer after %s: the deadline is not %s away", took, want)
		}
	}
	m := newTable(t)
	m.seeNone()
	m.after(10 * time.Second).succeed()
	m.is(Following)
	m.writes(acquiring)
}

func TestClocks(t *testing.T) {
	lead := func() *table {
		m := newTable(t).lead()
		m.after(time.Second)
		return m
	}
	tests := map[string]struct {
		boot, wall time.Duration
		leads      bool
	}{
		"both run":                        {time.Second, time.Second, true},
		"suspended: both jump":            {time.Minute, time.Minute, false},
		"VM paused: the boot clock stood": {0, time.Minute, false},
		"time of day set back":            {time.Second, -time.Hour, true},
		"set back, past the deadline":     {9 * time.Second, -time.Hour, false},
	}
	for name, test := range tests {
		m := lead()
		now := Instant{Boot: m.now.Boot + test.boot, Wall: m.now.Wall.Add(test.wall)}
		if m.leading(now) != test.leads {
			t.Errorf("%s: leads: %t, want %t", name, !test.leads, test.leads)
		}
	}
	// Until one renewal succeeds, and then again.
	m := lead()
	m.now.Wall = m.now.Wall.Add(time.Minute)
	m.do(tick{})
	m.is(Following)
	m.writes(acquiring)
	m.succeed()
	m.is(Leading)
}

// A time of day that is set back must not make client-go's standbys, which compare whole seconds, take a renewed lease
// for unchanged.
func TestRenewTimesNeverFallBack(t *testing.T) {
	m := newTable(t).lead()
	before := m.seen.renewed
	m.now.Wall = m.now.Wall.Add(-20 * time.Second)
	for range 20 {
		m.after(2 * time.Second).do(tick{})
		m.writes(renewing)
		m.succeed()
		if m.seen.renewed.Sub(before) < 2*time.Second {
			t.Fatalf("renewed at %s, then at %s", before, m.seen.renewed)
		}
		before = m.seen.renewed
	}
	// A time that is far off, ours or a predecessor's, is not carried on.
	m.now.Wall = m.now.Wall.Add(-time.Hour)
	m.after(2 * time.Second).do(tick{})
	if w := m.writes(renewing); !w.record.renewed.Equal(m.now.Wall) {
		t.Errorf("renewed at %s, when it is %s", w.record.renewed, m.now.Wall)
	}
}

// Rule S4.
func TestExpiry(t *testing.T) {
	m := newTable(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("b_1")}}
	bare, err := readLease(lease)
	if err != nil {
		t.Fatal(err)
	}
	m.see(bare) // no duration: our own counts
	m.after(15*time.Second - 1).do(tick{})
	if m.last.write != nil {
		t.Fatal("taken early")
	}
	m.do(observed{from: byRead, record: bare, version: 7})
	m.after(1).do(tick{})
	m.writes(acquiring)

	m = newTable(t)
	m.see(m.others("b_1"))
	for range 5 { // each renewal begins it anew, however old its times are
		m.after(14 * time.Second)
		renewed := renewal(m.seen, 15*time.Second, m.seen.renewed.Add(time.Microsecond))
		m.see(m.stored(renewed))
		m.waits()
	}
	m.now.Wall = m.now.Wall.Add(time.Hour) // a step of the time of day does not count
	m.do(tick{})
	m.waits()
	note := *m.seen // neither does a change of what does not concern the election
	m.after(14 * time.Second)
	m.see(m.stored(&note))
	m.after(time.Second).do(tick{})
	m.do(observed{from: byRead, record: m.seen, version: m.seen.version})
	m.writes(acquiring)
}

// When a lease is about to expire the watch may be deaf: one read finds out.
func TestSilentWatchIsDoubtedOnce(t *testing.T) {
	m := newTable(t)
	m.see(m.others("b_1"))
	m.after(10*time.Second - 1).do(tick{})
	m.waits()
	m.after(1).do(tick{})
	m.reads()
	m.do(observed{from: byRead, record: m.seen, version: m.seen.version})
	if m.last.rewatch {
		t.Error("begins the watch anew, though it missed nothing")
	}
	m.after(time.Second).do(tick{})
	m.waits()

	m = newTable(t)
	m.see(m.others("b_1"))
	m.after(10 * time.Second).do(tick{})
	m.reads()
	missed := m.others("c_1")
	m.do(observed{from: byRead, record: missed, version: missed.version})
	if !m.last.rewatch {
		t.Error("keeps a watch that missed a change")
	}
}

// Rule S1.
func TestOneWriteAtATimeOnTheVersionItWasDecidedOn(t *testing.T) {
	m := newTable(t).lead()
	for range 50 {
		m.after(2 * time.Second).do(tick{})
		w := m.writes(renewing)
		if w.record.version != m.seen.version || w.record.lease.ResourceVersion != fmt.Sprint(m.seen.version) || w.record.lease.UID == "" {
			t.Fatalf("write on version %d (%q), decided on %d", w.record.version, w.record.lease.ResourceVersion, m.seen.version)
		}
		m.after(time.Second).do(tick{})
		m.waits()
		m.succeed()
		m.waits()
		m.now = m.now.Add(-time.Second)
	}
}

func TestAnswersOfThePastAreIgnored(t *testing.T) {
	m := newTable(t).lead()
	m.after(2 * time.Second).do(tick{})
	old := m.writes(renewing)
	m.fail(unknown)
	m.after(time.Second).do(written{write: old, record: m.stored(old.record)})
	if m.leading(m.now.Add(7 * time.Second)) {
		t.Error("an answer that had been given up extended leadership")
	}
}

// Rule S5.
func TestWhatEndsLeadership(t *testing.T) {
	other := func(m *table) *record { return m.others("b_1") }
	tests := map[string]struct {
		seen  func(m *table) *record
		leads bool
	}{
		"another holder":        {other, false},
		"nobody":                {func(m *table) *record { return m.stored(vacancy(m.seen, m.now.Wall)) }, false},
		"our name, other times": {func(m *table) *record { return m.others("a_1") }, false},
		"another UID, the same contents": {func(m *table) *record {
			again := *m.seen
			again.lease = again.lease.DeepCopy()
			again.lease.UID = "2"
			return m.stored(&again)
		}, false},
		"a label": {func(m *table) *record {
			labelled := *m.seen
			labelled.lease = labelled.lease.DeepCopy()
			labelled.lease.Labels = map[string]string{"a": "b"}
			return m.stored(&labelled)
		}, true},
		"its duration edited": {func(m *table) *record {
			edited := *m.seen
			edited.duration = time.Second
			return m.stored(edited.draw(m.seen, m.lease))
		}, true},
	}
	for name, test := range tests {
		m := newTable(t).lead()
		m.after(time.Second)
		m.see(test.seen(m))
		if m.leading(m.now) != test.leads {
			t.Errorf("%s: leads: %t, want %t", name, !test.leads, test.leads)
		}
	}
	m := newTable(t).lead()
	m.seeNone()
	m.is(Following)
	m.writes(acquiring) // alone, it creates the Lease again
	if m.last.write.record.version != 0 {
		t.Error("updates a Lease that is gone")
	}
}

// A sighting of the past must not count: a late watch, or a list that a write of ours overtook.
func TestOlderSightingsAreIgnored(t *testing.T) {
	m := newTable(t)
	before := m.others("b_1")
	m.version++
	m.lead()
	m.see(before)
	m.do(observed{from: byList, version: before.version})
	m.is(Leading)
}

// After a restore of the API server's storage versions begin anew, lower: only a read of our own is believed then.
func TestStorageRestored(t *testing.T) {
	m := newTable(t).lead()
	m.version = 10
	old := m.others("b_1")
	m.do(observed{from: byList, record: old, version: old.version})
	m.is(Leading)
	m.reads()
	m.do(observed{from: byRead, record: old, version: old.version})
	m.is(Following)
	m.after(15 * time.Second).do(tick{})
	m.writes(acquiring)
	m.succeed()
	m.is(Leading)
}

func TestRetriesKeepTheirPace(t *testing.T) {
	for _, drawn := range []float64{0, 0.5, 0.999} {
		m := newTable(t, func(s *settings) { s.random = func() float64 { return drawn } })
		m.seeNone()
		for m.last.write == nil {
			m.after(m.last.wake).do(tick{})
		}
		begun := m.now
		for i := range 500 { // an API that reads but never writes
			m.writes(acquiring)
			m.fail(refused)
			m.waits()
			sent := m.now
			for m.last.write == nil {
				m.after(m.last.wake).do(tick{})
			}
			if waited := m.now.Boot - sent.Boot; waited > m.retryPeriod || waited < m.retryPeriod/2 {
				t.Fatalf("attempt %d came %s after the last", i, waited)
			}
		}
		if len(m.unsettled) > 0 || m.now.Boot-begun.Boot > 500*m.retryPeriod {
			t.Errorf("%d unsettled; 500 attempts took %s", len(m.unsettled), m.now.Boot-begun.Boot)
		}
	}
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	m := newTable(t)
	m.seeNone()
	lines := 0
	for range 100 {
		m.do(writeFailed{write: m.inFlight, outcome: refused, err: fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: reset", 1000+lines)})
		lines += len(m.last.events)
		for m.inFlight == nil {
			m.after(m.last.wake).do(tick{})
			lines += len(m.last.events)
		}
	}
	if lines != 1 {
		t.Errorf("%d log lines for one failure that goes on", lines)
	}
	m.succeed()
	if !slices.ContainsFunc(m.last.events, func(e event) bool { return e.msg == "requests succeed again" }) {
		t.Error("the end of the failure is not logged")
	}
}

// A conflict that a read cannot explain must not make a loop without a pause.
func TestConflictThatAReadDoesNotExplain(t *testing.T) {
	m := newTable(t)
	m.see(m.stored(vacancy(m.others("b_1"), m.now.Wall)))
	writes := 0
	for end := m.now.Boot + time.Minute; m.now.Boot < end; {
		switch {
		case m.inFlight != nil:
			writes++
			m.fail(conflicted)
		case m.reading:
			m.do(observed{from: byRead, record: m.seen, version: m.seen.version})
		default:
			m.after(m.last.wake).do(tick{})
		}
	}
	if writes > 61 {
		t.Errorf("%d writes in a minute", writes)
	}
}

func TestReleaseRules(t *testing.T) {
	t.Run("a conflict is read and tried again", func(t *testing.T) {
		m := newTable(t).lead()
		m.do(stop{})
		m.is(HandingOver)
		m.writes(releasing)
		m.fail(conflicted)
		m.reads()
		labelled := *m.seen
		labelled.lease = labelled.lease.DeepCopy()
		labelled.lease.Labels = map[string]string{"a": "b"}
		now := m.stored(&labelled)
		m.do(observed{from: byRead, record: now, version: now.version})
		if w := m.writes(releasing); w.record.version != now.version || w.record.holder != "" || w.record.duration != time.Second {
			t.Errorf("release %+v", w.record)
		}
		m.succeed()
		m.is(Stopped)
	})
	t.Run("another's record is left alone", func(t *testing.T) {
		m := newTable(t).lead()
		m.do(stop{})
		m.fail(conflicted)
		theirs := m.others("b_1")
		m.do(observed{from: byRead, record: theirs, version: theirs.version})
		m.waits()
		m.is(Stopped)
	})
	t.Run("a renewal on the wire is settled first", func(t *testing.T) {
		m := newTable(t).lead()
		m.after(2 * time.Second).do(tick{})
		m.writes(renewing)
		m.do(stop{})
		m.waits()
		m.succeed()
		m.writes(releasing)
	})
	t.Run("a renewal that the watch shows need not be answered", func(t *testing.T) {
		m := newTable(t).lead()
		m.after(2 * time.Second).do(tick{})
		w := m.writes(renewing)
		m.do(stop{})
		m.see(m.stored(w.record))
		if !m.last.abandon {
			t.Error("waits for the answer")
		}
		m.writes(releasing)
	})
	t.Run("an acquisition on the wire is waited for, and released", func(t *testing.T) {
		m := newTable(t)
		m.seeNone()
		w := m.writes(acquiring)
		m.do(stop{})
		m.is(HandingOver)
		m.fail(unknown)
		for m.last.wake > 0 && !m.last.read {
			m.after(m.last.wake).do(tick{})
		}
		m.do(observed{from: byRead, version: 0}) // not stored yet: it may still be
		m.is(HandingOver)
		m.see(m.stored(w.record))
		m.writes(releasing)
		m.succeed()
		m.is(Stopped)
		if m.failure != nil {
			t.Error(m.failure)
		}
	})
	t.Run("a hung read does not hold it up", func(t *testing.T) {
		m := newTable(t).lead()
		m.after(2 * time.Second).do(tick{})
		m.fail(conflicted)
		m.reads()
		m.do(stop{})
		m.writes(releasing)
	})
	t.Run("it has a budget", func(t *testing.T) {
		m := newTable(t).lead()
		m.do(stop{})
		begun := m.now
		for m.machine.state != Stopped {
			if m.inFlight != nil {
				m.fail(unknown)
			}
			m.after(m.last.wake).do(tick{})
		}
		if m.failure == nil || m.now.Boot-begun.Boot > m.renewDeadline {
			t.Errorf("gave up after %s: %v", m.now.Boot-begun.Boot, m.failure)
		}
	})
	t.Run("a record of ours is released also after leadership was lost", func(t *testing.T) {
		m := newTable(t).lead()
		m.after(2 * time.Second).do(tick{})
		m.after(8 * time.Second).do(tick{})
		m.is(Following)
		m.fail(unknown)
		m.do(stop{})
		m.writes(releasing)
	})
}

// The release waits until nothing shows this process as the leader any more, or for a while.
func TestReleaseWaitsForTheWithdrawal(t *testing.T) {
	withdrawing := func(s *settings) { s.withdrawTimeout = time.Second }
	leading := func(t *testing.T, change ...func(*settings)) *table {
		m := newTable(t, append(change, withdrawing)...).lead()
		if m.last.retract != 0 {
			t.Fatal("asked to withdraw what it has only just come to show")
		}
		return m
	}
	t.Run("until it is done", func(t *testing.T) {
		m := leading(t)
		asked := m.do(stop{}).retract
		if asked == 0 {
			t.Fatal("not asked to withdraw anything")
		}
		m.is(HandingOver)
		m.waits()
		m.after(time.Millisecond).do(withdrawn{asked})
		m.writes(releasing)
		m.succeed()
		m.is(Stopped)
	})
	t.Run("not for ever", func(t *testing.T) {
		m := leading(t)
		m.do(stop{})
		if m.waits(); m.last.wake != time.Second {
			t.Fatalf("wakes in %s, want in 1s", m.last.wake)
		}
		m.after(time.Second).do(tick{})
		m.writes(releasing)
	})
	t.Run("not for longer than there is time to release", func(t *testing.T) {
		m := leading(t, func(s *settings) {
			s.leaseDuration, s.renewDeadline, s.retryPeriod = time.Second, 600*time.Millisecond, 100*time.Millisecond
		})
		m.do(stop{})
		m.after(300 * time.Millisecond).do(tick{})
		for range 2 { // a renewal may come first
			if m.inFlight != nil && m.inFlight.purpose == renewing {
				m.succeed()
			}
		}
		m.writes(releasing)
	})
	t.Run("within the handover timeout at no cost", func(t *testing.T) {
		m := leading(t, func(s *settings) { s.handoverTimeout = 5 * time.Second })
		asked := m.do(resign{}).retract
		m.after(time.Millisecond).do(withdrawn{asked})
		m.waits()
		m.after(time.Millisecond).do(release{})
		m.writes(releasing)
	})
	t.Run("that of an earlier handover does not count", func(t *testing.T) {
		m := leading(t)
		first := m.do(resign{}).retract
		m.after(time.Second).do(tick{})
		m.writes(releasing)
		m.succeed()
		m.after(time.Second).do(tick{})
		m.writes(acquiring)
		m.succeed()
		m.is(Leading)
		second := m.do(stop{}).retract
		m.do(withdrawn{first})
		m.waits()
		m.do(withdrawn{second})
		m.writes(releasing)
	})
	// Nothing may be written over a record that is not ours, however long it takes.
	for name, after := range map[string]func(*table){
		"another has taken it": func(m *table) { m.see(m.others("b_1")) },
		"it was deleted":       func(m *table) { m.seeNone() },
	} {
		t.Run("not once "+name, func(t *testing.T) {
			m := leading(t)
			m.do(stop{})
			m.after(time.Millisecond)
			m.now.Wall, m.now.Boot = m.now.Wall.Add(2*time.Second), m.now.Boot+2*time.Second // a renewal would be due
			m.retractEnd = m.now.Add(time.Second)
			after(m)
			m.waits()
			m.is(Stopped)
		})
	}
}

func TestOutcomes(t *testing.T) {
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	for _, test := range []struct {
		verb string
		err  error
		want outcome
	}{
		{"update", status(409), conflicted}, {"update", status(404), conflicted}, {"create", status(409), conflicted},
		{"create", status(404), refused}, {"update", status(403), refused}, {"update", status(422), refused},
		{"update", status(429), refused}, {"update", status(408), unknown}, {"update", status(500), unknown},
		{"update", status(504), unknown}, {"update", errors.New("connection reset"), unknown},
		{"update", fmt.Errorf("wrapped: %w", status(401)), refused},
	} {
		if got := outcomeOf(test.verb, test.err); got != test.want {
			t.Errorf("%s: %v is %d, want %d", test.verb, test.err, got, test.want)
		}
	}
}

func TestIllegalTransitionEndsTheElection(t *testing.T) {
	m := newTable(t).lead()
	m.become(Starting)
	m.is(Stopped)
	if m.failure == nil || m.leading(m.now) {
		t.Errorf("failure %v", m.failure)
	}
}

func TestReadLeaseWithHolesInIt(t *testing.T) {
	for name, spec := range map[string]coordinationv1.LeaseSpec{
		"empty":               {},
		"holder alone":        {HolderIdentity: new("b_1")},
		"all but a holder":    {LeaseDurationSeconds: new(int32(15)), LeaseTransitions: new(int32(3)), RenewTime: &metav1.MicroTime{}},
		"negative duration":   {HolderIdentity: new("b_1"), LeaseDurationSeconds: new(int32(-5))},
		"no transitions left": {HolderIdentity: new(""), LeaseTransitions: new(int32(1<<31 - 1))},
	} {
		m := newTable(t)
		r, err := readLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "9"}, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		m.see(r)
		for m.last.write == nil {
			if m.last.read {
				m.do(observed{from: byRead, record: r, version: r.version})
				continue
			}
			m.after(m.last.wake).do(tick{})
		}
		if waited, free := m.now.Boot-time.Hour, r.holder == ""; free != (waited < time.Second) || waited > 15*time.Second {
			t.Errorf("%s: taken after %s", name, waited)
		}
		if got := m.last.write.record.transitions; got < r.transitions {
			t.Errorf("%s: %d transitions after %d", name, got, r.transitions)
		}
	}
	for _, version := range []string{"", "0", "-1", "abc", "1.5"} {
		if _, err := readLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}); err == nil {
			t.Errorf("resourceVersion %q is taken for a number", version)
		}
	}
}
