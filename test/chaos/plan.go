// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// The timing of all candidates. client-go counts a lease up to a second short, so that in a mix the renew deadline has to
// be two seconds below the lease duration.
const (
	leaseDuration = 5 * time.Second
	renewDeadline = 2500 * time.Millisecond
	retryPeriod   = 500 * time.Millisecond

	// client-go looks at the Lease once a retry period and more. At this pace it learns of an expiry as soon as the
	// sidecars do, which watch; else it would hardly ever lead.
	theirRetryPeriod = 100 * time.Millisecond
)

// The candidates: sidecars, and one of client-go.
const (
	sidecars = 5
	seats    = sidecars + 1
)

// target is what a fault happens to. Of each there can be one fault at a time, in each seat where it is a seat's.
type target string

const (
	ofProcess target = "process"
	ofNetwork target = "network"
	ofToken   target = "token"
	ofAPI     target = "API"
	ofLease   target = "Lease"
)

// kind is a kind of fault. The value is its name in the report.
type kind string

const (
	kill    kind = "SIGKILL, restart in the pod"
	replace kind = "SIGKILL, new pod"
	term    kind = "SIGTERM"
	freeze  kind = "SIGSTOP and SIGCONT"

	noRequests kind = "requests lost or late"
	noReplies  kind = "replies lost or late"
	blackHole  kind = "black hole"
	cut        kind = "cut off"
	drop       kind = "connections dropped"
	deaden     kind = "connections silent for ever"
	slow       kind = "slow network"

	apiRestart  kind = "API server restart"
	etcdRestart kind = "etcd restart"
	bothRestart kind = "API server and etcd restart"

	deletion     kind = "Lease deleted"
	otherHolder  kind = "Lease given to another"
	noHolder     kind = "Lease emptied"
	editDuration kind = "lease duration edited"
	annotate     kind = "Lease annotated"

	rotate kind = "token rotated"
	revoke kind = "token rotated, old one revoked"
)

// kinds are all there are. The weight is how often one comes in a deck.
var kinds = []struct {
	kind   kind
	target target
	weight int
}{
	{kill, ofProcess, 3}, {replace, ofProcess, 3}, {term, ofProcess, 4}, {freeze, ofProcess, 5},
	{noRequests, ofNetwork, 3}, {noReplies, ofNetwork, 3}, {blackHole, ofNetwork, 3}, {cut, ofNetwork, 2},
	{drop, ofNetwork, 2}, {deaden, ofNetwork, 2}, {slow, ofNetwork, 2},
	{apiRestart, ofAPI, 1}, {etcdRestart, ofAPI, 1}, {bothRestart, ofAPI, 1},
	{deletion, ofLease, 2}, {otherHolder, ofLease, 2}, {noHolder, ofLease, 2}, {editDuration, ofLease, 2}, {annotate, ofLease, 2},
	{rotate, ofToken, 2}, {revoke, ofToken, 1},
}

var targets = func() map[kind]target {
	m := map[kind]target{}
	for _, k := range kinds {
		m[k.kind] = k.target
	}
	return m
}()

// theLeader stands for the seat that leads when the fault comes.
const theLeader = -1

// fault is one thing that goes wrong.
type fault struct {
	kind   kind
	after  time.Duration // since the one before; longer where there is no seat for it yet
	seat   int           // the first choice; the next one that is free is hit
	length time.Duration // how long it lasts
	rest   time.Duration // how long a process or server is down
	die    int           // 0 to 11, for whatever else there is to choose
}

// schedule draws faults. The same seed gives the same ones.
type schedule struct {
	random *rand.Rand
	deck   []kind
}

func newSchedule(seed uint64) *schedule {
	return &schedule{random: rand.New(rand.NewPCG(seed, 0))}
}

func (s *schedule) next() fault {
	if len(s.deck) == 0 { // kinds come as often as their weight says before one comes more often
		for _, k := range kinds {
			for range k.weight {
				s.deck = append(s.deck, k.kind)
			}
		}
		s.random.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	f := fault{kind: s.deck[0]}
	s.deck = s.deck[1:]
	f.after = s.between(200*time.Millisecond, 2200*time.Millisecond)
	f.seat = s.random.IntN(seats)
	if s.random.IntN(2) == 0 {
		f.seat = theLeader
	}
	f.length = s.spread(leaseDuration/10, 2*leaseDuration)
	if f.kind == freeze {
		f.length = s.spread(leaseDuration/10, 3*leaseDuration)
	}
	f.rest = s.between(0, 2*time.Second)
	f.die = s.random.IntN(12)
	return f
}

func (s *schedule) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(high-low)))
}

// spread draws from low to high, small ones more often.
func (s *schedule) spread(low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), s.random.Float64()))
}
