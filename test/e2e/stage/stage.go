// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// root is the repository's, from the folder of the cases.
const root = "../.."

// Stage is a namespace of one case, with its apps.
type Stage struct {
	kubernetes.Interface
	Setup
	T         testing.TB
	Namespace string

	lease    *history
	ledger   *ledger
	logs     *logs
	replicas int // of all workloads as they were created
}

// New puts a setup on a stage of its own. At the end of the test all that the apps have written is judged. Where the test has
// failed, or with E2E_LOGS=1, the logs of its pods are shown.
func New(t testing.TB, setup Setup) *Stage {
	t.Helper()
	ctx := t.Context()
	namespace, err := shared.namespace(ctx, identifier(t.Name()))
	if namespace != "" {
		t.Cleanup(func() {
			if err := shared.removeNamespace(namespace); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &Stage{Interface: shared, Setup: setup, T: t, Namespace: namespace, ledger: &ledger{}}
	watching, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	if s.lease, err = watchLease(watching, shared, namespace); err != nil {
		t.Fatal(err)
	}
	s.logs = followLogs(watching, shared, namespace)
	s.prepare()
	objects, err := s.render(root, namespace, shared.image)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := shared.objects.Create(ctx, object); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	t.Cleanup(s.end)
	return s
}

// prepare tells the apps where to write, and for how long their sidecars keep the lease.
func (s *Stage) prepare() {
	for _, object := range s.Objects {
		var template *corev1.PodTemplateSpec
		var replicas *int32
		switch o := object.(type) {
		case *appsv1.Deployment:
			template, replicas = &o.Spec.Template, o.Spec.Replicas
		case *appsv1.StatefulSet:
			template, replicas = &o.Spec.Template, o.Spec.Replicas
		default:
			continue
		}
		s.replicas += int(*replicas)
		app := &template.Spec.Containers[0]
		app.Env = append(app.Env, corev1.EnvVar{Name: "RECORDER_URL", Value: shared.recorder.url + s.Namespace},
			corev1.EnvVar{Name: "APP_HANDOVER", Value: s.handover().String()})
		if s.Shape == Ordinary {
			// SIGTERM may reach the app before the sidecar: without resigning, "the work has stopped" could come too early.
			app.Env = append(app.Env, corev1.EnvVar{Name: "APP_RESIGN", Value: "1"})
		}
	}
}

// end judges, and shows what there is to see where the test has failed.
func (s *Stage) end() {
	j, err := s.ledger.update(context.Background(), shared, s.Namespace)
	if err != nil {
		s.T.Errorf("the journal cannot be read: %v", err)
	}
	for _, violation := range j.Violations() {
		s.T.Error(violation)
	}
	if s.T.Failed() || os.Getenv("E2E_LOGS") == "1" {
		s.dump(j)
	}
}

// In is the stage for a subtest.
func (s *Stage) In(t testing.TB) *Stage {
	c := *s
	c.T = t
	return &c
}

// Await waits until something holds.
func (s *Stage) Await(what string, holds func() bool) {
	s.T.Helper()
	s.AwaitFor(patience, what, holds)
}

// AwaitFor waits until something holds, for at most so long.
func (s *Stage) AwaitFor(atMost time.Duration, what string, holds func() bool) {
	s.T.Helper()
	if err := pollFor(s.T.Context(), atMost, what, func() (bool, error) { return holds(), nil }); err != nil {
		s.T.Fatal(err)
	}
}

// AwaitNil waits until something succeeds.
func (s *Stage) AwaitNil(what string, try func() error) {
	s.T.Helper()
	var last error
	err := poll(s.T.Context(), what, func() (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		s.T.Fatalf("%v: %v", err, last)
	}
}

// Ready waits until so many pods are ready, and there are no others.
func (s *Stage) Ready(pods int) {
	s.T.Helper()
	s.Await("all pods are ready", func() bool {
		list := s.Pods()
		return len(list) == pods && !slices.ContainsFunc(list, func(p corev1.Pod) bool { return !ready(&p) })
	})
}

// Settle waits until every pod is ready and its sidecar contends, and the app of the leader is at work.
func (s *Stage) Settle() journal.Reign {
	s.T.Helper()
	s.Ready(s.replicas)
	for _, pod := range s.Pods() {
		noteVersion(s, pod.Name)
		s.Await(fmt.Sprintf("the sidecar of %s has read the Lease and does not stay out of the election", pod.Name), func() bool {
			var leader struct{ State, Reason string }
			err := s.Ask(pod.Name, "leader", &leader)
			return err == nil && leader.Reason == "" && (leader.State == "leading" || leader.State == "following")
		})
	}
	return s.AtWork()
}

// AtWork waits until the app of the Lease's holder is at work, and returns its reign.
func (s *Stage) AtWork() (current journal.Reign) {
	s.T.Helper()
	before := len(s.Journal().Entries)
	s.Await("the app of the leader is at work", func() bool {
		records, entries := s.Records(), s.Journal().Entries
		if len(records) == 0 || len(entries) == before {
			return false
		}
		reigns := journal.Reigns(entries)
		last := entries[len(entries)-1]
		i := slices.IndexFunc(reigns, func(r journal.Reign) bool { return r.Same(last) })
		if i < 0 || records[len(records)-1].Pod() != last.Pod {
			return false
		}
		current = reigns[i]
		return true
	})
	return current
}

// Judge reports what must never be, of all that has been written so far.
func (s *Stage) Judge() {
	s.T.Helper()
	for _, violation := range s.Journal().Violations() {
		s.T.Error(violation)
	}
}
