// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

func TestTheAppWorksWhileItLeads(t *testing.T) {
	s := newStage(t, nil)
	s.isIdle(t)
	if kept := s.kept(); len(kept) > 0 {
		t.Fatalf("it has written %v as a follower", kept)
	}
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	if b := s.kept()[0]; b.Pod != "p" || b.UID != "u" || b.Token != 7 || b.Process != 1 || b.Seq != 1 || b.Started > b.Arrived || b.Boot == "" || b.Wall.IsZero() {
		t.Errorf("its first beat is %+v", b)
	}
	s.sidecar.say(leader{State: "following"})
	s.isIdle(t)
	s.sidecar.leads(8, time.Minute)
	s.works(t)
}

// TestADrainGoesOnWorking, and is over before the app ends.
func TestADrainGoesOnWorking(t *testing.T) {
	s := newStage(t, func(w *worker) { w.drain = 100 * time.Millisecond })
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	told := journal.SinceBoot()
	s.stop()
	<-s.done
	s.checkDrain(t, told, s.drain)
}

// checkDrain requires that an app that was told to finish has worked on for about so long, and has just ended its work.
func (s *stage) checkDrain(t *testing.T, told, want time.Duration) {
	t.Helper()
	r := journal.Reigns(s.kept())[0]
	if r.Last.Draining != (want > 0) {
		t.Errorf("its last write was one of the drain: %t", r.Last.Draining)
	}
	if took := journal.SinceBoot() - told; took < want {
		t.Errorf("it has ended after %s, want at least %s", took, want)
	}
	if worked := r.Last.Started - r.Drains; want > 0 && worked > 2*want {
		t.Errorf("it has worked on for %s, want about %s", worked, want)
	}
}

// TestAHandover: the work goes on for the drain, then the sidecar is told that it has stopped.
func TestAHandover(t *testing.T) {
	for _, c := range []struct{ drain, handover, works time.Duration }{
		{0, time.Minute, 0}, {50 * time.Millisecond, time.Minute, 50 * time.Millisecond}, {300 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		s := newStage(t, func(w *worker) { w.drain, w.handover = c.drain, c.handover })
		s.sidecar.leads(7, time.Minute)
		s.works(t)
		told := journal.SinceBoot()
		s.sidecar.say(leader{State: "handing-over"})
		eventually(t, "it knows", func() bool { return s.leadership.term().handingOver })
		if s.leads() != 0 {
			t.Error("it answers as the leader")
		}
		eventually(t, "it says that the work has stopped", func() bool { return s.sidecar.told("/release") })
		s.checkDrain(t, told, c.works)
		n := len(s.kept())
		s.isIdle(t)
		if len(s.kept()) != n {
			t.Error("it goes on after it has said that it has stopped")
		}
		s.sidecar.leads(9, time.Minute)
		s.works(t)
	}
}

func TestResigningAsItIsToldToStop(t *testing.T) {
	s := newStage(t, func(w *worker) { w.resign = true })
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	s.stop()
	<-s.done
	if !s.sidecar.told("/resign") || !s.sidecar.told("/release") {
		t.Errorf("it has told the sidecar %q", s.sidecar.commands)
	}
}

// TestARefusedWriteEndsTheWork, until there is another token.
func TestARefusedWriteEndsTheWork(t *testing.T) {
	s := newStage(t, nil)
	later, _ := json.Marshal(journal.Beat{Token: 9})
	if _, err := http.Post(s.journal, "application/json", bytes.NewReader(later)); err != nil {
		t.Fatal(err)
	}
	s.sidecar.leads(7, time.Minute)
	eventually(t, "it has written once", func() bool { return len(s.kept()) == 2 })
	s.writesNothing(t)
	if kept := s.kept(); len(kept) != 2 || !kept[1].Stale {
		t.Errorf("kept is %+v", kept)
	}
	s.sidecar.leads(10, time.Minute)
	s.works(t)
}
