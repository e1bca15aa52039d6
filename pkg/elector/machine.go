// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State is what a candidate is doing.
type State int

const (
	// Starting: the Lease has not been read yet.
	Starting State = iota
	// Following: another candidate leads, or nobody does.
	Following
	// Leading: a write of this process took the lease and its renew deadline has not passed.
	Leading
	// HandingOver: told to step down; not the leader any more, but the Lease may still name this process.
	HandingOver
	// Stopped: the end. Nothing is in flight and nothing will be written.
	Stopped
)

func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Following:
		return "following"
	case Leading:
		return "leading"
	case HandingOver:
		return "handing-over"
	case Stopped:
		return "stopped"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// legal is the table of transitions. Anything else ends the election (rule S6).
var legal = map[State][]State{
	Starting:    {Following, Stopped},
	Following:   {Leading, HandingOver, Stopped},
	Leading:     {Following, HandingOver},
	HandingOver: {Following, Stopped},
}

// settings are what the machine needs of Config.
type settings struct {
	lease           types.NamespacedName
	identity        string
	leaseDuration   time.Duration
	renewDeadline   time.Duration
	retryPeriod     time.Duration
	handoverTimeout time.Duration
	withdrawTimeout time.Duration // 0: there is nothing to withdraw
	sandbox         string
	address         netip.Addr
	random          func() float64 // uniform in [0, 1)
}

// requestTimeout lets a renewal hang, and another be tried for as long, before the renew deadline.
func (s *settings) requestTimeout() time.Duration { return (s.renewDeadline - s.retryPeriod) / 2 }

const (
	// crowdWait is the longest that a candidate waits before it writes a lease that everybody can see to be free, and
	// twice the shortest, in which a write of another reaches the watch. Some do not wait (see eagerness).
	crowdWait = 10 * time.Millisecond
	// mostEager is how likely a candidate is not to wait, at first: likelier than not, so that the median handover has no
	// wait in it, however few the candidates are.
	mostEager, leastEager = 0.6, 0.02
	// watchLag is how long a candidate that met a conflict leaves it to the watch to say with what.
	watchLag = 50 * time.Millisecond
	// releaseRetry is the pause after a failed request of a release: its budget is short.
	releaseRetry = 200 * time.Millisecond
	// maxUnsettled bounds what is remembered of writes that were never answered. Forgetting one is safe: should it be
	// stored after all, it counts as another's.
	maxUnsettled = 16
)

// The inputs of the machine.
type (
	// input is one of the types below.
	input interface{ isInput() }
	// observed: the Lease was seen. A nil record is no Lease.
	observed struct {
		from    source
		record  *record
		version uint64 // resourceVersion as of which this holds; 0: not known
	}
	readFailed struct{ err error }
	written    struct { // the write succeeded and left this record
		write  *write
		record *record
	}
	writeFailed struct {
		write   *write
		outcome outcome
		err     error
	}
	tick    struct{}                         // time has passed
	stop    struct{}                         // step down and end
	resign  struct{ cooldown time.Duration } // step down, and do not contend for so long after the release
	health  struct{ err error }              // of the app: while there is an error, step down and do not contend
	release struct{}                         // the app's work has ended: the handover need not wait any longer

	// withdrawn: what showed this process as the leader does not any more, or could not be changed.
	withdrawn struct{ retraction int }
)

func (observed) isInput()    {}
func (readFailed) isInput()  {}
func (written) isInput()     {}
func (writeFailed) isInput() {}
func (tick) isInput()        {}
func (stop) isInput()        {}
func (resign) isInput()      {}
func (health) isInput()      {}
func (release) isInput()     {}
func (withdrawn) isInput()   {}

// source is where a sighting of the Lease comes from.
type source int

const (
	byWatch source = iota // in order, but possibly late
	byList                // the observer's, possibly overtaken by a write of ours
	byRead                // the machine's own
)

// outcome is what is known of a write that did not succeed.
type outcome int

const (
	// unknown: it may have been stored, or may yet be.
	unknown outcome = iota
	// conflicted: refused, since the Lease is not what the write was decided on.
	conflicted
	// refused: for another reason, and certainly not stored.
	refused
)

// write is a write of the Lease, decided on record.version (rule S1); 0 creates the Lease.
type write struct {
	purpose purpose
	record  *record
	sent    Instant
}

