// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// leaderLabel is the pod label of the cases, and leads the condition.
const (
	leaderLabel = "example.com/role"
	leads       = "example.com/leads"
)

// deployment is one of the app "web" with a strategy: its type, or maxSurge and maxUnavailable as in "1/0"; the default where
// empty.
func deployment(replicas int32, strategy string) *appsv1.Deployment {
	d := stage.Deployment("web", replicas, stage.App{})
	if surge, unavailable, ok := strings.Cut(strategy, "/"); ok {
		d.Spec.Strategy = appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: new(intstr.Parse(surge)), MaxUnavailable: new(intstr.Parse(unavailable))}}
	} else {
		d.Spec.Strategy.Type = appsv1.DeploymentStrategyType(strategy)
	}
	return d
}

// statefulSet is one of the app "web".
func statefulSet(replicas int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	w := stage.StatefulSet("web", replicas, stage.App{})
	w.Spec.PodManagementPolicy = policy
	return w
}

// TestRollingUpdate: the pods are replaced while clients request the leader through a Service by its EndpointSlice, and through
// one that selects by the label. Readiness says that the app can serve.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		replicas int
		workload runtime.Object
	}{
		{"Deployment of 1, maxSurge 25%, maxUnavailable 25% (default)", 1, deployment(1, "")},
		{"Deployment of 1, Recreate", 1, deployment(1, "Recreate")},
		{"Deployment of 3, maxSurge 25%, maxUnavailable 25% (default)", 3, deployment(3, "")},
		{"Deployment of 3, maxSurge 0, maxUnavailable 1", 3, deployment(3, "0/1")},
		{"Deployment of 3, maxSurge 0, maxUnavailable 1, the app resigns first", 3, resigning(deployment(3, "0/1"))},
		{"StatefulSet of 1", 1, statefulSet(1, "")},
		{"StatefulSet of 3", 3, statefulSet(3, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, "rolling update: "+c.name, stage.Native, stage.Default)
			s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Default,
				Components: []string{"leader-service", "pod-label"}, Names: map[string]string{"serviceName": "web-leader", "podLabel": leaderLabel},
				Sidecar: handoverTimeout(c.workload),
				Objects: []runtime.Object{c.workload, stage.Service("web-leader", nil), stage.Service("web-label", map[string]string{leaderLabel: "leader"})}})
			path := s.WatchEndpoints("web-leader")
			leader := s.Settle()
			service, label := s.NewClient(s.URL("web-leader")), s.NewClient(s.URL("web-label"))
			service.Reached(leader.First.Token)
			label.Reached(leader.First.Token)
			took := update(s, c.workload, c.replicas)
			leader = s.AtWork()
			service.Reached(leader.First.Token)
			label.Reached(leader.First.Token)
			byService, byLabel := judge(s, "Service", service), judge(s, "label", label)
			row.Note(fmt.Sprintf("complete after %s; EndpointSlice at most %s after the Lease", seconds(took), seconds(follows(s, path))))
			row.Idle = fmt.Sprintf("%s by the Service, %s by the label", seconds(byService.Silence()), seconds(byLabel.Silence()))
			s.T.Logf("the leader's first answer came %s (Service) and %s (label) after its first write",
				seconds(reached(s, byService, leader)), seconds(reached(s, byLabel, leader)))
		})
	}
}

// update gives a workload a new template, waits until kubectl rollout status would say that it is complete and the old pods have
// gone, and tells how long it took until then.
func update(s *stage.Stage, workload runtime.Object, replicas int) time.Duration {
	s.T.Helper()
	began := time.Now()
	s.Update(workload)
	s.Await("the update is complete, and the old pods have gone", func() bool {
		complete, _ := s.Complete(workload)
		members := s.Members()
		return complete && len(members) == replicas && !slices.ContainsFunc(members, func(m stage.Member) bool { return !m.New || m.Terminating })
	})
	return time.Since(began)
}
