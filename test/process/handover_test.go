// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

func notLeading(l process.Leader) bool  { return !l.IsLeader }
func handingOver(l process.Leader) bool { return l.State == "handing-over" }

func TestHandoverKeepsTheLease(t *testing.T) {
	s := begin(t, brisk)
	const handover = 5 * time.Second // more than the lease's duration, so that it has to be renewed
	web := s.start("web-0", "POD_UID=uid-0", "ELECTOR_HANDOVER_TIMEOUT="+handover.String())
	web.Leads()
	next := s.start("web-1")
	next.Follows("web-0")

	stopped := web.Is(sigterm)
	if leader := web.Await("it hands over", handingOver); leader.IsLeader || leader.FencingToken != 0 || leader.ValidForMs != 0 {
		t.Errorf("while it hands over it says %+v", leader)
	}
	web.Gets("/is-leader", 503)
	web.Gets("/readyz", 503)
	web.Gets("/healthz", 200)
	if reply := web.Gets("/wait?for=leading&timeout=5m", 503); reply.Took() > soon {
		t.Errorf("who waits to lead waits %s", reply.Took())
	}
	s.lease.Await("was renewed", renewedAfter(s.lease.Get()))
	if lease := s.lease.Get(); cluster.Holder(lease) != "web-0_uid-0" {
		t.Errorf("during the handover the Lease is %v", lease.Spec)
	}
	web.Exits(0)
	if took := time.Since(stopped); took < handover {
		t.Errorf("the process ended after %s, before the handover's end", took)
	}
	next.Leads()
	s.after(stopped.Add(handover), acquired(s.lease.Get()), "the lease was taken")
}

func TestSecondSignalEndsTheHandover(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "ELECTOR_HANDOVER_TIMEOUT=60s")
	web.Leads()
	web.Is(sigterm)
	web.Await("it hands over", handingOver)
	again := web.Is(sigterm)
	web.Exits(0)
	s.within(soon, time.Since(again), "stopping after the second signal")
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("after the second signal the Lease is %v", lease.Spec)
	}
}

// A follower has nothing to hand over.
func TestHandoverIsForLeaders(t *testing.T) {
	s := begin(t, calm)
	s.lease.HeldBy("web-9", time.Minute)
	web := s.start("web-0", "ELECTOR_HANDOVER_TIMEOUT=60s")
	web.Follows("web-9")
	stopped := web.Is(sigterm)
	web.Exits(0)
	s.within(soon, time.Since(stopped), "stopping")
}