type purpose string

const (
	acquiring purpose = "acquire"
	renewing  purpose = "renew"
	releasing purpose = "release"
)

// output is what the driver has to do after a step.
type output struct {
	write   *write        // send this; answer with written or writeFailed
	abandon bool          // the write in flight is settled: its answer is of no interest any more
	read    bool          // read the Lease; answer with observed or readFailed
	retract int           // above 0: withdraw what shows this process as the leader; answer with withdrawn and this number
	rewatch bool          // the watch missed something: begin it anew
	wake    time.Duration // above 0: step with tick after this long, if nothing happens before
	events  []event
}

// event is a decision that a person may want to read in the log.
type event struct {
	msg string
	kv  []any
}

// machine is the election. It does no I/O, starts no goroutine and reads no clock: step is told the time. It is not
// safe for concurrent use.
type machine struct {
	settings
	state State
	did   output // in this step

	// The Lease as last seen.
	known     bool    // it has been read
	seen      *record // nil: there is none
	seenAt    Instant // when its terms were first seen as they are (rule S4)
	version   uint64  // resourceVersion that this sighting holds as of
	sightings int     // counts them, so that a read knows whether it was overtaken
	ours      bool    // seen was written by this process, or by its predecessor in the same pod

	// Requests: at most one under way, read or write.
	inFlight  *write
	last      *record  // what the last successful write left
	unsettled []*write // writes of unknown outcome that may have been stored, or may yet be
	contested *write   // a write that met a conflict, until a read shows with what
	reading   bool
	readSent  Instant
	readSeen  int     // sightings when the read was sent
	wantRead  bool    // look before the next write
	retryAt   Instant // no request before, after one that failed
	trouble   string  // the failure that the log knows of
	stamped   Instant // the last time that was written, and when

	// Candidates.
	crowdFor   Instant // the seenAt for which crowdUntil was drawn
	crowdUntil Instant
	eagerness  float64 // how likely the next draw is to be no wait: it falls with each race lost, and comes back
	deposed    bool    // lost the lease a moment ago: others go first
	doubtedFor Instant // the seenAt for which a silent watch was checked by a read

	// Leadership.
	renewedAt Instant // the instant before the last successful write was sent (rule S3)
	token     uint64  // rule S7

	// Stepping down, and staying out.
	stopping    bool    // for good
	handoverEnd Instant // the lease is kept until then
	giveUpAt    Instant // no release is tried after that
	retractions int     // counts the times that what shows this process as the leader had to be withdrawn
	retracting  bool    // that is going on
	retractEnd  Instant // the release waits for it until then
	failure     error   // why the end was not an orderly one
	cooldown    time.Duration
	outUntil    Instant // after a resignation
	unwell      error   // what is wrong with the app
	leaving     string  // why it steps down, or last did; "" when it was told to stop
}

func newMachine(s settings) *machine {
	if s.random == nil {
		s.random = rand.Float64
	}
	return &machine{settings: s, eagerness: mostEager}
}

// step tells the machine what happened, at which instant, and returns what to do about it.
func (m *machine) step(now Instant, in input) output {
	m.did = output{}
	m.lapse(now)
	switch in := in.(type) {
	case observed:
		m.observe(now, in)
	case readFailed:
		m.readFailed(now, in)
	case written:
		m.settle(now, in)
	case writeFailed:
		m.writeFailed(now, in)
	case stop:
		m.stop(now)
	case resign:
		m.resign(now, in)
	case health:
		m.health(now, in)
	case release:
		m.endHandover(now)
	case withdrawn:
		m.retracting = m.retracting && in.retraction != m.retractions
	case tick:
	}
	switch m.state {
	case Following:
		m.follow(now)
	case Leading:
		m.lead(now)
	case HandingOver:
		m.handOver(now)
	case Starting, Stopped:
	}
	m.wakeIn(m.retryPeriod)
	return m.did
}

// leading tells whether this process leads at the given instant (rules S2 and S3).
func (m *machine) leading(now Instant) bool {
	return m.state == Leading && m.fresh(now)
}

// fresh tells whether the renew deadline has not passed.
func (m *machine) fresh(now Instant) bool {
	return now.worstSince(m.renewedAt) < m.renewDeadline
}

// ---- What was learned -----------------------------------------------------------------------------------------------

