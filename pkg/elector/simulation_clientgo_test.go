// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"fmt"
	"time"
)

// clientGo is a candidate with the semantics of client-go 0.37's LeaderElector (tools/leaderelection), as far as they
// concern the others: it polls with jitter, compares records at whole-second precision, counts the record's duration
// from when it saw it change, and gives up after a renew deadline without success.
type clientGo struct {
	world    *world
	name     string
	observed *record
	seenAt   time.Duration
	holds    bool
	sent     time.Duration // when its last successful write was sent
	since    time.Duration // when it began to try to renew
	epoch    int
	gone     bool
}

func (w *world) joinClientGo() {
	g := &clientGo{world: w, name: fmt.Sprintf("clientgo%d", len(w.guests)+1)}
	w.guests = append(w.guests, g)
	w.logf("%s starts", g.name)
	g.try()
}

// leads is what it may be held to: client-go itself counts from the answer of a renewal, not from its sending, which
// is its own to mend.
func (g *clientGo) leads() bool {
	return !g.gone && g.holds && g.world.now-g.sent < g.world.timing.renewDeadline
}

// try is tryAcquireOrRenew and the loops around it.
func (g *clientGo) try() {
	w, t := g.world, &g.world.timing
	if g.gone {
		return
	}
	again := func(succeeded bool) {
		switch {
		case g.holds && succeeded:
			g.since = w.now
			w.after(t.retryPeriod, g.try)
		case g.holds && w.now-g.since >= t.renewDeadline:
			w.logf("%s gives up", g.name)
			g.holds = false
			w.after(t.retryPeriod, g.try)
		case g.holds:
			w.after(t.retryPeriod, g.try)
		default:
			w.after(t.retryPeriod+w.upTo(t.retryPeriod*12/10), g.try)
		}
	}
	var lease *record
	g.call(func() { lease = w.server.lease }, func() {
		if lease == nil || g.observed == nil || !sameToTheSecond(lease, g.observed) {
			g.observed, g.seenAt = lease, w.now
		}
		if lease != nil && lease.holder != "" && lease.holder != g.name && w.now-g.seenAt < lease.duration {
			g.holds = false
			again(false)
			return
		}
		next := claim(lease, &settings{identity: g.name, leaseDuration: t.leaseDuration}, time.Unix(1e9, 0).Add(w.now))
		if lease != nil && lease.holder == g.name {
			next = renewal(lease, t.leaseDuration, time.Unix(1e9, 0).Add(w.now))
		}
		var err error
		sent, epoch := w.now, 0
		g.call(func() {
			var stored *record
			if stored, err = w.server.write(next); err == nil {
				next, epoch = stored, w.server.epoch
			}
		}, func() {
			if err == nil {
				w.logf("%s writes version %d", g.name, next.version)
				if !g.holds {
					g.since = w.now
				}
				g.holds, g.sent, g.epoch = true, sent, epoch
				g.observed, g.seenAt = next, w.now
			}
			again(err == nil)
		}, func() { again(false) })
	}, func() { again(false) })
}

func sameToTheSecond(a, b *record) bool {
	return a.uid == b.uid && a.holder == b.holder && a.duration == b.duration && a.transitions == b.transitions &&
		a.renewed.Unix() == b.renewed.Unix() && a.acquired.Unix() == b.acquired.Unix()
}

// call is a request with half the renew deadline to be answered in, which is what Kubernetes components give theirs.
func (g *clientGo) call(effect, answer, silence func()) {
	w := g.world
	answered := false
	w.after(w.timing.renewDeadline/2, func() {
		if !answered {
			answered = true
			silence()
		}
	})
	if !w.calm && w.chance(w.mood.lossy) {
		return
	}
	w.after(w.latency(), func() {
		if w.server.down {
			return
		}
		effect()
		w.after(w.latency(), func() {
			if !answered {
				answered = true
				answer()
			}
		})
	})
}
