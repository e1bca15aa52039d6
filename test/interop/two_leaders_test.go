// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const (
	sigterm = syscall.SIGTERM
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// observeEvery is how often each sidecar is asked whether it leads.
const observeEvery = 10 * time.Millisecond

// TestNoTwoLeaders lets three sidecars and client-go's elector compete for one Lease while they are told to stop, killed,
// frozen and cut off at random, and checks what they said meanwhile: that no two of them led at one instant, and that
// fencing tokens only grow.
func TestNoTwoLeaders(t *testing.T) {
	length, seed := time.Minute, uint64(time.Now().UnixNano())
	if testing.Short() {
		length = 15 * time.Second
	}
	if text := os.Getenv("NO_TWO_LEADERS_TIME"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("NO_TWO_LEADERS_TIME is %q: %v", text, err)
		}
	}
	if text := os.Getenv("NO_TWO_LEADERS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("NO_TWO_LEADERS_SEED is %q: %v", text, err)
		}
	}
	t.Logf("NO_TWO_LEADERS_SEED=%d for this order of misfortunes", seed)

	c := &contest{t: t, lease: plane.Lease(t), random: rand.New(rand.NewPCG(seed, 0)), suffered: map[string]int{}}
	c.startTheirs()
	c.them.leads() // first, so that it has led
	for i := range 3 {
		c.seats = append(c.seats, c.seat(fmt.Sprintf("ours-%d", i)))
	}
	c.run(length)
	leaderships := c.end()

	t.Logf("in %s there were %d leaderships, %d of them of client-go; the candidates suffered %v",
		length, len(leaderships), count(leaderships, func(l leadership) bool { return l.token == 0 }), c.suffered)
	if least := max(3, int(length/(10*time.Second))); len(leaderships) < least {
		t.Errorf("there were %d leaderships, fewer than %d, which proves too little", len(leaderships), least)
	}
	for _, what := range misfortunes {
		if length >= time.Minute && c.suffered[what] == 0 {
			t.Errorf("nobody suffered a %s, which proves too little", what)
		}
	}
	for _, violation := range violations(leaderships) {
		t.Error(violation)
	}
}

// contest is the stage of TestNoTwoLeaders.
type contest struct {
	t        *testing.T
	lease    *cluster.Lease
	random   *rand.Rand
	seats    []*seat
	them     *theirs
	runs     int // of them
	cut      *proxy.Proxy
	pending  []appointment
	deck     []string // of misfortunes to come
	suffered map[string]int
	history  []leadership
}

// misfortunes are what a sidecar can suffer.
var misfortunes = []string{"SIGTERM", "SIGKILL", "restart", "freeze", "cut", "black hole"}

// misfortune draws the next one. Each comes once before one comes again.
func (c *contest) misfortune() string {
	if len(c.deck) == 0 {
		for _, i := range c.random.Perm(len(misfortunes)) {
			c.deck = append(c.deck, misfortunes[i])
		}
	}
	drawn := c.deck[0]
	c.deck = c.deck[1:]
	c.suffered[drawn]++
	return drawn
}

// seat is a pod of ours. Its sidecar comes and goes.
type seat struct {
	name     string
	pod      int // counts the pods: each has a UID of its own
	network  *proxy.Proxy
	sidecar  *sidecar.Sidecar // nil: there is none
	observed func() []sidecar.Answer
	busy     bool // suffers something at present
}

// appointment is something that has to be done later.
type appointment struct {
	at time.Time
	do func()
}

func (c *contest) seat(name string) *seat {
	s := &seat{name: name, network: proxy.Start(c.t, plane.Address())}
	c.occupy(s)
	return s
}

func (c *contest) occupy(s *seat) {
	c.t.Helper()
	s.sidecar = start(c.t, c.lease, cluster.Via(plane.Config(), s.network.Address), s.name, fmt.Sprint("POD_UID=", s.pod))
	s.observed = s.sidecar.Observe(observeEvery)
}

// vacate ends the sidecar, and takes down what it said. Killed says that it had no warning: what it promised last has to
// be kept by the others.
func (c *contest) vacate(s *seat, killed bool) {
	s.sidecar.Kill()
	c.history = append(c.history, leaderships(fmt.Sprintf("%s of pod %d", s.name, s.pod), s.observed(), killed)...)
	s.sidecar = nil
}