// observe takes in a sighting of the Lease, unless a newer one is known.
func (m *machine) observe(now Instant, in observed) {
	switch {
	case in.from == byRead:
		m.reading = false
		// A read that nothing overtook is right even with an older version: storage may have been restored.
		if m.sightings == m.readSeen || in.version > m.version {
			m.did.rewatch = m.doubtedFor == m.seenAt && !in.record.sameTerms(m.seen)
			m.accept(now, in.record, in.version)
			m.wantRead = false
			m.recovered()
		}
		unexplained := m.contested != nil && !m.settledBy(m.contested, m.seen)
		if m.contested = nil; unexplained || m.state == HandingOver && len(m.unsettled) > 0 {
			m.retryLater(now, now) // looking again at once would show the same
		}
	case !m.known || in.version > m.version:
		m.accept(now, in.record, in.version)
	case in.from == byList && in.version < m.version:
		m.wantRead = true // overtaken by a write of ours, or storage was restored: a read can tell
	}
}

// accept makes a sighting the one to decide on.
func (m *machine) accept(now Instant, r *record, version uint64) {
	if !m.known || !r.sameTerms(m.seen) {
		m.seenAt = now
	}
	first, before := !m.known, m.seen
	m.known, m.seen, m.version = true, r, version
	m.sightings++
	m.retryAt = Instant{}
	if m.state == Starting {
		m.become(Following)
	}
	if first && r != nil && r.holder == m.identity && m.sandbox != "" && r.sandbox == m.sandbox {
		m.last = r
		m.stamped = Instant{Boot: now.Boot, Wall: r.renewed.Add(time.Second)}
		m.log("the lease names this pod from before a restart", "resourceVersion", r.version)
	}
	if m.contested != nil && m.settledBy(m.contested, r) {
		m.contested, m.wantRead = nil, false
	}
	m.ours = m.mine(r)
	m.unsettled = slices.DeleteFunc(m.unsettled, func(w *write) bool { return m.settledBy(w, r) })
	switch {
	case m.ours:
		m.keep(r)
	case r != nil && r.holder == m.identity && (before == nil || before.holder != r.holder):
		m.log("the lease names this identity, but this process did not write it: it has to expire; each candidate needs an identity of its own",
			"identity", m.identity, "resourceVersion", r.version)
	}
	switch {
	case m.ours:
	case m.state == Leading:
		m.lose(m.usurper())
	case m.state == HandingOver:
		m.endHandover(now)
	}
}

// keep remembers our own record, but not on the strength of a write that may yet prove to have been refused.
func (m *machine) keep(r *record) {
	if m.inFlight == nil || !r.writtenBy(m.inFlight.record) {
		m.last = r
	}
}

// mine tells whether a record is the effect of a write of this process. The holder's name alone proves nothing: two
// processes can have been given one identity.
func (m *machine) mine(r *record) bool {
	if r == nil || r.holder != m.identity {
		return false
	}
	if r.writtenBy(m.last) || m.inFlight != nil && r.writtenBy(m.inFlight.record) {
		return true
	}
	for _, w := range m.unsettled {
		if r.writtenBy(w.record) {
			return true
		}
	}
	return false
}

// usurper says to what leadership was lost.
func (m *machine) usurper() error {
	switch r := m.seen; {
	case r == nil:
		return errors.New("the Lease was deleted")
	case m.last != nil && r.uid != m.last.uid:
		return fmt.Errorf("the Lease was deleted and created anew, now held by %q", r.holder)
	case r.holder == m.identity:
		return fmt.Errorf("another process writes as %q; each candidate needs an identity of its own", m.identity)
	case r.holder == "":
		return errors.New("another process emptied the Lease")
	default:
		return fmt.Errorf("the Lease now names %q", r.holder)
	}
}

// settledBy tells whether w cannot change the Lease any more once r has been seen: it has been stored, or what it was
// decided on is past.
func (m *machine) settledBy(w *write, r *record) bool {
	if w.record.version == 0 {
		return r != nil // creating: refused while there is a Lease
	}
	return r == nil || r.version != w.record.version
}

