// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"cmp"
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var (
	simulationRuns = flag.Int("simulate", 4000, "schedules to simulate")
	simulationSeed = flag.Uint64("seed", 0, "simulate this one schedule and print its trace; 0: many, from a fixed seed on")
)

// TestSimulation runs the production machine of several candidates against a simulated API server, network, clocks and
// people, and checks after every event that at most one candidate leads (world.check has the whole list).
func TestSimulation(t *testing.T) {
	if *simulationSeed != 0 {
		w := simulate(*simulationSeed, true)
		t.Log(w.trace.String())
		if w.violation != "" {
			t.Fatal(w.violation)
		}
		return
	}
	var (
		group  sync.WaitGroup
		next   atomic.Uint64
		failed atomic.Bool
		mu     sync.Mutex
		total  statistics
	)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for !failed.Load() {
				seed := next.Add(1)
				if seed > uint64(*simulationRuns) {
					return
				}
				w := simulate(seed, false)
				mu.Lock()
				total.add(w.statistics)
				mu.Unlock()
				if w.violation != "" && !failed.Swap(true) {
					t.Errorf("seed %d: %s\nthe end of its trace:\n%s\nagain: go test ./pkg/elector -run TestSimulation -args -seed=%d",
						seed, w.violation, lastLines(simulate(seed, true).trace.String(), 60), seed)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d schedules: %+v", *simulationRuns, total)
	if !failed.Load() && (total.Leaderships < *simulationRuns || total.Faults < *simulationRuns) {
		t.Error("too little happened for the simulation to prove anything")
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// statistics say what a simulation went through.
type statistics struct {
	Events, Leaderships, Faults, Writes, Conflicts, LostReplies, LateWrites, Pauses, Crashes, Tamperings int
}

func (s *statistics) add(o statistics) {
	s.Events += o.Events
	s.Leaderships += o.Leaderships
	s.Faults += o.Faults
	s.Writes += o.Writes
	s.Conflicts += o.Conflicts
	s.LostReplies += o.LostReplies
	s.LateWrites += o.LateWrites
	s.Pauses += o.Pauses
	s.Crashes += o.Crashes
	s.Tamperings += o.Tamperings
}

// ---- The world: true time, and what happens at it -------------------------------------------------------------------

type happening struct {
	at    time.Duration
	order int
	do    func()
}

type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), a[i].order-a[j].order) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// mood is how much goes wrong in one schedule, each a probability or a scale.
type mood struct {
	slow, lossy, pausing, crashing, tampering, stepping, breaking, outages, twins float64
	drift                                                                         float64
}

type world struct {
	rng     *rand.Rand
	now     time.Duration
	agenda  agenda
	order   int
	mood    mood
	calm    bool // the faults are over: the network and the API work
	timing  settings
	mixed   bool // each candidate has timings of its own
	server  server
	guests  []*clientGo
	people  []*person
	tokens  uint64 // the largest fencing token so far
	created int    // people so far

	statistics
	tracing   bool
	trace     strings.Builder
	violation string
}

// timings are those that candidates run with; the longest comes first.
var timings = [...]settings{
	{leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second},
	{leaseDuration: 3 * time.Second, renewDeadline: 2 * time.Second, retryPeriod: 500 * time.Millisecond},
	{leaseDuration: time.Second, renewDeadline: 700 * time.Millisecond, retryPeriod: 150 * time.Millisecond},
}

// simulate runs one schedule: a time of trouble, then one of calm, at the end of which somebody has to lead.
func simulate(seed uint64, tracing bool) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), tracing: tracing}
	chance := func(p, most float64) float64 {
		if w.rng.Float64() > p {
			return 0
		}
		return w.rng.Float64() * most
	}
	w.mood = mood{
		slow: chance(0.6, 0.3), lossy: chance(0.5, 0.3), pausing: chance(0.5, 1), crashing: chance(0.5, 1),
		tampering: chance(0.3, 1), stepping: chance(0.3, 1), breaking: chance(0.6, 1), outages: chance(0.4, 1),
		twins: chance(0.2, 0.5),
		drift: chance(0.5, 0.12),
	}
	w.timing = timings[w.rng.IntN(len(timings))]
	if w.mixed = w.chance(0.2); w.mixed {
		w.timing = timings[0] // the longest, for all that is measured in it
	}
	w.server = server{world: w, version: 100}
	for range 2 + w.rng.IntN(6) {
		w.after(w.upTo(w.timing.leaseDuration), func() { w.join(nil) })
	}
	if w.timing.leaseDuration == timings[0].leaseDuration && !w.mixed {
		for range w.rng.IntN(3) {
			w.after(w.upTo(w.timing.leaseDuration), w.joinClientGo)
		}
	}
	trouble := 8 * w.timing.leaseDuration
	for at := time.Duration(0); at < trouble; at += w.upTo(w.timing.leaseDuration / 2) {
		w.at(at, w.misfortune)
	}
	w.run(trouble)
	w.calm = true
	w.server.down = false
	for _, p := range w.people {
		p.resume()
		p.tell(health{})
	}
	for _, g := range w.guests {
		g.gone = true // how long these take is not ours to promise
	}
	w.join(nil) // all the others may have gone
	w.join(nil)
	w.run(trouble + w.recovery())
	leader := w.leader()
	if leader == nil {
		w.violate("nobody leads %s after all trouble ended", w.recovery())
		return w
	}
	// In good order and with nothing wrong, a handover is a matter of two writes and an event.
	leader.tell(stop{})
	leader.tell(release{})
	w.run(w.now + time.Second/10)
	next := w.leader()
	if next == nil {
		w.violate("nobody leads 100 ms after %s released the lease", leader)
		return w
	}
	for _, p := range w.people {
		if knows := p.machine.snapshot(p.clock()).holder; !p.gone && p.pod != next.pod && knows != next.machine.identity {
			w.violate("%s takes %q for the leader, 100 ms after %s became it", p, knows, next)
		}
	}
	return w
}

