// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

func addressed(web *sidecar.Sidecar, address string) {
	web.Await("the leader's address is "+address, func(l process.Leader) bool { return l.Address == address })
}

// The Lease says where its holder is, and who follows passes it on.
func TestAddressOfTheLeader(t *testing.T) {
	s := begin(t, calm)
	web := s.start(s.member(0))
	addressed(web, s.member(0).address)
	lease := s.lease.Get()
	if lease.Annotations[elector.AddressAnnotation] != s.member(0).address {
		t.Errorf("the Lease is annotated with %v", lease.Annotations)
	}
	next := s.start(s.member(1))
	next.Follows(web.Name)
	addressed(next, s.member(0).address)

	web.Is(sigterm)
	web.Exits(0)
	next.Leads()
	addressed(next, s.member(1).address)
	if lease := s.lease.Get(); lease.Annotations[elector.AddressAnnotation] != s.member(1).address {
		t.Errorf("the Lease is annotated with %v", lease.Annotations)
	}
}

// Of two families the first counts.
func TestAddressOfTwoFamilies(t *testing.T) {
	s := begin(t, calm)
	addressed(s.start(s.member(0), "POD_IP="+ipv6+","+ipv4), ipv6)
}

// Where it is not known there is none: neither an empty one, nor that of a leader before.
func TestAddressIsNotKnown(t *testing.T) {
	s := begin(t, calm)
	first := s.start(s.member(0))
	first.Leads()
	first.Is(sigterm)
	first.Exits(0)
	web := s.start(s.member(1), "POD_IP=")
	web.Leads()
	next := s.start(s.member(2))
	next.Follows(web.Name)
	for _, pod := range []*sidecar.Sidecar{web, next} {
		if reply := pod.Gets("/leader", 200); strings.Contains(reply.Body, `"address"`) {
			t.Errorf("%s says %s", pod.Name, reply.Body)
		}
	}
	if lease := s.lease.Get(); len(lease.Annotations[elector.AddressAnnotation]) > 0 {
		t.Errorf("the Lease is annotated with %v", lease.Annotations)
	}
}

// client-go's elector leaves annotations as they are when it takes a Lease. They are not its own.
func TestAddressIsNotTakenOverByAnother(t *testing.T) {
	s := begin(t, brisk)
	web := s.start(s.member(0))
	web.Leads()
	next := s.start(s.member(1), "ELECTOR_APP_HEALTH=file:///nowhere?maxAge=1s") // so that it only follows
	addressed(next, s.member(0).address)
	web.Is(sigkill)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cluster.Namespace, Name: s.lease.Name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "guest_1"},
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
	}()
	defer func() {
		cancel()
		<-ended
	}()
	if guest := next.Follows("guest"); guest.Address != "" {
		t.Errorf("it names %+v", guest)
	}
	if lease := s.lease.Get(); lease.Annotations[elector.AddressAnnotation] != s.member(0).address {
		t.Errorf("there was nothing to be taken over: the Lease is annotated with %v", lease.Annotations)
	}
}
