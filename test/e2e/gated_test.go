// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// gate is what makes a pod ready only while it leads.
type gate string

const (
	byProbe gate = "readinessProbe on /is-leader"
	byGate  gate = "ELECTOR_READINESS_GATE"
)

// failures is after how many failed probes a pod is not ready any more: the default.
const failures = 3

// gatedSetup is a workload of which only the leader is ready.
func gatedSetup(by gate, workload runtime.Object, more ...runtime.Object) stage.Setup {
	setup := stage.Setup{Shape: stage.Native, Timings: stage.Default, Components: []string{"rollout-warning"}, Names: map[string]string{},
		Objects: append([]runtime.Object{workload}, more...)}
	if by == byGate {
		setup.Components = append(setup.Components, "readiness-gate")
		setup.Names["readinessGate"] = leads
		return setup
	}
	app(workload).ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: failures,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/is-leader", Port: intstr.FromInt32(4040)}}}
	return setup
}

// app is the container of the app in a workload.
func app(workload runtime.Object) *corev1.Container {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template.Spec.Containers[0]
	case *appsv1.StatefulSet:
		return &w.Spec.Template.Spec.Containers[0]
	}
	panic(fmt.Sprintf("%T is no workload", workload))
}

// resign is the setting of an app that, when it is told to stop, has its sidecar hand over first.
const resign = "APP_RESIGN"

// resigning is a workload with such an app.
func resigning(workload runtime.Object) runtime.Object {
	c := app(workload)
	c.Env = append(c.Env, corev1.EnvVar{Name: resign, Value: "1"})
	return workload
}

// handoverTimeout is what the sidecar of a workload needs for its app to finish before the lease is released, where the app lives
// on. It is waited out for an app that has ended: so only for one that resigns first.
func handoverTimeout(workload runtime.Object) map[string]string {
	if !slices.ContainsFunc(app(workload).Env, func(e corev1.EnvVar) bool { return e.Name == resign }) {
		return nil
	}
	return map[string]string{"ELECTOR_HANDOVER_TIMEOUT": "5s"}
}

// settled waits until so many pods run and no others are there, of which only the leader is ready.
func settled(s *stage.Stage, pods int) []stage.Member {
	s.T.Helper()
	var members []stage.Member
	s.Await("all pods run, and the leader alone is ready", func() bool {
		members = s.Members()
		return len(members) == pods && !slices.ContainsFunc(members, func(m stage.Member) bool { return !m.Runs || m.Ready != m.Leads }) &&
			slices.ContainsFunc(members, leading)
	})
	return members
}

func leading(m stage.Member) bool { return m.Leads }

// hold is how long something that is stuck is looked at. What is not stuck takes about half of it.
const hold = 10 * time.Second

// lasts requires that a look shows the same all the time.
func lasts(s *stage.Stage, look func() string) {
	s.T.Helper()
	first, end := look(), time.Now().Add(hold)
	s.Await("the time is over", func() bool {
		if now := look(); now != first {
			s.T.Fatalf("%q has become %q", first, now)
		}
		return time.Now().After(end)
	})
}

// leaderLast is the members with the leader at the end.
func leaderLast(members []stage.Member) []stage.Member {
	return slices.SortedStableFunc(slices.Values(members), func(a, b stage.Member) int {
		switch {
		case a.Leads == b.Leads:
			return 0
		case a.Leads:
			return 1
		}
		return -1
	})
}

// only is the one member that holds.
func only(t testing.TB, members []stage.Member, holds func(stage.Member) bool) stage.Member {
	t.Helper()
	i := slices.IndexFunc(members, holds)
	if i < 0 {
		t.Fatalf("there is none among %v", members)
	}
	return members[i]
}
