// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// TestWaysToLoseTheLeader is one pair of pods for each shape and timings, which loses its leader in one way after the other.
func TestWaysToLoseTheLeader(t *testing.T) {
	t.Parallel()
	for _, timings := range []stage.Timings{stage.Default, stage.Short} {
		for _, shape := range stage.Shapes {
			t.Run(timings.String()+"/"+shape.String(), func(t *testing.T) {
				t.Parallel()
				loseInEachWay(t, shape, timings)
			})
		}
	}
}

func loseInEachWay(t *testing.T, shape stage.Shape, timings stage.Timings) {
	app, sidecar := watched(timings)
	s := stage.New(t, stage.Setup{Shape: shape, Timings: timings, Sidecar: sidecar,
		Objects: []runtime.Object{stage.Deployment("web", 2, app)}})
	way := func(name string, lose func(s *stage.Stage, row *stage.Row)) {
		t.Run(name, func(t *testing.T) {
			lose(s.In(t), stage.NewRow(t, name, shape, timings))
		})
	}
	way("kill -9 of the sidecar", killSidecar)
	way("kill -9 of the app", killApp)
	way("ordinary delete", ordinaryDelete)
	way("force delete", forceDelete)
	way("kill -9 of both, and force delete", powerCut)
	way("Lease rewritten", rewritten)
}

// watched is an app that is checked on so that with the default timings it may be restarted, and with the short ones another
// pod is faster: it takes a while to start.
func watched(timings stage.Timings) (stage.App, map[string]string) {
	if timings == stage.Default {
		return stage.App{}, map[string]string{"ELECTOR_APP_HEALTH": "http://127.0.0.1:8080/healthz"}
	}
	return stage.App{Env: map[string]string{"APP_START_DELAY": slowStart.String()}}, closelyWatched()
}

// closelyWatched are settings with which an app is soon seen to be unhealthy.
func closelyWatched() map[string]string {
	return map[string]string{"ELECTOR_APP_HEALTH": "http://127.0.0.1:8080/healthz", "ELECTOR_APP_HEALTH_PERIOD": "500ms",
		"ELECTOR_APP_HEALTH_TIMEOUT": "500ms", "ELECTOR_APP_HEALTH_FAILURES": "3"}
}

const (
	slowStart = 5 * time.Second
	// Failures × period + timeout, closely watched and by default.
	unhealthySoon = 3*500*time.Millisecond + 500*time.Millisecond
	unhealthy     = 3*2*time.Second + time.Second
)

func killSidecar(s *stage.Stage, row *stage.Row) {
	x := s.Lose(func(leader journal.Reign) { s.Kill(leader.First.Pod, "sidecar") })
	row.Fill(s.T, x, s.Timings.Expiry(), "lease duration + retry period")
	if s.Timings == stage.Default && !x.SamePod() {
		s.T.Error("the restarted sidecar has not taken its lease back, which it had time for")
	}
	if x.SameTerm() {
		s.T.Error("the term goes on: the sidecar was not killed")
	}
}

func killApp(s *stage.Stage, row *stage.Row) {
	x := s.Lose(func(leader journal.Reign) { s.Kill(leader.First.Pod, "app") })
	if s.Timings == stage.Default {
		row.Fill(s.T, x, unhealthy, "restarted before it counts as unhealthy")
		// Two periods is the least in which three checks can fail.
		if !x.SameTerm() && (!x.Released() || x.Idle() < 2*2*time.Second) {
			s.T.Errorf("next is %s after %s: the app was away too shortly to lose the lease", x, x.Idle())
		}
		return
	}
	limit, why := unhealthySoon+s.Timings.Lease/2, "failures × period + timeout + half the lease duration"
	if s.Shape == stage.Ordinary {
		limit, why = limit+stage.HandoverTimeout, why+" + handover timeout"
	}
	row.Fill(s.T, x, limit, why)
	// An ordinary container's sidecar keeps the lease for the handover timeout, in which the app is back: any pod may be next.
	if !x.Released() || x.SamePod() && s.Shape == stage.Native {
		s.T.Errorf("next is %s, want another pod after a release", x)
	}
}

func ordinaryDelete(s *stage.Stage, row *stage.Row) {
	x := s.Lose(func(leader journal.Reign) { s.Delete(leader.First.Pod) })
	row.Fill(s.T, x, s.Timings.Lease/2, "half the lease duration")
	if x.SamePod() || !x.Released() {
		s.T.Errorf("next is %s, want another pod after a release", x)
	}
}

func forceDelete(s *stage.Stage, row *stage.Row) {
	x := s.Lose(func(leader journal.Reign) { s.ForceDelete(leader.First.Pod) })
	row.Fill(s.T, x, s.Timings.Expiry(), "lease duration + retry period")
	if x.SamePod() {
		s.T.Errorf("next is %s, want another pod", x)
	}
	if !x.Released() { // it has a second for that, and a token that is of no pod any more
		s.T.Logf("it was not released: %s", s.Log(x.Old.First.Pod))
	}
}

// powerCut leaves nobody to release the Lease.
func powerCut(s *stage.Stage, row *stage.Row) {
	x := s.Lose(func(leader journal.Reign) {
		s.Kill(leader.First.Pod, "both")
		s.ForceDelete(leader.First.Pod)
	})
	row.Fill(s.T, x, s.Timings.Expiry(), "lease duration + retry period")
	if x.SamePod() || x.Released() {
		s.T.Errorf("next is %s, want another pod on expiry", x)
	}
	// The lease counts from the last renewal, which is at most a retry period before the kill, and a little late.
	if least := s.Timings.Lease - 2*s.Timings.Retry; x.Idle() < least {
		s.T.Errorf("the lease was taken %s after the kill: it cannot have expired before %s", x.Idle(), least)
	}
}

// rewritten makes an intruder the holder, right after a renewal. The old leader stops as it sees that, not as its next renewal
// fails: else the time until the intruder's lease has expired would not all be idle.
func rewritten(s *stage.Stage, row *stage.Row) {
	var intruder stage.Record
	x := s.Lose(func(journal.Reign) {
		s.Renewal()
		intruder = s.RewriteLease("intruder")
	})
	row.Fill(s.T, x, s.Timings.Expiry(), "lease duration + retry period")
	if x.Before == nil || x.Before.Version() != intruder.Version() {
		s.T.Errorf("the new term began on %v, want the intruder's record, %s", x.Before, intruder)
	}
	if least := s.Timings.Lease - s.Timings.Retry/2; x.Idle() < least {
		s.T.Errorf("nobody was at work for %s, want at least %s: the old leader has worked on", x.Idle(), least)
	}
}
