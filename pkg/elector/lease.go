// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a held Lease.
const (
	// SandboxAnnotation names Config.Sandbox of the holder.
	SandboxAnnotation = "elector-sidecar/sandbox"
	// AddressAnnotation is Config.Address of the identity that AddressOfAnnotation names. Another holder that knows neither,
	// such as client-go's leaderelection, leaves both as they are, so they count only while that identity is the holder.
	AddressAnnotation   = "elector-sidecar/address"
	AddressOfAnnotation = "elector-sidecar/address-of"
)

// record is what the election reads of a Lease. The wire format is that of client-go's leaderelection
// (resourcelock.LeaderElectionRecord in a LeaseSpec).
type record struct {
	uid         types.UID
	version     uint64        // resourceVersion
	holder      string        // "" is a free lease
	duration    time.Duration // 0: absent or not positive
	acquired    time.Time     // zero: absent
	renewed     time.Time     // zero: absent
	transitions int32
	sandbox     string     // "": none is named
	address     netip.Addr // of the holder; zero: not known

	lease *coordinationv1.Lease // as read; never changed
}

// readLease reads a Lease. Any field of the spec may be absent. The only error is a resourceVersion that is not a
// number above 0: Kubernetes guarantees one (KEP-5504), and neither the order of records nor the fencing token can do
// without.
func readLease(lease *coordinationv1.Lease) (*record, error) {
	version, err := parseVersion(lease.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	r := &record{uid: lease.UID, version: version, sandbox: lease.Annotations[SandboxAnnotation], lease: lease}
	spec := &lease.Spec
	if spec.HolderIdentity != nil {
		r.holder = *spec.HolderIdentity
	}
	if spec.LeaseDurationSeconds != nil && *spec.LeaseDurationSeconds > 0 {
		r.duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.AcquireTime != nil {
		r.acquired = spec.AcquireTime.Time
	}
	if spec.RenewTime != nil {
		r.renewed = spec.RenewTime.Time
	}
	if spec.LeaseTransitions != nil {
		r.transitions = *spec.LeaseTransitions
	}
	if r.holder != "" && lease.Annotations[AddressOfAnnotation] == r.holder {
		r.address, _ = netip.ParseAddr(lease.Annotations[AddressAnnotation]) // what is no address is not known
	}
	return r, nil
}

func parseVersion(s string) (uint64, error) {
	version, err := strconv.ParseUint(s, 10, 64)
	if err != nil || version == 0 {
		return 0, fmt.Errorf("resourceVersion is %q; the API server must give a whole number above 0", s)
	}
	return version, nil
}

// sameTerms tells whether nothing that concerns the election differs between two records (nil: no Lease). Labels,
// annotations and the like may differ.
func (r *record) sameTerms(other *record) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.uid == other.uid && r.holder == other.holder && r.duration == other.duration &&
		r.acquired.Equal(other.acquired) && r.renewed.Equal(other.renewed) && r.transitions == other.transitions
}

// writtenBy tells whether the record is the one that w left: no other process writes the same two times.
func (r *record) writtenBy(w *record) bool {
	return w != nil && r.holder == w.holder && (w.uid == "" || r.uid == w.uid) &&
		r.acquired.Equal(w.acquired) && r.renewed.Equal(w.renewed)
}

// claim is the record that a candidate writes to take a lease (base nil: to create it). leaseTransitions counts as
// client-go does: up when the holder changes, 0 on a new Lease.
func claim(base *record, by *settings, wall time.Time) *record {
	r := &record{holder: by.identity, duration: by.leaseDuration, sandbox: by.sandbox, address: by.address,
		acquired: onTheWire(wall), renewed: onTheWire(wall)}
	if base != nil {
		r.uid = base.uid
		r.transitions = base.transitions
		if base.holder != by.identity && r.transitions < math.MaxInt32 {
			r.transitions++
		}
	}
	return r.draw(base, by.lease)
}

// renewal is the record that a leader writes over its own.
func renewal(base *record, duration time.Duration, wall time.Time) *record {
	r := *base
	r.duration = duration
	r.renewed = onTheWire(wall)
	return r.draw(base, types.NamespacedName{})
}

// vacancy is the record that a leader leaves when it releases: no holder, one second (the API refuses 0), the
// transitions as they were, which is what client-go's ReleaseOnCancel writes.
func vacancy(base *record, wall time.Time) *record {
	r := &record{uid: base.uid, duration: time.Second, transitions: base.transitions,
		acquired: onTheWire(wall), renewed: onTheWire(wall)}
	return r.draw(base, types.NamespacedName{})
}

// onTheWire is t as a metav1.MicroTime brings it back.
func onTheWire(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// draw puts the record's fields into a copy of base's Lease, of which everything else stays, its resourceVersion
// included. An owner that is a Pod goes: deleting that Pod would take the Lease along.
func (r *record) draw(base *record, key types.NamespacedName) *record {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if base != nil {
		lease = base.lease.DeepCopy()
		r.version = base.version
	}
	spec := &lease.Spec
	spec.HolderIdentity = new(r.holder)
	spec.LeaseDurationSeconds = new(int32(r.duration / time.Second))
	spec.AcquireTime = &metav1.MicroTime{Time: r.acquired}
	spec.RenewTime = &metav1.MicroTime{Time: r.renewed}
	spec.LeaseTransitions = new(r.transitions)
	annotate := func(key, value string, known bool) {
		if known {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
		} else {
			delete(lease.Annotations, key)
		}
	}
	annotate(SandboxAnnotation, r.sandbox, r.sandbox != "")
	annotate(AddressAnnotation, r.address.String(), r.address.IsValid())
	annotate(AddressOfAnnotation, r.holder, r.address.IsValid())
	lease.OwnerReferences = withoutPods(lease.OwnerReferences)
	r.lease = lease
	return r
}

func withoutPods(owners []metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, owner := range owners {
		if owner.APIVersion != "v1" || owner.Kind != "Pod" {
			kept = append(kept, owner)
		}
	}
	return kept
}
