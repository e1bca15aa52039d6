// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// scale sets the replicas, waits until so many pods run and no others are there, and tells how long it took.
func scale(s *stage.Stage, workload runtime.Object, replicas int) time.Duration {
	s.T.Helper()
	began := time.Now()
	s.Resize(workload, replicas)
	s.Await(fmt.Sprintf("there are %d pods", replicas), func() bool {
		members := s.Members()
		return len(members) == replicas && !slices.ContainsFunc(members, func(m stage.Member) bool { return !m.Runs })
	})
	return time.Since(began)
}

// TestScale takes two of three pods away and brings them back, while a client requests the leader.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		workload runtime.Object
	}{
		{"Deployment", deployment(3, "")},
		{"StatefulSet, led by its last pod", statefulSet(3, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, "scale 3, 1, 3: "+c.name, stage.Native, stage.Default)
			s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Default,
				Components: []string{"leader-service"}, Names: map[string]string{"serviceName": "web-leader"},
				Sidecar: handoverTimeout(resigning(c.workload)),
				Objects: []runtime.Object{c.workload, stage.Service("web-leader", nil)}})
			path := s.WatchEndpoints("web-leader")
			leader, client := s.Settle(), s.NewClient(s.URL("web-leader"))
			if _, ok := c.workload.(*appsv1.StatefulSet); ok {
				lead(s, "web-2")
				leader = s.AtWork()
			}
			client.Reached(leader.First.Token)
			down := scale(s, c.workload, 1)
			leader = s.AtWork()
			client.Reached(leader.First.Token)
			up := scale(s, c.workload, 3)
			leader = s.Settle()
			client.Reached(leader.First.Token)
			requests := judge(s, "Service", client)
			follows(s, path)
			row.Note(fmt.Sprintf("down after %s, up after %s", seconds(down), seconds(up)))
			row.Idle = seconds(requests.Silence()) + " by the Service"
		})
	}
}

// lead makes the leaders resign until a pod leads, and waits until those that have resigned contend again.
func lead(s *stage.Stage, pod string) {
	s.T.Helper()
	for leader := s.AtWork(); leader.First.Pod != pod; leader = s.AtWork() {
		s.Post(leader.First.Pod, "resign", map[string]string{"cooldown": "3s"})
		s.Await("another leads", func() bool {
			records := s.Records()
			holder := records[len(records)-1].Pod()
			return holder != "" && holder != leader.First.Pod
		})
	}
	for _, m := range s.Members() {
		s.Await("the sidecar of "+m.Name+" does not stay out of the election", func() bool {
			var sidecar struct{ Reason string }
			return s.Ask(m.Name, "leader", &sidecar) == nil && sidecar.Reason == ""
		})
	}
}

// TestCaseH1Scale: where only the leader is ready, a Deployment keeps it. A StatefulSet keeps the first pod, and with OrderedReady
// takes no pod away while that is not ready.
func TestCaseH1Scale(t *testing.T) {
	t.Parallel()
	t.Run("Deployment", func(t *testing.T) {
		t.Parallel()
		row := stage.NewRow(t, "H1: scale 3, 1, 3, 1: Deployment, ready by "+string(byGate), stage.Native, stage.Default)
		w := deployment(3, "Recreate")
		s := stage.New(t, gatedSetup(byGate, w))
		settled(s, 3)
		leader := s.AtWork()
		down := scale(s, w, 1)
		scale(s, w, 3)
		settled(s, 3)
		scale(s, w, 1)
		if after := s.AtWork(); after.First.UID != leader.First.UID {
			t.Errorf("the leader was taken away: now it is %s, before %s", after, leader)
		}
		row.Note("the leader stays; down after " + seconds(down))
	})
	t.Run("StatefulSet Parallel", func(t *testing.T) {
		t.Parallel()
		row := stage.NewRow(t, "H1: scale 3, 1: StatefulSet, Parallel, led by its last pod, ready by "+string(byGate), stage.Native, stage.Default)
		w := statefulSet(3, appsv1.ParallelPodManagement)
		setup := gatedSetup(byGate, resigning(w))
		setup.Sidecar = handoverTimeout(w)
		s := stage.New(t, setup)
		settled(s, 3)
		lead(s, "web-2")
		down := scale(s, w, 1)
		if after := s.AtWork(); after.First.Pod != "web-0" {
			t.Errorf("%s leads", after)
		}
		row.Note("down after " + seconds(down))
	})
	t.Run("StatefulSet", func(t *testing.T) {
		t.Parallel()
		row := stage.NewRow(t, "H1: scale 2, 1: StatefulSet, led by its second pod, ready by "+string(byGate), stage.Native, stage.Default)
		w := statefulSet(2, "")
		setup := gatedSetup(byGate, resigning(w))
		setup.Sidecar = handoverTimeout(w)
		s := stage.New(t, setup)
		settled(s, 2)
		lead(s, "web-1")
		settled(s, 2)
		s.Resize(w, 1)
		lasts(s, func() string { return fmt.Sprint(s.Members()) })
		s.Post("web-1", "resign", nil)
		s.Await("the second pod has gone", func() bool { return len(s.Members()) == 1 })
		row.Note("blocks until the leader resigns")
	})
}