// settle takes in the success of the write in flight.
func (m *machine) settle(now Instant, in written) {
	if in.write != m.inFlight {
		return
	}
	m.inFlight = nil
	m.last = in.record
	m.recovered()
	if in.record.version >= m.version {
		m.accept(now, in.record, in.record.version)
	}
	if m.ours = m.mine(m.seen); !m.ours {
		return // released; or what was seen meanwhile is newer, and another's
	}
	m.renewedAt = in.write.sent
	if m.state != Following || m.stopping {
		return
	}
	if !m.fresh(now) {
		m.log("not leading: the answer came after the renew deadline")
		return
	}
	if m.out(now) { // since the write was sent
		m.become(HandingOver)
		m.keepUntil(now)
		m.leaving = m.illness()
		return
	}
	m.token = in.record.version
	m.become(Leading)
	m.log("leading", "term", in.record.transitions, "fencingToken", m.token)
}

// writeFailed takes in that the write in flight did not succeed, as far as is known.
func (m *machine) writeFailed(now Instant, in writeFailed) {
	w := m.inFlight
	if in.write != w {
		return
	}
	m.inFlight = nil
	switch in.outcome {
	case conflicted:
		m.wantRead, m.contested, m.retryAt = true, w, Instant{}
		if m.state == Following {
			// Common among candidates, and no trouble: one was faster. The watch will say who.
			m.eagerness = max(leastEager, m.eagerness/2)
			m.wantRead, m.retryAt = !m.settledBy(w, m.seen), now.Add(watchLag)
		}
		if m.ours = m.mine(m.seen); !m.ours && m.state == Leading {
			m.lose(m.usurper())
		}
		return
	case unknown:
		if m.ours {
			m.keep(m.seen)
		}
		if !m.settledBy(w, m.seen) {
			m.unsettled = append(m.unsettled, w)
			m.unsettled = m.unsettled[max(0, len(m.unsettled)-maxUnsettled):]
		}
		// A leader just writes again on the same resourceVersion: at most one of the two can be stored. A candidate
		// looks first.
		m.wantRead = m.wantRead || m.state == Following
	case refused:
	}
	m.retryLater(now, w.sent)
	m.failed(string(w.purpose), in.err)
}

func (m *machine) readFailed(now Instant, in readFailed) {
	m.reading = false
	m.retryLater(now, m.readSent)
	m.failed("read", in.err)
}

// retryLater sets when the next request may be sent after one that was sent at the given instant and failed. The wait
// never grows. That of candidates is drawn, so that an API server that comes back does not meet all of them at once.
func (m *machine) retryLater(now, sent Instant) {
	wait := m.retryPeriod
	switch m.state {
	case Leading:
		wait = max(0, wait-(now.Boot-sent.Boot))
	case HandingOver:
		wait = min(wait, releaseRetry)
	default:
		wait = wait/2 + time.Duration(m.random()*float64(wait/2))
	}
	m.retryAt = now.Add(wait)
}

// ---- What to do -----------------------------------------------------------------------------------------------------

// lapse ends leadership at the renew deadline (rule S3).
func (m *machine) lapse(now Instant) {
	if m.state == Leading && !m.fresh(now) {
		m.lose(fmt.Errorf("the lease was not renewed for %s", m.renewDeadline))
	}
}

func (m *machine) lose(why error) {
	m.become(Following)
	m.retryAt, m.deposed = Instant{}, true
	m.log("not leading any more", "because", why.Error())
}

// follow looks for a reason to take the lease.
func (m *machine) follow(now Instant) {
	if m.inFlight != nil || m.reading {
		return
	}
	if m.wantRead {
		m.read(now)
		return
	}
	why, crowded := m.claimable(now)
	if why == "" {
		m.watchOver(now)
		return
	}
	if m.out(now) {
		return
	}
	if crowded && m.crowdFor != m.seenAt {
		m.crowdFor, m.crowdUntil = m.seenAt, now
		if m.deposed || m.random() >= m.eagerness {
			m.crowdUntil = now.Add(crowdWait/2 + time.Duration(m.random()*float64(crowdWait/2)))
		}
		m.deposed = false
		m.eagerness = min(mostEager, m.eagerness*21/20)
	}
	if m.reached(now, m.retryAt) && m.reached(now, m.crowdUntil) {
		if m.trouble == "" {
			m.log("taking the lease", "because", why)
		}
		m.send(now, acquiring, claim(m.seen, &m.settings, m.stamp(now)))
	}
}

