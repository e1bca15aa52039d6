// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// The rules are those of kubectl rollout status.
func TestDeploymentComplete(t *testing.T) {
	done := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	for name, c := range map[string]struct {
		change  func(*appsv1.DeploymentStatus)
		because string // "" is complete
	}{
		"complete":              {func(*appsv1.DeploymentStatus) {}, ""},
		"not seen yet":          {func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 }, notSeen},
		"one is old":            {func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 2 }, "2 of 3 replicas are updated"},
		"an old one is left":    {func(s *appsv1.DeploymentStatus) { s.Replicas = 4 }, "1 old replicas are left"},
		"one is not available":  {func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 2 }, "2 of 3 updated replicas are available"},
		"the deadline has gone": {func(s *appsv1.DeploymentStatus) { s.Conditions = late }, exceeded},
		"it progresses":         {func(s *appsv1.DeploymentStatus) { s.Conditions = onTime }, ""},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}, Status: done}
		d.Generation = 2
		c.change(&d.Status)
		if complete, because := deploymentComplete(d); complete != (c.because == "") || because != c.because || TimedOut(because) != (c.because == exceeded) {
			t.Errorf("%s: complete is %t, because %q, want %q", name, complete, because, c.because)
		}
	}
}

var (
	late   = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: exceeded}}
	onTime = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"}}
)

func TestStatefulSetComplete(t *testing.T) {
	done := appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, CurrentRevision: "b", UpdateRevision: "b"}
	for name, c := range map[string]struct {
		change  func(*appsv1.StatefulSetStatus)
		because string
	}{
		"complete":         {func(*appsv1.StatefulSetStatus) {}, ""},
		"not seen yet":     {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, notSeen},
		"one is not ready": {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 2 }, "2 of 3 replicas are ready"},
		"one is old":       {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision, s.UpdatedReplicas = "a", 2 }, "2 of 3 replicas are updated"},
	} {
		w := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}, Status: done}
		w.Generation = 2
		c.change(&w.Status)
		if complete, because := statefulSetComplete(w); complete != (c.because == "") || because != c.because {
			t.Errorf("%s: complete is %t, because %q, want %q", name, complete, because, c.because)
		}
	}
}

func TestTally(t *testing.T) {
	got := Tally([]Member{{New: true, Runs: true}, {Runs: true, Ready: true, Leads: true}, {New: true, Runs: true}, {}, {Terminating: true}})
	if want := "2 × new; old, leads, ready; old, starting; old, terminating"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}
