// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
)

// budget is a PodDisruptionBudget's spec; the zero value is no budget.
type budget struct{ minAvailable, maxUnavailable, unhealthy string }

func (b budget) String() string {
	text := "no budget"
	switch {
	case b.minAvailable != "":
		text = "minAvailable " + b.minAvailable
	case b.maxUnavailable != "":
		text = "maxUnavailable " + b.maxUnavailable
	}
	if b.unhealthy != "" {
		text += ", " + b.unhealthy
	}
	return text
}

func (b budget) spec() (spec policyv1.PodDisruptionBudgetSpec) {
	if b.minAvailable != "" {
		spec.MinAvailable = new(intstr.Parse(b.minAvailable))
	}
	if b.maxUnavailable != "" {
		spec.MaxUnavailable = new(intstr.Parse(b.maxUnavailable))
	}
	if b.unhealthy != "" {
		spec.UnhealthyPodEvictionPolicy = new(policyv1.UnhealthyPodEvictionPolicyType(b.unhealthy))
	}
	return spec
}

// set makes it the only budget of the stage, and waits until it counts so many healthy pods.
func (b budget) set(s *stage.Stage, healthy int32) {
	s.T.Helper()
	ctx, budgets := s.T.Context(), s.PolicyV1().PodDisruptionBudgets(s.Namespace)
	if err := budgets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.T.Fatal(err)
	}
	if b == (budget{}) {
		return
	}
	if _, err := budgets.Create(ctx, stage.Budget("web", b.spec()), metav1.CreateOptions{}); err != nil {
		s.T.Fatal(err)
	}
	s.Await("the budget counts the pods", func() bool {
		is, err := budgets.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && is.Status.ObservedGeneration == is.Generation && is.Status.CurrentHealthy == healthy
	})
}

// TestDrain evicts the leader and then the others, as their node's drain does, while a client requests the leader. Readiness says
// that the app can serve.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		replicas int
		budget   budget
		blocks   bool
	}{
		{3, budget{minAvailable: "1"}, false},
		{3, budget{maxUnavailable: "1"}, false},
		{1, budget{maxUnavailable: "1"}, false},
		{1, budget{minAvailable: "1"}, true}, // as for any app
	} {
		name := fmt.Sprintf("Deployment of %d, %s", c.replicas, c.budget)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := stage.NewRow(t, "drain: "+name, stage.Native, stage.Default)
			s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Default,
				Components: []string{"leader-service"}, Names: map[string]string{"serviceName": "web-leader"},
				Objects: []runtime.Object{deployment(int32(c.replicas), ""), stage.Service("web-leader", nil)}})
			path := s.WatchEndpoints("web-leader")
			leader, client := s.Settle(), s.NewClient(s.URL("web-leader"))
			client.Reached(leader.First.Token)
			c.budget.set(s, int32(c.replicas))
			members := leaderLast(s.Members())
			slices.Reverse(members)
			if c.blocks {
				refused(s, members, row, "as it does for any app")
				return
			}
			began := time.Now()
			if refused := s.Drain(members, patience); len(refused) > 0 {
				t.Fatalf("the eviction of %v is refused", refused)
			}
			took := time.Since(began)
			leader = s.Settle()
			client.Reached(leader.First.Token)
			requests := judge(s, "Service", client)
			follows(s, path)
			row.Note("complete after " + seconds(took))
			row.Idle = seconds(requests.Silence()) + " by the Service"
		})
	}
}

// patience is how long an eviction that is to be granted may be refused.
const patience = time.Minute

// refused requires that a budget refuses the eviction of these pods for some time.
func refused(s *stage.Stage, members []stage.Member, row *stage.Row, why string) {
	s.T.Helper()
	lasts(s, func() string {
		for _, m := range members {
			if s.Evict(m.Name) {
				s.T.Fatalf("the eviction of %s (%s) is granted", m.Name, m)
			}
		}
		return "refused"
	})
	row.Note("blocks, " + why)
}

// TestCaseH1Drain: where only the leader is ready, a budget that wants one pod ready wants the leader. The followers are evicted
// first, then the leader.
func TestCaseH1Drain(t *testing.T) {
	t.Parallel()
	type expected int
	const (
		complete expected = iota
		leaderBlocks
		allBlock
	)
	for _, c := range []struct {
		replicas int
		budgets  []budget
		want     expected
	}{
		{1, []budget{{}, {maxUnavailable: "1"}}, complete},
		{1, []budget{{minAvailable: "1"}}, leaderBlocks},
		{3, []budget{{}, {maxUnavailable: "100%"}}, complete},
		{3, []budget{{minAvailable: "1"}, {maxUnavailable: "1", unhealthy: "AlwaysAllow"}}, leaderBlocks},
		{3, []budget{{maxUnavailable: "1"}}, allBlock},
	} {
		t.Run(fmt.Sprintf("%d/%s", c.replicas, c.budgets[0]), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, gatedSetup(byGate, deployment(int32(c.replicas), "Recreate")))
			for _, budget := range c.budgets {
				t.Run(budget.String(), func(t *testing.T) {
					row := stage.NewRow(t, fmt.Sprintf("H1: drain: Deployment of %d, ready by %s, %s", c.replicas, byGate, budget), stage.Native, stage.Default)
					s := s.In(t)
					settled(s, c.replicas)
					s.AtWork()
					budget.set(s, 1)
					members := leaderLast(s.Members())
					leader := members[len(members)-1]
					switch c.want {
					case complete:
						began := time.Now()
						if refused := s.Drain(members, patience); len(refused) > 0 {
							t.Fatalf("the eviction of %v is refused", refused)
						}
						row.Note("complete after " + seconds(time.Since(began)))
					case leaderBlocks:
						if refused := s.Drain(members[:len(members)-1], patience); len(refused) > 0 {
							t.Fatalf("the eviction of %v is refused", refused)
						}
						refused(s, []stage.Member{leader}, row, "at the leader")
					case allBlock:
						refused(s, members, row, "at every pod")
					}
				})
			}
		})
	}
}
