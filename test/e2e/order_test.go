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

const drain = 5 * time.Second

// deleted stops the leader of a pair in good order.
func deleted(t *testing.T, name string, shape stage.Shape, app stage.App, sidecar map[string]string) (*stage.Row, stage.Succession) {
	t.Parallel()
	row := stage.NewRow(t, name, shape, stage.Default)
	s := stage.New(t, stage.Setup{Shape: shape, Timings: stage.Default, Sidecar: sidecar, Objects: []runtime.Object{stage.Deployment("web", 2, app)}})
	x := s.Lose(func(leader journal.Reign) { s.Delete(leader.First.Pod) })
	if x.SamePod() {
		t.Errorf("next is %s, want another pod", x)
	}
	return row, x
}

// releasedLast requires that the Lease was released, and only after the app's last write.
func releasedLast(t *testing.T, x stage.Succession) {
	t.Helper()
	if !x.Released() {
		t.Fatalf("next is %s, want one after a release", x)
	}
	// One node's time of day: the sidecar wrote the record in the pod of the app.
	if last, release := x.Old.Last.Wall, x.Before.Renewed(); !last.Before(release) {
		t.Errorf("the app still began a write at %s; the lease was released at %s", last, release)
	}
	if last, release := x.Old.Last.ArrivedWall, x.Before.Renewed(); x.Old.Last.Boot == x.New.First.Boot && !last.Before(release) {
		t.Errorf("a write arrived at %s; the lease was released at %s", last, release)
	}
}

// TestCaseI1AppDrains: there is no preStop, and the app works until its end. In the native sidecar SIGTERM comes after that; the
// ordinary container keeps the lease until the app says that it has finished.
func TestCaseI1AppDrains(t *testing.T) {
	t.Parallel()
	for shape, drain := range map[stage.Shape]time.Duration{
		stage.Native: drain,
		// A sidecar that hands over tells of no validity, so the app works on for what is left of the last one, and no longer.
		stage.Ordinary: 3 * time.Second,
	} {
		t.Run(shape.String(), func(t *testing.T) {
			row, x := deleted(t, "I1: the app drains "+drain.String(), shape, stage.App{Env: map[string]string{"APP_DRAIN": drain.String()}}, nil)
			row.Fill(t, x, stage.Default.Lease/2, "half the lease duration")
			releasedLast(t, x)
			if worked := x.DrainedFor(); worked < drain/2 {
				t.Errorf("the app has worked for %s while it drained, want nearly %s", worked, drain)
			}
		})
	}
}

// mayOutlive is for apps that can be alive when the native sidecar is told to stop: at the end of the grace the kubelet kills the
// app and tells the sidecar at the same time, and with less than two seconds of grace the app even gets a second more.
func mayOutlive() map[string]string { return map[string]string{"ELECTOR_HANDOVER_TIMEOUT": "1s"} }

// TestAppIgnoresSIGTERM to the end of its grace: there is time left for the release.
func TestAppIgnoresSIGTERM(t *testing.T) {
	row, x := deleted(t, "the app ignores SIGTERM to the end of its grace", stage.Native,
		stage.App{Env: map[string]string{"APP_IGNORE_SIGTERM": "1"}, Grace: drain}, mayOutlive())
	row.Fill(t, x, stage.Default.Lease/2, "half the lease duration")
	releasedLast(t, x)
}

// TestCaseI2KilledSoonAfterSIGTERM: with a second of grace the native sidecar still releases. The ordinary container keeps the
// lease for an app that does not finish, and is killed as it waits: that is what a handover timeout above the grace leads to.
func TestCaseI2KilledSoonAfterSIGTERM(t *testing.T) {
	t.Parallel()
	const name = "I2: SIGKILL 1s after SIGTERM"
	t.Run(stage.Native.String(), func(t *testing.T) {
		app := stage.App{Env: map[string]string{"APP_IGNORE_SIGTERM": "1"}, Grace: time.Second}
		row, x := deleted(t, name, stage.Native, app, mayOutlive())
		row.Fill(t, x, stage.Default.Lease/2, "half the lease duration")
		releasedLast(t, x)
	})
	t.Run(stage.Ordinary.String(), func(t *testing.T) {
		app := stage.App{Env: map[string]string{"APP_DRAIN": "1m"}, Grace: time.Second}
		row, x := deleted(t, name, stage.Ordinary, app, nil)
		row.Fill(t, x, stage.Default.Expiry(), "lease duration + retry period")
		if x.Released() {
			t.Errorf("next is %s, want one on expiry", x)
		}
	})
}

// TestForceDeleteOfADrainingPod: another pod of its name starts while its app still works. The kubelet gives the old one a
// second, whatever its grace.
func TestForceDeleteOfADrainingPod(t *testing.T) {
	t.Parallel()
	const long = 30 * time.Second
	row := stage.NewRow(t, "force delete of a StatefulSet's only pod, whose app drains", stage.Native, stage.Short)
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Sidecar: mayOutlive(), Objects: []runtime.Object{
		stage.StatefulSet("web", 1, stage.App{Env: map[string]string{"APP_DRAIN": long.String()}, Grace: 2 * long})}})
	x := s.Lose(func(leader journal.Reign) { s.ForceDelete(leader.First.Pod) })
	var app journal.Status
	if err := s.Get(x.New.First.Pod, "status", &app); err != nil {
		t.Fatal(err)
	}
	start := max(0, app.Serving.Sub(x.Old.Last.ArrivedWall))
	row.Fill(t, x, (start + stage.Short.Expiry()).Round(time.Millisecond), "start of the new pod + lease duration + retry period")
	if x.SamePod() || x.New.First.Pod != x.Old.First.Pod {
		t.Errorf("next is %s (%s), want another of the same name", x.New, x)
	}
}