func (c *contest) startTheirs() {
	c.cut = proxy.Start(c.t, plane.Address())
	c.runs++
	c.them = startTheirs(c.t, c.lease, cluster.Via(plane.Config(), c.cut.Address), fmt.Sprintf("theirs-%d", c.runs))
}

// retireTheirs waits for the end of client-go's elector, and takes down when it led.
func (c *contest) retireTheirs() {
	c.t.Helper()
	c.them.ended()
	if from, until, ok := c.them.leadership(); ok {
		c.history = append(c.history, leadership{who: c.them.name, first: moment{from, from}, from: from, until: until})
	}
}

// later is a random time, up to one and a half leases.
func (c *contest) later() time.Time {
	return time.Now().Add(time.Duration(c.random.Int64N(int64(leaseDuration * 3 / 2))))
}

// run lets misfortunes happen.
func (c *contest) run(length time.Duration) {
	c.t.Helper()
	end := time.Now().Add(length)
	next := time.Now()
	theyAreBusy := false
	for now := time.Now(); now.Before(end); now = time.Now() {
		slices.SortFunc(c.pending, func(a, b appointment) int { return a.at.Compare(b.at) })
		if len(c.pending) > 0 && !c.pending[0].at.After(now) {
			due := c.pending[0]
			c.pending = c.pending[1:]
			due.do()
			continue
		}
		if !next.After(now) {
			next = now.Add(time.Duration(c.random.Int64N(int64(leaseDuration / 3))))
			switch victim := c.victim(); {
			case victim != nil:
				c.strike(victim)
			case !theyAreBusy:
				theyAreBusy = true
				c.strikeTheirs(func() { theyAreBusy = false })
			}
			continue
		}
		wake := next
		if len(c.pending) > 0 && c.pending[0].at.Before(wake) {
			wake = c.pending[0].at
		}
		c.pass(time.Until(wake))
	}
}

// pass lets time pass while the candidates contend.
func (c *contest) pass(d time.Duration) {
	c.t.Helper()
	select {
	case <-time.After(d):
	case <-c.t.Context().Done():
		c.t.Fatal("the test ended early")
	}
}

// victim chooses who is struck next: mostly the holder of the lease. Nil is client-go's elector.
func (c *contest) victim() *seat {
	holder := cluster.Holder(c.lease.Get())
	if c.random.IntN(3) > 0 {
		for _, s := range c.seats {
			if holder == fmt.Sprintf("%s_%d", s.name, s.pod) && !s.busy {
				return s
			}
		}
		return nil
	}
	if s := c.seats[c.random.IntN(len(c.seats))]; !s.busy {
		return s
	}
	return nil
}

// strike makes a sidecar suffer something, and makes an appointment for the end of it.
func (c *contest) strike(s *seat) {
	s.busy = true
	then := func(do func()) {
		c.pending = append(c.pending, appointment{c.later(), func() { do(); s.busy = false }})
	}
	nextPod := func() { s.pod++; c.occupy(s) }
	switch c.misfortune() {
	case "SIGTERM":
		s.sidecar.Is(sigterm)
		then(func() { c.vacate(s, false); nextPod() })
	case "SIGKILL":
		c.vacate(s, true)
		then(nextPod)
	case "restart":
		c.vacate(s, false) // its successor in the pod may go on at once
		c.occupy(s)
		s.busy = false
	case "freeze":
		s.sidecar.Is(sigstop)
		then(func() { s.sidecar.Is(sigcont) })
	case "cut":
		s.network.Cut()
		then(s.network.Heal)
	case "black hole":
		s.network.BlackHole()
		then(s.network.Heal)
	}
}

// strikeTheirs ends client-go's elector, with a release or without, and starts another later.
func (c *contest) strikeTheirs(over func()) {
	if c.random.IntN(2) == 0 {
		c.suffered["cancel (client-go)"]++
		c.them.stop()
	} else {
		c.suffered["cut (client-go)"]++
		c.cut.Cut()
	}
	c.pending = append(c.pending, appointment{c.later(), func() {
		c.them.stop()
		c.retireTheirs()
		c.startTheirs()
		over()
	}})
}