// claimable says why the lease may be taken now ("" where it may not), and whether a crowd of candidates is likely to
// learn it in the same moment.
func (m *machine) claimable(now Instant) (why string, crowded bool) {
	switch {
	case m.seen == nil:
		return "there is no Lease", true
	case m.seen.holder == "":
		return "it is free", true
	case m.ours:
		return "it is this process's own", false
	case m.expiresIn(now) <= 0:
		return fmt.Sprintf("%q has not renewed it for %s", m.seen.holder, m.goodFor()), true
	}
	return "", false
}

// goodFor is how long the record that is seen counts without a change: for its own duration, not for ours (rule S4).
func (m *machine) goodFor() time.Duration {
	if m.seen.duration == 0 {
		return m.leaseDuration
	}
	return m.seen.duration
}

// expiresIn is how long the lease that is seen has left, by the boot clock alone: a step of the time of day must not
// make anybody take a lease early.
func (m *machine) expiresIn(now Instant) time.Duration {
	return m.goodFor() - (now.Boot - m.seenAt.Boot)
}

// watchOver waits for another's lease to expire. When two thirds have gone by without a renewal, the watch may be deaf:
// a read tells, and where that hangs the connection is replaced while there is still time.
func (m *machine) watchOver(now Instant) {
	left := m.expiresIn(now)
	m.wakeIn(left)
	if m.doubtedFor != m.seenAt && m.reached(now, m.seenAt.Add(m.goodFor()*2/3)) {
		m.doubtedFor = m.seenAt
		m.read(now)
	}
}

// lead renews the lease, a retry period after the last time.
func (m *machine) lead(now Instant) {
	m.wakeIn(m.renewDeadline - now.worstSince(m.renewedAt))
	switch {
	case m.inFlight != nil || m.reading:
	case m.wantRead:
		m.read(now)
	case m.reached(now, m.renewedAt.Add(m.retryPeriod)) && m.reached(now, m.retryAt):
		m.send(now, renewing, renewal(m.seen, m.leaseDuration, m.stamp(now)))
	}
}

// stop begins the end: this process does not lead from here on.
func (m *machine) stop(now Instant) {
	m.stopping = true
	switch {
	case m.state == Leading:
		m.stepDown(now, "told to stop")
		m.leaving = ""
	case m.state == Following && (m.ours || m.inFlight != nil || len(m.unsettled) > 0):
		m.become(HandingOver)
		m.keepUntil(now)
		m.leaving = ""
	case m.state == Starting || m.state == Following:
		m.become(Stopped)
	}
}

func (m *machine) resign(now Instant, in resign) {
	if m.state == Leading {
		m.cooldown = in.cooldown
		m.stepDown(now, fmt.Sprintf("asked to resign, with a cooldown of %s", in.cooldown))
	}
}

func (m *machine) health(now Instant, in health) {
	switch {
	case m.unwell != nil && in.err == nil:
		m.log("the app is healthy")
	case m.unwell == nil && in.err != nil:
		m.log("the app is unhealthy", "err", in.err.Error())
	}
	m.unwell = in.err
	if m.unwell != nil && m.state == Leading {
		m.stepDown(now, m.illness())
	}
}

// illness says what is wrong with the app, "" where nothing is.
func (m *machine) illness() string {
	if m.unwell == nil {
		return ""
	}
	return "the app is unhealthy: " + m.unwell.Error()
}

// stepDown ends leadership while the lease is still held, so that it can be handed over in order.
func (m *machine) stepDown(now Instant, why string) {
	m.become(HandingOver)
	m.keepUntil(now.Add(m.handoverTimeout))
	if m.withdrawTimeout > 0 {
		m.retractions++
		m.retracting, m.retractEnd = true, now.Add(min(m.withdrawTimeout, m.renewDeadline/2))
		m.did.retract = m.retractions
	}
	m.leaving = why
	m.log("handing over", "because", why, "keepingTheLeaseFor", m.handoverTimeout.String())
}

// steppedDown is the end of that, in order or not.
func (m *machine) steppedDown(now Instant, failure error) {
	if m.stopping {
		m.failure = failure
		m.become(Stopped)
		return
	}
	if failure != nil {
		m.log("handed over without a release", "err", failure.Error())
	}
	m.become(Following)
	m.outUntil, m.cooldown = now.Add(m.cooldown), 0
}

