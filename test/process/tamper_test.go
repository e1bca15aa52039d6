// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

type leaseObject = coordinationv1.Lease

func podOf(identity string) string {
	name, _, _ := strings.Cut(identity, "_")
	return name
}

func release(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("") }

// Another writes itself into the lease: no renewal is due for a minute, so it is the sight of it that tells.
func TestIntruder(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	intruded := time.Now()
	s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec = cluster.Held("intruder_x", time.Minute) })
	web.Follows("intruder")
	s.within(soon, time.Since(intruded), "stepping down")
	web.Gets("/is-leader", 503)
	if lease := s.lease.Get(); cluster.Holder(lease) != "intruder_x" {
		t.Errorf("the intruder was overwritten: %v", lease.Spec)
	}
}

// A record with our name that we did not write is another's.
func TestImpostor(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "POD_UID=uid-0")
	web.Leads()
	intruded := time.Now()
	s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec = cluster.Held("web-0_uid-0", time.Minute) })
	web.Await("it does not lead", notLeading)
	s.within(soon, time.Since(intruded), "stepping down")
}

func TestLeaseIsEmptiedWhileLeading(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	before := web.Leads()
	s.lease.Change(release)
	web.Await("it leads a later term", func(l process.Leader) bool { return l.IsLeader && l.FencingToken > before.FencingToken })
}

func TestLeaseIsDeletedWhileLeading(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "POD_UID=uid-0")
	leader := web.Leads()
	before := s.lease.Get()
	news := web.Asks("/leader?wait=5m&revision=" + leader.Revision)
	deleted := time.Now()
	s.lease.Delete()
	if now, err := (<-news).Leader(); err != nil || now.Revision == leader.Revision || now.IsLeader && now.FencingToken <= leader.FencingToken {
		t.Errorf("who waited for news is told %+v, %v", now, err)
	}
	web.Await("it leads a later term", func(l process.Leader) bool { return l.IsLeader && l.FencingToken > leader.FencingToken })
	s.within(soon, time.Since(deleted), "leading again")
	after := s.lease.Get()
	if after.UID == before.UID || cluster.Holder(after) != "web-0_uid-0" {
		t.Errorf("the Lease was %v, and is %v", before, after)
	}
	web.Logs("the Lease was deleted")
}

// The leader sleeps while it happens, so that it cannot be first.
func TestLeaseIsDeletedAndCreatedByAnother(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	web.Is(sigstop)
	s.lease.Delete()
	other := s.lease.Create(cluster.Held("web-9_x", time.Minute), metav1.ObjectMeta{})
	web.Is(sigcont)
	woke := time.Now()
	web.Follows("web-9")
	s.within(soon, time.Since(woke), "stepping down")
	if lease := s.lease.Get(); lease.UID != other.UID || cluster.Holder(lease) != "web-9_x" {
		t.Errorf("the Lease is %v", lease)
	}
}

// A follower takes a lease that is deleted.
func TestLeaseIsDeletedWhileFollowing(t *testing.T) {
	s := begin(t, calm)
	s.lease.HeldBy("web-9", time.Minute)
	web := s.start("web-0")
	web.Follows("web-9")
	deleted := time.Now()
	s.lease.Delete()
	web.Leads()
	s.within(soon, time.Since(deleted), "taking the lease")
}