// recovery is how long it may take after all trouble until somebody leads: the longest that requests of the past can
// interfere, then an expiry by the slowest clock, then some retries.
func (w *world) recovery() time.Duration {
	return longestDelay(w) + w.timing.leaseDuration*5/2 + 6*w.timing.retryPeriod
}

func (w *world) at(at time.Duration, do func()) {
	w.order++
	heap.Push(&w.agenda, happening{at: max(at, w.now), order: w.order, do: do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

func (w *world) run(until time.Duration) {
	for len(w.agenda) > 0 && w.agenda[0].at <= until && w.violation == "" {
		next := heap.Pop(&w.agenda).(happening)
		w.now = next.at
		next.do()
		w.Events++
		if w.Events > 1e6 {
			w.violate("somebody never sleeps")
		}
		w.check()
	}
	w.now = until
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		fmt.Fprintf(&w.trace, "%12s ", w.now)
		fmt.Fprintf(&w.trace, format+"\n", args...)
	}
}

func (w *world) violate(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
		w.logf("VIOLATION %s", w.violation)
	}
}

// leader is somebody who leads now.
func (w *world) leader() *person {
	for _, p := range w.people {
		if p.leads() {
			return p
		}
	}
	return nil
}

// check is what has to hold at every instant:
//   - at most one process leads, by its own clock at this true instant. One whose lease people gave away behind its back
//     is excused until it renews; it has to stop at its deadline like any other.
//   - the fencing token of a new term is larger than every earlier one.
//   - who leads last saw its own record, in the Lease that it wrote (rule S5), and has not been told to stop.
func (w *world) check() {
	leader := ""
	claim := func(name string, epoch int) {
		if epoch != w.server.epoch {
			return
		}
		if leader != "" {
			w.violate("%s and %s both lead", leader, name)
		}
		leader = name
	}
	for _, p := range w.people {
		m := p.machine
		if !p.leads() {
			continue
		}
		if m.seen == nil || m.seen.holder != m.identity || m.seen.uid != p.uid {
			w.violate("%s leads, but what it saw last is not its own record", p)
		}
		if p.stopped || m.unwell != nil {
			w.violate("%s leads after it was told to stop, or while its app is ill", p)
		}
		claim(p.name, p.epoch)
	}
	for _, g := range w.guests {
		if g.leads() {
			claim(g.name, g.epoch)
		}
	}
}

// ---- The API server -------------------------------------------------------------------------------------------------

// server keeps one Lease with compare-and-swap.
type server struct {
	world   *world
	version uint64
	uids    int
	lease   *record // nil: there is none
	history []observed
	epoch   int // counts what people did that may let two lead
	down    bool
	backup  *record
	idle    []func() // watches that have told everything
}

// rouse makes the idle watches look again.
func (s *server) rouse() {
	idle := s.idle
	s.idle = nil
	for _, look := range idle {
		look()
	}
}

func (s *server) store(r *record) *record {
	s.version++
	if r == nil {
		s.lease = nil
	} else {
		stored := *r
		stored.version = s.version
		if stored.uid == "" {
			s.uids++
			stored.uid = types.UID(fmt.Sprint(s.uids))
		}
		stored.lease = r.lease.DeepCopy()
		stored.lease.UID, stored.lease.ResourceVersion = stored.uid, fmt.Sprint(s.version)
		s.lease = &stored
	}
	s.history = append(s.history, observed{from: byWatch, record: s.lease, version: s.version})
	s.rouse()
	return s.lease
}

var errConflict = errors.New("conflict")

// write is a create (version 0) or an update.
func (s *server) write(r *record) (*record, error) {
	s.world.Writes++
	switch {
	case r.version == 0 && s.lease != nil,
		r.version != 0 && (s.lease == nil || s.lease.version != r.version || s.lease.uid != r.uid):
		s.world.Conflicts++
		return nil, errConflict
	}
	return s.store(r), nil
}

// ---- Processes ------------------------------------------------------------------------------------------------------

// person is one process: a machine, its clocks and its connection.
type person struct {
	world    *world
	name     string
	pod      string
	sandbox  string
	machine  *machine
	rate     float64       // of its clocks, by true time
	began    time.Duration // true time
	lost     time.Duration // of the boot clock, while its virtual machine stood still
	stepped  time.Duration // of the time of day
	paused   bool
	standing bool // paused with its whole machine, clocks included
	stood    time.Duration
	waiting  []func() // what happens when it wakes
	gone     bool
	orderly  bool      // gone in good order
	told     bool      // to stop
	deaf     bool      // the watch is silent
	wakes    int       // the number of the wake-up that counts
	watches  int       // the number of the watch that counts
	uid      types.UID // of the Lease that its last successful write left
	epoch    int       // of the server when that was stored
	stopped  bool      // it has taken in that it has to stop
	writing  bool      // a write has not been answered
}

func (p *person) String() string { return p.name }

// join starts a process, in place of a former one of the same pod where that is given.
func (w *world) join(former *person) {
	w.created++
	p := &person{world: w, name: fmt.Sprintf("p%d", w.created), began: w.now,
		rate: 1 + (2*w.rng.Float64()-1)*w.mood.drift}
	p.pod, p.sandbox = p.name, p.name
	s := w.timing
	if w.mixed {
		s = timings[w.rng.IntN(len(timings))]
	}
	s.lease = types.NamespacedName{Namespace: "default", Name: "web"}
	switch {
	case former != nil: // the same pod, where its predecessor is dead
		p.pod, p.sandbox, p.rate = former.pod, former.sandbox, former.rate
	case len(w.people) > 0 && w.chance(w.mood.twins): // a copied identity, of which others may be alive elsewhere
		p.pod = w.people[w.rng.IntN(len(w.people))].pod
	}
	s.sandbox = p.sandbox
	s.identity = p.pod + "_uid"
	s.random = w.rng.Float64
	if w.chance(0.3) {
		s.handoverTimeout = w.upTo(w.timing.leaseDuration)
	}
	if w.chance(0.3) {
		s.withdrawTimeout = w.upTo(w.timing.leaseDuration)
	}
	p.machine = newMachine(s)
	w.people = append(w.people, p)
	w.logf("%s starts (pod %s, clock rate %.3f)", p, p.pod, p.rate)
	p.step(tick{})
	p.look()
}

// clock is what the process reads.
func (p *person) clock() Instant {
	lost := p.lost
	if p.standing {
		lost += p.world.now - p.stood
	}
	boot := time.Duration(float64(p.world.now-p.began-lost) * p.rate)
	return Instant{Boot: time.Hour + boot, Wall: time.Unix(1e9, 0).Add(p.began + boot + p.stepped)}
}

// local is how much true time passes while the process's clock runs for d.
func (p *person) local(d time.Duration) time.Duration { return time.Duration(float64(d) / p.rate) }

// leads is what the process would answer now. One whose whole machine stands still cannot be asked.
func (p *person) leads() bool {
	return !p.gone && !p.standing && p.machine.leading(p.clock())
}

// do runs something in the process, when it is awake.
func (p *person) do(f func()) {
	switch {
	case p.gone:
	case p.paused:
		p.waiting = append(p.waiting, f)
	default:
		f()
	}
}

func (p *person) step(in input) {
	w := p.world
	before := p.machine.state
	out := p.machine.step(p.clock(), in)
	if w.tracing && (before != p.machine.state || len(out.events) > 0 || out.write != nil) {
		w.logf("%s %T %s -> %s", p, in, before, p.machine.state)
		for _, e := range out.events {
			w.logf("%s   %s %v", p, e.msg, e.kv)
		}
	}
	if _, told := in.(stop); told {
		p.stopped = true
	}
	if before != Leading && p.machine.state == Leading {
		if token := p.machine.token; token <= w.tokens && p.epoch == w.server.epoch {
			w.violate("%s leads with fencing token %d after %d", p, token, w.tokens)
		}
		w.tokens = max(w.tokens, p.machine.token)
		w.Leaderships++
	}
	if p.machine.state == Stopped {
		p.end()
		return
	}
	if out.abandon {
		p.writing = false
	}
	if out.write != nil {
		p.send(out.write)
	}
	if out.read {
		p.read()
	}
	if out.retract > 0 && (w.calm || w.chance(0.5)) {
		w.after(w.latency(), func() { p.tell(withdrawn{out.retract}) }) // possibly long after the timeout
	}
	if out.rewatch {
		p.watches++
		p.deaf = false
		w.after(w.latency(), func() { p.do(p.look) })
	}
	p.wakes++
	wake := p.wakes
	w.after(time.Microsecond+p.local(out.wake), func() { // a timer is never early
		p.do(func() {
			if wake == p.wakes {
				p.step(tick{})
			}
		})
	})
}

// end is the end of a process that was told to stop. One that ends in good order leaves nothing behind: the Lease does
// not name it, and no write of it is stored any more.
func (p *person) end() {
	w, m := p.world, p.machine
	w.logf("%s ends: %v", p, m.failure)
	p.gone = true
	p.orderly = m.failure == nil
	if m.failure != nil && strings.Contains(m.failure.Error(), "illegal") {
		w.violate("%s: %v", p, m.failure)
	}
	if r := w.server.lease; p.orderly && w.mood.tampering == 0 && m.mine(r) {
		w.violate("%s has ended in good order, but the Lease names it", p)
	}
}

// tell is a signal or a request of the app.
func (p *person) tell(in input) { p.do(func() { p.step(in) }) }

// call sends a request: effect happens at the server when the request gets there, answer in the process when the reply
// does, and silence where it does not within the time that the process allows.
func (p *person) call(effect func() error, answer func(error), silence func()) {
	w := p.world
	answered := false
	w.after(p.local(p.machine.requestTimeout()), func() {
		p.do(func() {
			if !answered {
				answered = true
				silence()
			}
		})
	})
	if !w.calm && w.chance(w.mood.lossy) {
		return
	}
	sent := w.now
	w.after(w.latency(), func() {
		if w.server.down {
			return
		}
		if w.now-sent > p.local(p.machine.requestTimeout()) {
			w.LateWrites++
		}
		err := effect()
		if !w.calm && w.chance(w.mood.lossy) {
			w.LostReplies++
			return
		}
		w.after(w.latency(), func() {
			p.do(func() {
				if !answered {
					answered = true
					answer(err)
				}
			})
		})
	})
}

// longestDelay is the longest that a request can be under way.
func longestDelay(w *world) time.Duration { return 2 * w.timing.leaseDuration }

func (w *world) latency() time.Duration {
	if !w.calm && w.chance(w.mood.slow) {
		return w.upTo([...]time.Duration{w.timing.retryPeriod, w.timing.renewDeadline, longestDelay(w)}[w.rng.IntN(3)])
	}
	return time.Millisecond + w.upTo(5*time.Millisecond)
}

func (p *person) send(wr *write) {
	w := p.world
	var stored *record
	epoch := 0
	w.logf("%s   sends %s on version %d", p, wr.purpose, wr.record.version)
	decidedOn := uint64(0)
	if p.machine.seen != nil {
		decidedOn = p.machine.seen.version
	}
	if p.writing || wr.record.version != decidedOn {
		w.violate("%s writes on version %d, decided on %d; another write in flight: %t", p, wr.record.version, decidedOn, p.writing)
	}
	if seen := p.machine.seen; wr.purpose != acquiring && (seen == nil || seen.holder != p.machine.identity) {
		w.violate("%s would %s what is not its own", p, wr.purpose)
	}
	p.writing = true
	epochThen := w.server.epoch
	p.call(func() (err error) {
		stored, err = w.server.write(wr.record)
		// Nothing can settle a creation for ever: people may delete the Lease that stood in its way.
		if err == nil && p.orderly && (wr.record.version != 0 || w.server.epoch == epochThen) {
			w.violate("a write of %s is stored after its end in good order", p)
		}
		epoch = w.server.epoch
		if err == nil {
			w.logf("%s's %s is stored as version %d", p, wr.purpose, stored.version)
		} else {
			w.logf("%s's %s meets a conflict", p, wr.purpose)
		}
		return err
	}, func(err error) {
		p.writing = p.writing && p.machine.inFlight != wr
		if err != nil {
			p.step(writeFailed{write: wr, outcome: conflicted, err: err})
			return
		}
		p.epoch, p.uid = epoch, stored.uid
		p.step(written{write: wr, record: stored})
	}, func() {
		p.writing = p.writing && p.machine.inFlight != wr
		p.step(writeFailed{write: wr, outcome: unknown, err: errors.New("no answer")})
	})
}

func (p *person) read() {
	w := p.world
	seen := observed{from: byRead}
	p.call(func() error {
		if seen.record = w.server.lease; seen.record != nil {
			seen.version = seen.record.version
		}
		return nil
	}, func(error) { p.step(seen) }, func() { p.step(readFailed{errors.New("no answer")}) })
}

// look is the observer: it lists, then watches.
func (p *person) look() {
	w := p.world
	p.watches++
	watch, from := p.watches, 0
	seen := observed{from: byList}
	again := func() {
		w.after(p.local(w.timing.retryPeriod/2+w.upTo(w.timing.retryPeriod/2)), func() { p.do(p.look) })
	}
	p.call(func() error {
		from = len(w.server.history)
		seen.record, seen.version = w.server.lease, w.server.version
		if seen.record != nil {
			seen.version = seen.record.version
		}
		return nil
	}, func(error) {
		p.step(seen)
		p.follow(watch, from)
	}, again)
}

// follow delivers the history from an index on, in order, each event with a lag of its own.
func (p *person) follow(watch, next int) {
	w := p.world
	w.after(w.latency(), func() {
		switch {
		case p.gone || watch != p.watches:
		case w.server.down || !w.calm && w.chance(w.mood.breaking/20):
			w.after(w.upTo(w.timing.retryPeriod), func() { p.do(p.look) })
		case next < len(w.server.history) && !p.deaf:
			event := w.server.history[next]
			p.do(func() { p.step(event) })
			p.follow(watch, next+1)
		default:
			w.server.idle = append(w.server.idle, func() { p.follow(watch, next) })
		}
	})
}

func (p *person) resume() {
	if !p.paused || p.gone {
		return
	}
	if p.standing {
		away := p.world.now - p.stood
		p.lost += away
		p.stepped += time.Duration(float64(away) * p.rate)
		p.standing = false
	}
	p.paused = false
	p.world.logf("%s wakes", p)
	waiting := p.waiting
	p.waiting = nil
	// What has piled up comes in any order.
	p.world.rng.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	for _, f := range waiting {
		p.do(f)
	}
}

// ---- Misfortunes ----------------------------------------------------------------------------------------------------

// misfortune is one thing that goes wrong, if the mood of this schedule has it.
func (w *world) misfortune() {
	alive := slices.DeleteFunc(slices.Clone(w.people), func(p *person) bool { return p.gone })
	if len(alive) == 0 {
		w.join(nil)
		return
	}
	p := alive[w.rng.IntN(len(alive))]
	if leader := w.leader(); leader != nil && w.chance(0.6) {
		p = leader
	}
	happened := true
	switch m := w.mood; w.rng.IntN(9) {
	case 0:
		if happened = w.chance(m.pausing) && !p.paused; happened {
			w.Pauses++
			p.paused = true
			// A stop of the clocks that a step of the time of day makes up for cannot be noticed: docs/guarantees.md.
			if p.standing = m.stepping == 0 && w.chance(0.5); p.standing {
				p.stood = w.now
			}
			w.logf("%s is paused (with its machine: %t)", p, p.standing)
			w.after(w.upTo(2*w.timing.leaseDuration), p.resume)
		}
	case 1:
		if happened = w.chance(m.crashing); happened {
			w.Crashes++
			w.logf("%s is killed", p)
			p.gone = true
			former := p
			if w.chance(0.5) {
				former = nil
			}
			w.after(w.upTo(w.timing.leaseDuration), func() { w.join(former) })
		}
	case 2:
		if happened = w.chance(m.crashing) && !p.told; happened {
			p.told = true
			w.logf("%s is told to stop", p)
			p.tell(stop{})
			if w.chance(0.3) {
				w.after(w.upTo(w.timing.leaseDuration), func() { p.tell(release{}) })
			}
			w.after(w.upTo(2*w.timing.leaseDuration), func() { w.join(nil) })
		}
	case 3:
		if happened = w.chance(m.tampering); happened {
			w.tamper()
		}
	case 4:
		if happened = w.chance(m.stepping); happened {
			by := w.upTo(4*w.timing.leaseDuration) - 2*w.timing.leaseDuration
			w.logf("%s's time of day is stepped by %s", p, by)
			p.do(func() { p.stepped += by })
		}
	case 5:
		if happened = w.chance(m.breaking); happened {
			p.deaf = true
			w.logf("%s's watch goes deaf", p)
		}
	case 6:
		if happened = w.chance(m.outages) && !w.server.down; happened {
			w.server.down = true
			w.logf("the API server is down")
			w.server.rouse()
			w.after(w.upTo(2*w.timing.leaseDuration), func() { w.server.down = false; w.logf("the API server is up") })
		}
	case 7:
		if happened = w.chance(m.crashing); happened {
			cooldown := w.upTo(w.timing.leaseDuration)
			w.logf("%s is asked to resign for %s", p, cooldown)
			p.tell(resign{cooldown: cooldown})
		}
	case 8:
		if happened = w.chance(m.crashing); happened {
			w.logf("%s's app is ill", p)
			p.tell(health{errors.New("ill")})
			w.after(w.upTo(w.timing.leaseDuration), func() { p.tell(health{}) })
		}
	}
	if happened {
		w.Faults++
	}
}

// tamper is what people and other programs do to a Lease.
func (w *world) tamper() {
	s := &w.server
	lease := s.lease
	if lease == nil {
		return
	}
	w.Tamperings++
	edit := *lease
	kind := w.rng.IntN(7)
	switch kind {
	case 0: // a label or an annotation: nobody's leadership may suffer
		s.store(&edit)
	case 1:
		s.epoch++
		s.store(nil)
	case 2:
		s.epoch++
		edit.holder = "intruder"
		s.store(edit.draw(lease, types.NamespacedName{}))
	case 3:
		s.epoch++
		edit.holder = ""
		s.store(edit.draw(lease, types.NamespacedName{}))
	case 4: // shorter for the others than the leader counts on
		s.epoch++
		edit.duration = time.Second
		s.store(edit.draw(lease, types.NamespacedName{}))
	case 5: // kept now, put back later, with the times of then
		if s.backup != nil {
			s.epoch++
			old := *s.backup
			old.uid = lease.uid
			s.store(old.draw(lease, types.NamespacedName{}))
		}
		s.backup = lease
	case 6: // deleted and created again with the same contents
		s.epoch++
		s.store(nil)
		edit.uid = ""
		s.store(&edit)
	}
	w.logf("people: tampering of kind %d, version %d", kind, s.version)
}
