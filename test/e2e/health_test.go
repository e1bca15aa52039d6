// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// crashing is an app that always exits before it serves.
var crashing = stage.App{Env: map[string]string{"APP_START_DELAY": "1h", "APP_EXIT_AFTER": "300ms"}}

// TestCaseH5CrashLoop: a pod whose app never comes up does not take the lease from one whose app does, nor before it.
func TestCaseH5CrashLoop(t *testing.T) {
	t.Parallel()
	row := stage.NewRow(t, "H5: crash loop, with ELECTOR_APP_HEALTH", stage.Native, stage.Short)
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Sidecar: closelyWatched(), Objects: []runtime.Object{
		stage.Deployment("sick", 1, crashing), stage.Deployment("well", 0, stage.App{})}})
	const restarts = 2
	began := time.Now()
	s.Await("the app has crashed a few times, for longer than a lease lasts", func() bool {
		pods := s.Pods()
		return len(pods) == 1 && len(pods[0].Status.ContainerStatuses) == 1 && pods[0].Status.ContainerStatuses[0].RestartCount >= restarts &&
			time.Since(began) > s.Timings.Lease
	})
	if records := s.Records(); len(records) > 0 {
		t.Errorf("the Lease is %v", records)
	}
	s.Scale("well", 1)
	leader := s.AtWork()
	sick := s.Pods()
	sick = slices.DeleteFunc(sick, func(p corev1.Pod) bool { return p.Labels["app"] != "sick" })
	if len(sick) != 1 || leader.First.UID == string(sick[0].UID) {
		t.Errorf("%s is at work; the crashing pods are %d", leader, len(sick))
	}
	row.Note(fmt.Sprintf("nobody through %d crashes; then the healthy pod", restarts))
}

// TestCaseH5CrashLoopUnwatched is what ELECTOR_APP_HEALTH is for: without it the pod leads, and nobody works.
func TestCaseH5CrashLoopUnwatched(t *testing.T) {
	t.Parallel()
	row := stage.NewRow(t, "H5: crash loop, without ELECTOR_APP_HEALTH", stage.Native, stage.Short)
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Objects: []runtime.Object{stage.Deployment("sick", 1, crashing)}})
	s.Await("the pod holds the lease", func() bool {
		records := s.Records()
		return len(records) > 0 && records[len(records)-1].Holder() != ""
	})
	row.Note("the pod whose app is down")
}

// TestCaseH5SlowStart: a pod does not lead before its app can serve.
func TestCaseH5SlowStart(t *testing.T) {
	t.Parallel()
	row := stage.NewRow(t, "H5: app takes two lease durations to start", stage.Native, stage.Short)
	slow := stage.App{Env: map[string]string{"APP_START_DELAY": (2 * stage.Short.Lease).String()}}
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Sidecar: closelyWatched(),
		Objects: []runtime.Object{stage.Deployment("web", 1, slow)}})
	leader := s.Settle()
	var app journal.Status
	if err := s.Get(leader.First.Pod, "status", &app); err != nil {
		t.Fatal(err)
	}
	first := s.Records()[0]
	if taken := first.Lease.Spec.AcquireTime.Time; taken.Before(app.Serving) { // both by the clock of the pod's node
		t.Errorf("the lease was taken at %s; the app serves since %s", taken, app.Serving)
	}
	after := leader.First.Wall.Sub(app.Serving)
	if after > s.Timings.Lease/2 {
		t.Errorf("the app is at work %s after it could be", after)
	}
	row.Note(fmt.Sprintf("the pod, %.3f s after its app can serve", after.Seconds()))
}

// TestCaseH5AppFallsIll: it lives, but says that it is not well. The handover timeout gives it time to finish its last write; it
// says when it has.
func TestCaseH5AppFallsIll(t *testing.T) {
	t.Parallel()
	row := stage.NewRow(t, "H5: the leader's app falls ill", stage.Native, stage.Short)
	sidecar := closelyWatched()
	sidecar["ELECTOR_HANDOVER_TIMEOUT"] = "2s"
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Sidecar: sidecar, Objects: []runtime.Object{stage.Deployment("web", 2, stage.App{})}})
	x := s.Lose(func(leader journal.Reign) { s.Post(leader.First.Pod, "sick", nil) })
	row.Fill(t, x, unhealthySoon+s.Timings.Lease/2, "failures × period + timeout + half the lease duration")
	if x.SamePod() || !x.Released() {
		t.Errorf("next is %s, want another pod after a release", x)
	}
}
