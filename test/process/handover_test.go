// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/port"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
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

// The app says that its work has stopped, so that nobody waits for the timeout.
func TestAppEndsTheHandover(t *testing.T) {
	s := begin(t, calm)
	_, port, err := net.SplitHostPort(port.Free(t))
	if err != nil {
		t.Fatal(err)
	}
	web := s.start("web-0", "ELECTOR_HANDOVER_TIMEOUT=60s", "ELECTOR_HTTP_ADDRESS=:"+port)
	web.Leads()
	if early := web.Do(t.Context(), http.MethodPost, "/release"); early.Code != 409 {
		t.Errorf("a leader that hands nothing over answers %+v", early)
	}
	next := s.start("web-1")
	next.Follows("web-0")
	if other := next.Do(t.Context(), http.MethodPost, "/release"); other.Code != 409 {
		t.Errorf("a follower answers %+v", other)
	}
	web.Gets("/is-leader", 200)

	web.Is(sigterm)
	web.Await("it hands over", handingOver)
	if get := web.Do(t.Context(), http.MethodGet, "/release"); get.Code != 405 || get.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET answers %+v", get)
	}
	if outside := elsewhere(t, web, "/release"); outside.Code != 403 {
		t.Errorf("a caller from outside of the pod is answered %+v", outside)
	}
	s.pass(500 * time.Millisecond) // in which it must not release
	released := time.Now()
	if reply := web.Do(t.Context(), http.MethodPost, "/release"); reply.Code != 202 {
		t.Errorf("the app is answered %+v", reply)
	}
	web.Exits(0)
	next.Leads()
	s.within(soon, time.Since(released), "the handover")
	s.after(released, acquired(s.lease.Get()), "the lease was taken")
}

// elsewhere posts to the sidecar from an address that is not the loopback interface's.
func elsewhere(t *testing.T, web *sidecar.Sidecar, path string) sidecar.Reply {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(web.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			return sidecar.Request(t.Context(), http.MethodPost, "http://"+net.JoinHostPort(network.IP.String(), port)+path)
		}
	}
	t.Fatal("this machine has no address but the loopback interface's")
	return sidecar.Reply{}
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
