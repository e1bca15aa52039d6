// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// TestCaseH1Completes: where a pod is ready only while it leads, these settings let a rolling update complete, and nobody warns.
func TestCaseH1Completes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		by       gate
		workload runtime.Object
	}{
		{"Deployment of 1, Recreate", byProbe, deployment(1, "Recreate")},
		{"Deployment of 1, Recreate", byGate, deployment(1, "Recreate")},
		{"Deployment of 1, maxSurge 0, maxUnavailable 1", byGate, deployment(1, "0/1")},
		{"Deployment of 1, maxSurge 1, maxUnavailable 1", byGate, deployment(1, "1/1")},
		{"StatefulSet of 1", byProbe, statefulSet(1, "")},
		{"StatefulSet of 1", byGate, statefulSet(1, "")},
	} {
		t.Run(c.name+"/"+string(c.by), func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, fmt.Sprintf("H1: %s, ready by %s", c.name, c.by), stage.Native, stage.Default)
			s := stage.New(t, gatedSetup(c.by, c.workload, stage.Service("web", map[string]string{"app": "web"})))
			settled(s, 1)
			leader, client := s.AtWork(), s.NewClient(s.URL("web"))
			client.Reached(leader.First.Token)
			took := update(s, c.workload, 1)
			leader = s.AtWork()
			client.Reached(leader.First.Token)
			requests := judge(s, "Service", client)
			row.Note("rolling update complete after " + seconds(took))
			row.Idle = seconds(requests.Silence()) + " by the Service"
			if warnings := s.Warnings(); len(warnings) > 0 {
				t.Errorf("it warns: %q", warnings)
			}
		})
	}
}

// TestCaseH1NeverCompletes: with these settings it does not, although all pods are well, and the sidecars warn.
func TestCaseH1NeverCompletes(t *testing.T) {
	t.Parallel()
	atOnce := statefulSet(3, appsv1.ParallelPodManagement)
	atOnce.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: new(intstr.FromInt32(3))}
	const (
		stuck    = "the old leader stays"
		replaced = "all pods are replaced, but it never counts as complete"

		deletion    = "is deleted"
		resignation = "resigns"
	)
	for _, c := range []struct {
		name     string
		by       gate
		workload runtime.Object
		pods     int    // that are there before the update
		after    string // the pods that it ends with
		verdict  string
		wayOut   string // what is done to the leader then, so that the update completes; nothing where empty
	}{
		{"Deployment of 1, maxSurge 25%, maxUnavailable 25% (default)", byProbe, deployment(1, ""), 1, "new; old, leads, ready", stuck, deletion},
		{"Deployment of 1, maxSurge 25%, maxUnavailable 25% (default)", byGate, deployment(1, ""), 1, "new; old, leads, ready", stuck, resignation},
		{"Deployment of 2, maxSurge 1, maxUnavailable 1", byGate, deployment(2, "1/1"), 2, "2 × new; old, leads, ready", stuck, ""},
		{"Deployment of 3, maxSurge 25%, maxUnavailable 25% (default)", byGate, deployment(3, ""), 3, "2 × old; new; old, leads, ready", stuck, ""},
		{"Deployment of 3, maxSurge 0, maxUnavailable 100%", byGate, deployment(3, "0/100%"), 3, "2 × new; new, leads, ready", replaced, ""},
		{"Deployment of 3, Recreate", byGate, deployment(3, "Recreate"), 3, "2 × new; new, leads, ready", replaced, ""},
		{"StatefulSet of 3", byGate, statefulSet(3, ""), 2, "old; old, leads, ready", "the third pod is never created, and none is updated", ""},
		{"StatefulSet of 3, Parallel", byGate, statefulSet(3, appsv1.ParallelPodManagement), 3, "2 × new; old, leads, ready", stuck, ""},
		{"StatefulSet of 3, Parallel, maxUnavailable 3", byGate, atOnce, 3, "2 × new; new, leads, ready", replaced, ""},
	} {
		t.Run(c.name+"/"+string(c.by), func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, fmt.Sprintf("H1: %s, ready by %s", c.name, c.by), stage.Native, stage.Default)
			if d, ok := c.workload.(*appsv1.Deployment); ok {
				d.Spec.ProgressDeadlineSeconds = new(int32(hold.Seconds()))
			}
			setup := gatedSetup(c.by, c.workload)
			if c.wayOut == resignation {
				setup.Sidecar = handoverTimeout(resigning(c.workload))
			}
			s := stage.New(t, setup)
			settled(s, c.pods)
			leader := s.AtWork()
			s.Update(c.workload)
			s.Await("the pods are "+c.after, func() bool { return stage.Tally(s.Members()) == c.after })
			well(s)
			lasts(s, func() string {
				complete, _ := s.Complete(c.workload)
				return fmt.Sprintf("complete %t, pods %v", complete, s.Members())
			})
			well(s)
			complete, because := s.Complete(c.workload)
			if complete {
				t.Error("it is complete")
			}
			if _, ok := c.workload.(*appsv1.Deployment); ok && !stage.TimedOut(because) {
				s.Await("the Deployment says that it does not progress", func() bool {
					_, because = s.Complete(c.workload)
					return stage.TimedOut(because)
				})
			}
			warned(s)
			row.Note(c.verdict + ": " + c.after + " (" + because + ")")
			switch c.wayOut {
			case "":
				return
			case deletion:
				s.Delete(leader.First.Pod)
			case resignation:
				s.Post(leader.First.Pod, "resign", nil)
			}
			finished(s, c.workload, leader)
			row.Note(c.verdict + " until it " + c.wayOut + ": " + c.after)
		})
	}
}

// finished waits until an update that was stuck is complete, with another leader.
func finished(s *stage.Stage, workload runtime.Object, before journal.Reign) {
	s.T.Helper()
	s.Await("the update is complete", func() bool {
		complete, _ := s.Complete(workload)
		return complete
	})
	if after := s.AtWork(); after.First.UID == before.First.UID {
		s.T.Errorf("%s leads on", after)
	}
}

// well requires that readiness is all that is wrong with the pods: the sidecars follow the election, and the apps answer.
func well(s *stage.Stage) {
	s.T.Helper()
	for _, m := range s.Members() {
		var sidecar struct{ State, Reason string }
		s.AwaitNil("the sidecar of "+m.Name+" answers", func() error { return s.Ask(m.Name, "leader", &sidecar) })
		if want := map[bool]string{true: "leading", false: "following"}[m.Leads]; sidecar.State != want || sidecar.Reason != "" {
			s.T.Errorf("the sidecar of %s is %s %s, want %s", m.Name, sidecar.State, sidecar.Reason, want)
		}
		var app journal.Status
		s.AwaitNil("the app of "+m.Name+" answers", func() error { return s.Get(m.Name, "status", &app) })
	}
}

// warned requires a warning about readiness, in Events and in the logs.
func warned(s *stage.Stage) {
	s.T.Helper()
	s.Await("a sidecar warns", func() bool { return len(s.Warnings()) > 0 })
	for _, warning := range s.Warnings() {
		if !strings.HasPrefix(warning, "this pod is ready only while it leads") {
			s.T.Errorf("it warns: %q", warning)
		}
	}
}
