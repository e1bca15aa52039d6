// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

func TestFreeLeaseIsTaken(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "POD_UID=uid-0")
	leader := web.Leads()
	lease := s.lease.Get()
	if cluster.Holder(lease) != "web-0_uid-0" || leader.Identity != "web-0_uid-0" || leader.Name != "web-0" || leader.PodName != "web-0" {
		t.Errorf("holderIdentity is %q, and /leader says %+v", cluster.Holder(lease), leader)
	}
	if got := *lease.Spec.LeaseDurationSeconds; got != int32(calm.duration/time.Second) {
		t.Errorf("leaseDurationSeconds is %d", got)
	}
	if *lease.Spec.LeaseTransitions != 0 || leader.Term != 0 || leader.State != "leading" {
		t.Errorf("leaseTransitions is %d, and /leader says %+v", *lease.Spec.LeaseTransitions, leader)
	}
	if leader.FencingToken == 0 || leader.ValidForMs <= 0 || leader.ValidForMs > calm.deadline.Milliseconds() {
		t.Errorf("/leader says %+v", leader)
	}
	web.Gets("/is-leader", 200)
	web.Gets("/readyz", 200)
}

func TestHeldLeaseIsFollowed(t *testing.T) {
	s := begin(t, calm)
	written := s.lease.HeldBy("web-9_uid-9", time.Minute)
	web := s.start("web-0")
	leader := web.Follows("web-9")
	if leader.Identity != "web-9_uid-9" || leader.FencingToken != 0 || leader.ValidForMs != 0 || leader.PodName != "web-0" {
		t.Errorf("/leader says %+v", leader)
	}
	web.Gets("/is-leader", 503)
	web.Gets("/readyz", 200)
	if reply := web.Gets("/", 200); reply.Body != `{"name":"web-9"}` {
		t.Errorf("/ answers %s", reply.Body)
	}
	if lease := s.lease.Get(); lease.ResourceVersion != written.ResourceVersion {
		t.Errorf("the follower wrote: %v", lease)
	}
}

// A lease expires by the duration in its record, not by the candidate's own, and once that has gone by since the
// candidate saw it, not since the times in it.
func TestExpiredLeaseIsTaken(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*scenario){
		"that was there first": func(s *scenario) {},
		"with times of long ago": func(s *scenario) {
			s.lease.Change(func(lease *coordinationv1.Lease) {
				lease.Spec.AcquireTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
				lease.Spec.RenewTime = lease.Spec.AcquireTime
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, brisk)
			const duration = 3 * time.Second
			s.lease.HeldBy("web-9_uid-9", duration)
			start(s)
			started := time.Now()
			web := s.start("web-0")
			web.Follows("web-9")
			followed := time.Now()
			leader := web.Leads()
			lease := s.lease.Get()
			s.after(started.Add(duration), acquired(lease), "the lease was taken")
			s.within(duration*3/2, acquired(lease).Sub(followed), "taking the expired lease")
			if leader.Term != 1 || *lease.Spec.LeaseTransitions != 1 {
				t.Errorf("the term is %d, and leaseTransitions %d; want 1", leader.Term, *lease.Spec.LeaseTransitions)
			}
		})
	}
}

// A renewal that is seen while waiting begins the wait anew.
func TestRenewedLeaseIsNotTaken(t *testing.T) {
	s := begin(t, brisk)
	s.lease.HeldBy("web-9_uid-9", brisk.duration)
	web := s.start("web-0")
	web.Follows("web-9")
	var last time.Time
	for range 4 {
		s.pass(brisk.duration / 2)
		last = time.Now()
		s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = &metav1.MicroTime{Time: last} })
	}
	web.Leads()
	s.after(last.Add(brisk.duration), acquired(s.lease.Get()), "the lease was taken")
}

func TestReleasedLeaseIsTakenAtOnce(t *testing.T) {
	s := begin(t, calm)
	s.lease.HeldBy("web-9_uid-9", time.Minute)
	web := s.start("web-0")
	web.Follows("web-9")
	released := time.Now()
	s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("") })
	web.Leads()
	s.within(soon, time.Since(released), "taking the released lease")
}

// Every field of a Lease can be absent.
func TestLeaseWithoutFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec  coordinationv1.LeaseSpec
		taken bool
	}{
		"empty":            {coordinationv1.LeaseSpec{}, true},
		"holder alone":     {coordinationv1.LeaseSpec{HolderIdentity: new("web-9")}, false},
		"all but a holder": {coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(60)), RenewTime: new(metav1.NowMicro()), LeaseTransitions: new(int32(4))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, calm)
			s.lease.Create(test.spec, metav1.ObjectMeta{})
			web := s.start("web-0")
			if test.taken {
				web.Leads()
			} else {
				web.Follows("web-9")
			}
		})
	}
}

// An absent duration means the candidate's own.
func TestHolderWithoutDurationExpires(t *testing.T) {
	s := begin(t, brisk)
	s.lease.Create(coordinationv1.LeaseSpec{HolderIdentity: new("web-9")}, metav1.ObjectMeta{})
	started := time.Now()
	web := s.start("web-0")
	web.Leads()
	s.after(started.Add(brisk.duration), acquired(s.lease.Get()), "the lease was taken")
}

func TestNotOursStaysAsItIs(t *testing.T) {
	s := begin(t, brisk)
	owners := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "pod-uid"},
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "set-uid"},
		{APIVersion: "example.org/v1", Kind: "Pod", Name: "other", UID: "other-uid"},
	}
	s.lease.Create(coordinationv1.LeaseSpec{}, metav1.ObjectMeta{
		Labels:          map[string]string{"team": "blue"},
		Annotations:     map[string]string{"example.org/note": "keep me"},
		OwnerReferences: owners,
	})
	web := s.start("web-0")
	web.Leads()
	check := func(when string) {
		t.Helper()
		meta := s.lease.Get().ObjectMeta
		var names []string
		for _, owner := range meta.OwnerReferences {
			names = append(names, owner.Name)
		}
		if meta.Labels["team"] != "blue" || meta.Annotations["example.org/note"] != "keep me" || strings.Join(names, ",") != "web,other" {
			t.Errorf("%s the Lease has labels %v, annotations %v, owners %v", when, meta.Labels, meta.Annotations, names)
		}
	}
	check("once taken")
	s.lease.Change(func(lease *coordinationv1.Lease) { lease.Labels["while"] = "leading" })
	s.lease.Await("was renewed", renewedAfter(s.lease.Get()))
	check("once renewed")
	web.Is(sigterm)
	web.Exits(0)
	check("once released")
	if lease := s.lease.Get(); lease.Labels["while"] != "leading" || cluster.Holder(lease) != "" {
		t.Errorf("after the release the Lease is %v", lease)
	}
}

// Each process has an identity of its own: the same pod name in two pods is not the same candidate.
func TestSamePodNameTwice(t *testing.T) {
	s := begin(t, calm)
	first := s.start("web-0", "POD_UID=uid-1")
	first.Leads()
	second := s.start("web-0", "POD_UID=uid-2")
	if leader := second.Follows("web-0"); leader.Identity != "web-0_uid-1" {
		t.Errorf("the second says %+v", leader)
	}
	first.Gets("/is-leader", 200)
	second.Gets("/is-leader", 503)
}