// out tells whether this process must not contend now.
func (m *machine) out(now Instant) bool {
	return m.unwell != nil || !m.reached(now, m.outUntil)
}

// keepUntil sets when the release begins. It does not wait for a read that may hang: a conflict would tell.
func (m *machine) keepUntil(end Instant) {
	m.handoverEnd, m.giveUpAt = end, end.Add(m.renewDeadline)
	m.wantRead, m.contested, m.retryAt = false, nil, Instant{}
}

// endHandover ends the time that the app has to finish.
func (m *machine) endHandover(now Instant) {
	if m.state == HandingOver && now.Boot < m.handoverEnd.Boot {
		m.keepUntil(now)
	}
}

// handOver keeps the lease for the app to finish, and for what showed this process as the leader to be withdrawn; then it
// settles what is on the wire and releases.
func (m *machine) handOver(now Instant) {
	if !m.fresh(now) {
		m.endHandover(now)
	}
	if !m.reached(now, m.handoverEnd) || m.retracting && m.ours && m.fresh(now) && !m.reached(now, m.retractEnd) {
		m.lead(now)
		return
	}
	if m.inFlight != nil && m.settledBy(m.inFlight, m.seen) {
		// The answer, which may be held up, can add nothing: what was seen shows the outcome.
		m.inFlight, m.did.abandon = nil, true
	}
	switch {
	case m.reached(now, m.giveUpAt):
		m.steppedDown(now, fmt.Errorf("lease %s: not released within %s; if it names this process, others can take it once it expires",
			m.lease, m.renewDeadline))
	case m.inFlight != nil:
	case m.ours && !m.wantRead:
		if m.reached(now, m.retryAt) {
			m.send(now, releasing, vacancy(m.seen, m.stamp(now)))
		}
	case !m.wantRead && len(m.unsettled) == 0:
		m.steppedDown(now, nil)
	case !m.reading:
		m.read(now)
	}
}

// stamp is the time to write on the Lease: the time of day, but no earlier than the boot clock says since the last one.
// client-go's standbys take a record for unchanged whose times fall into the same seconds as one that they saw before,
// which a time of day that is set back can bring about. One that is set back by more than a lease lasts cannot: they
// would have taken the lease before it came to those seconds again.
func (m *machine) stamp(now Instant) time.Time {
	stamp := now.Wall
	least := m.stamped.Wall.Add(max(now.Boot-m.stamped.Boot, time.Microsecond))
	if back := least.Sub(stamp); 0 < back && back <= 2*m.leaseDuration {
		stamp = least
	}
	m.stamped = Instant{Boot: now.Boot, Wall: stamp}
	return stamp
}

// send puts a write in flight.
func (m *machine) send(now Instant, p purpose, r *record) {
	m.inFlight = &write{purpose: p, record: r, sent: now}
	m.did.write = m.inFlight
}

// read reads the Lease, unless a failure was too short a time ago.
func (m *machine) read(now Instant) {
	if m.reached(now, m.retryAt) {
		m.reading, m.readSent, m.readSeen = true, now, m.sightings
		m.did.read = true
	}
}

// become is the one door between states.
func (m *machine) become(next State) {
	if !slices.Contains(legal[m.state], next) {
		m.failure = fmt.Errorf("lease %s: illegal transition from %s to %s", m.lease, m.state, next)
		next = Stopped
	}
	m.state = next
}

// reached tells whether an instant has come, and else sees to it that the machine is woken then.
func (m *machine) reached(now, at Instant) bool {
	left := at.Boot - now.Boot
	if left > 0 {
		m.wakeIn(left)
	}
	return left <= 0
}

func (m *machine) wakeIn(d time.Duration) {
	d = max(d, time.Nanosecond)
	if m.did.wake == 0 || d < m.did.wake {
		m.did.wake = d
	}
}

// failed logs a failure once, until it changes or is over.
func (m *machine) failed(doing string, err error) {
	if trouble := doing + ": " + gist(err); trouble != m.trouble {
		m.trouble = trouble
		m.log("request failed", "doing", doing, "err", err.Error(), "state", m.state.String())
	}
}

func (m *machine) recovered() {
	if m.trouble != "" {
		m.trouble = ""
		m.log("requests succeed again")
	}
}

func (m *machine) log(msg string, kv ...any) {
	m.did.events = append(m.did.events, event{msg: msg, kv: kv})
}
