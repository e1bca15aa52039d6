// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"net/netip"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

func at(address string) func(*elector.Config) {
	return func(c *elector.Config) { c.Address = netip.MustParseAddr(address) }
}

// wantAddress checks what a candidate takes for the leader's address, "" for unknown.
func (c *candidate) wantAddress(t *testing.T, want string) {
	t.Helper()
	got := ""
	if address := c.Status().Address; address.IsValid() {
		got = address.String()
	}
	if got != want {
		t.Errorf("the leader's address is %q, want %q", got, want)
	}
}

func TestAddressOfTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1", at("10.1.0.1"))
		a.wantAddress(t, "")
		settle()
		b := start(t, store, "b_1", at("2001:db8::2"))
		settle()
		a.wantAddress(t, "10.1.0.1")
		b.wantAddress(t, "10.1.0.1")
		pass(retryPeriod)
		b.wantAddress(t, "10.1.0.1") // renewals keep it

		a.stop()
		<-a.ended
		a.wantAddress(t, "")
		if left := store.Peek(namespace, leaseName).Annotations; left[elector.AddressAnnotation] == "10.1.0.1" {
			t.Errorf("a released Lease is annotated with %v", left)
		}
		settle()
		if !b.leads() {
			t.Fatal("b does not lead")
		}
		b.wantAddress(t, "2001:db8::2")
		annotations := store.Peek(namespace, leaseName).Annotations
		if annotations[elector.AddressAnnotation] != "2001:db8::2" || annotations[elector.AddressOfAnnotation] != "b_1" {
			t.Errorf("the Lease is annotated with %v", annotations)
		}
	})
}

// A leader of which no address is known has none: not that of its predecessor, nor what is none.
func TestAddressThatIsNotTheLeaders(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease){
		"another holder that left the annotations": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("guest") },
		"no annotation": func(l *coordinationv1.Lease) { delete(l.Annotations, elector.AddressAnnotation) },
		"nobody's":      func(l *coordinationv1.Lease) { delete(l.Annotations, elector.AddressOfAnnotation) },
		"no address":    func(l *coordinationv1.Lease) { l.Annotations[elector.AddressAnnotation] = "web-0.example" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *electortest.Store) {
				a := start(t, store, "a_1", at("10.1.0.1"))
				settle()
				b := start(t, store, "b_1")
				settle()
				b.wantAddress(t, "10.1.0.1")
				a.api.Cut() // or it would put things right
				edit(t, store, change)
				settle()
				b.wantAddress(t, "")
			})
		})
	}
}

func TestAddressGoesWithTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1", at("10.1.0.1"))
		settle()
		b := start(t, store, "b_1")
		settle()
		a.api.Cut()
		b.api.Cut()
		pass(renewDeadline)
		a.wantAddress(t, "")
		b.wantAddress(t, "10.1.0.1")
		pass(leaseDuration - renewDeadline)
		b.wantAddress(t, "")
	})
}