// end ends everybody, and returns all that led.
func (c *contest) end() []leadership {
	for _, s := range c.seats {
		if s.sidecar != nil {
			c.vacate(s, true)
		}
	}
	c.them.stop()
	c.retireTheirs()
	return c.history
}

// moment is when something was certainly so at some instant.
type moment struct{ sent, received time.Time }

// leadership is one term of one process, as far as it was seen.
type leadership struct {
	who   string
	token uint64 // 0: client-go has none
	first moment
	// From and until bound the time in which it certainly led: from the first answer that said so, to when the last one
	// was asked for. Until can be before from.
	from, until time.Time
}

func (l leadership) String() string {
	return fmt.Sprintf("%s (token %d, seen from %s to %s)", l.who, l.token, l.from.Format(clock), l.until.Format(clock))
}

const clock = "15:04:05.000000"

// leaderships are those that the answers of one process tell of. A process that was killed keeps its promise beyond its
// end: an app that was told may go on for validForMs.
func leaderships(who string, answers []sidecar.Answer, killed bool) []leadership {
	byToken := map[uint64]*leadership{}
	for _, answer := range answers {
		if !answer.IsLeader {
			continue
		}
		l := byToken[answer.FencingToken]
		if l == nil {
			l = &leadership{who: who, token: answer.FencingToken, first: moment{answer.Sent, answer.Received}, from: answer.Received}
			byToken[answer.FencingToken] = l
		}
		l.until = answer.Sent
		if killed {
			l.until = answer.Sent.Add(time.Duration(answer.ValidForMs) * time.Millisecond)
		}
	}
	var all []leadership
	for _, l := range byToken {
		all = append(all, *l)
	}
	return all
}

// violations says what must not be.
func violations(all []leadership) []string {
	all = slices.SortedFunc(slices.Values(all), func(a, b leadership) int {
		return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until))
	})
	var found []string
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case b.first.sent.After(a.from) && b.from.Before(a.until):
				found = append(found, fmt.Sprintf("two leaders at once: %s and %s", a, b))
			case b.from.Before(a.until) && b.from.Before(b.until):
				found = append(found, fmt.Sprintf("two leaders at once: %s and %s", a, b))
			case a.token != 0 && b.token != 0 && b.first.sent.After(a.from) && b.token <= a.token:
				found = append(found, fmt.Sprintf("the fencing token did not grow from %s to %s", a, b))
			}
		}
	}
	return found
}

// The judge has to be able to find what it looks for.
func TestViolationsAreFound(t *testing.T) {
	begin := time.Now()
	led := func(token uint64, from, until int) leadership {
		at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
		return leadership{token: token, first: moment{at(from - 1), at(from)}, from: at(from), until: at(until)}
	}
	for name, test := range map[string]struct {
		all  []leadership
		want int
	}{
		"one after the other":         {[]leadership{led(1, 10, 20), led(2, 30, 40)}, 0},
		"client-go in between":        {[]leadership{led(1, 10, 20), led(0, 30, 40), led(2, 50, 60)}, 0},
		"side by side":                {[]leadership{led(1, 10, 30), led(2, 20, 40)}, 1},
		"one within the other":        {[]leadership{led(2, 20, 21), led(1, 10, 30)}, 1},
		"one answer within the other": {[]leadership{led(1, 10, 30), led(2, 20, 19)}, 1},
		"beside client-go":            {[]leadership{led(0, 10, 30), led(2, 20, 40)}, 1},
		"a token that stays":          {[]leadership{led(1, 10, 20), led(1, 30, 40)}, 1},
		"a token that falls":          {[]leadership{led(0, 1, 5), led(7, 10, 20), led(3, 30, 40)}, 1},
		"a single answer before":      {[]leadership{led(1, 10, 9), led(2, 20, 30)}, 0},
	} {
		if got := violations(test.all); len(got) != test.want {
			t.Errorf("%s: found %q; want %d", name, got, test.want)
		}
	}
}

func count[E any](all []E, is func(E) bool) int {
	n := 0
	for _, e := range all {
		if is(e) {
			n++
		}
	}
	return n
}
