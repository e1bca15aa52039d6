// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

// One Lease goes from ours to theirs and back, by release and by expiry each.
func TestBothWaysRound(t *testing.T) {
	lease, config := plane.Lease(t), plane.Config()
	var token uint64 // of our last leader

	ours := start(t, lease, config, "ours-0", "POD_UID=x")
	token = ours.Leads().FencingToken
	checkTerm(t, lease, "ours-0_x", 0)

	them := startTheirs(t, lease, config, "theirs-0")
	them.follows("ours-0_x")
	ours.Is(sigterm)
	ours.Exits(0)
	them.leads()
	checkTerm(t, lease, "theirs-0", 1)

	ours = start(t, lease, config, "ours-1", "POD_UID=x")
	ours.Follows("theirs-0")
	them.stop()
	leader := ours.Leads()
	if leader.FencingToken <= token {
		t.Errorf("the fencing token went from %d to %d", token, leader.FencingToken)
	}
	them.ended()
	checkTerm(t, lease, "ours-1_x", 2)

	cut := proxy.Start(t, plane.Address())
	them = startTheirs(t, lease, cluster.Via(config, cut.Address), "theirs-1")
	them.follows("ours-1_x")
	ours.Kill()
	last := lease.Get()
	them.leads()
	taken := checkTerm(t, lease, "theirs-1", 3)
	expired(t, last, taken, leaseDuration-time.Second) // as theirs count

	ours = start(t, lease, config, "ours-2", "POD_UID=x")
	ours.Follows("theirs-1")
	cut.Cut()
	last = lease.Get()
	ours.Leads()
	taken = checkTerm(t, lease, "ours-2_x", 4)
	expired(t, last, taken, leaseDuration)
	them.ended()
	if lease := lease.Get(); cluster.Holder(lease) != "ours-2_x" {
		t.Errorf("after the end of theirs the Lease is %v", lease.Spec)
	}
}

func checkTerm(t *testing.T, lease *cluster.Lease, holder string, transitions int32) *coordinationv1.Lease {
	t.Helper()
	now := lease.Get()
	if cluster.Holder(now) != holder || *now.Spec.LeaseTransitions != transitions {
		t.Errorf("the Lease is held by %q with %d transitions; want %q, %d", cluster.Holder(now), *now.Spec.LeaseTransitions, holder, transitions)
	}
	return now
}

// expired checks that a lease was taken only once the last record of its holder had counted for that long, and not much
// later.
func expired(t *testing.T, last, taken *coordinationv1.Lease, counted time.Duration) {
	t.Helper()
	if waited := taken.Spec.AcquireTime.Sub(last.Spec.RenewTime.Time); waited < counted || waited > 2*leaseDuration {
		t.Errorf("the lease of %s was taken %s after its last renewal", leaseDuration, waited)
	}
}
