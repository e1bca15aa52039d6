// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// worker writes a beat each period while its pod leads.
type worker struct {
	leadership *leadership
	journal    string // URL; none where empty
	period     time.Duration
	drain      time.Duration // for how long the work goes on after the app was told to finish
	handover   time.Duration // for how long the sidecar keeps the lease for the app to finish
	resign     bool          // resigns as soon as it is told to stop
	pod, uid   string
	process    int64

	told    atomic.Int64 // when it was told to finish: to stop, or by the sidecar that hands over; 0: not yet
	refused int64        // the token with which a write was refused
	seq     int
	client  http.Client
}

// tellToFinish begins the drain, where it has not begun yet.
func (w *worker) tellToFinish() { w.told.CompareAndSwap(0, int64(journal.SinceBoot())) }

// drained tells whether the app has been told to finish and has done so.
func (w *worker) drained() bool {
	told := w.told.Load()
	return told != 0 && journal.SinceBoot() >= time.Duration(told)+w.drain
}

// mayWork is the token with which the app may work now; 0 where it may not.
func (w *worker) mayWork(t term) int64 {
	now := journal.SinceBoot()
	if now >= t.until || w.drained() || t.handingOver && (w.told.Load() == 0 || now >= t.handingOverSince+w.handover) {
		return 0
	}
	return t.token
}

// leads is the token with which the app answers as the leader: also one that drains, unless its sidecar is handing over. 0
// where it does not lead.
func (w *worker) leads() int64 {
	t := w.leadership.term()
	if t.handingOver {
		return 0
	}
	return w.mayWork(t)
}

// run works until ctx ends, and then until the drain is over.
func (w *worker) run(ctx context.Context) {
	ticker := time.NewTicker(w.period)
	defer ticker.Stop()
	said := false // that the work has stopped
	for ctx.Err() == nil || !w.drained() {
		t := w.leadership.term()
		switch {
		case ctx.Err() != nil:
			w.tellToFinish()
			w.resignOnce()
		case t.handingOver:
			w.tellToFinish()
		default:
			said = false
			w.told.Store(0) // the sidecar had handed over for another reason than a stop
		}
		if token := w.mayWork(t); token != 0 && token != w.refused {
			w.beat(token, t.until)
		} else if t.handingOver && !said {
			said = true
			w.leadership.command("release")
		}
		<-ticker.C
	}
	if t := w.leadership.term(); !said && (t.token != 0 || t.handingOver) {
		w.leadership.command("release") // 409 where the sidecar is not told to stop yet, as a native one
	}
}

// resignOnce begins the handover, where the app is to do so as it is told to stop.
func (w *worker) resignOnce() {
	if w.resign {
		w.resign = false
		w.leadership.command("resign")
	}
}

// beat is one piece of work. It is given up only when the leadership is over: what is given up may still be stored later.
func (w *worker) beat(token int64, until time.Duration) {
	if w.journal == "" {
		return
	}
	w.seq++
	b := journal.Beat{Pod: w.pod, UID: w.uid, Process: w.process, Token: token, Seq: w.seq, Wall: time.Now(),
		Started: journal.SinceBoot(), Boot: journal.Boot(), Draining: w.told.Load() != 0}
	ctx, cancel := context.WithTimeout(context.Background(), until-b.Started)
	defer cancel()
	body, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.journal, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	response, err := w.client.Do(req)
	if err != nil {
		log.Printf("beat %d: %v", w.seq, err)
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode == http.StatusConflict {
		w.refused = token
	}
	if response.StatusCode != http.StatusNoContent {
		log.Printf("beat %d: %s", w.seq, response.Status)
	}
}
