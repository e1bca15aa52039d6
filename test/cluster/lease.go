// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
)

// patience is how long a test waits for what has to happen soon. The machine may be busy.
const patience = 30 * time.Second

// Leases is an administrator's access to the Leases of the namespace.
func (c *Cluster) Leases(t testing.TB) coordinationclient.LeaseInterface {
	t.Helper()
	client, err := coordinationclient.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Leases(Namespace)
}

// Lease is the Lease of one test, as an administrator sees and changes it.
type Lease struct {
	Name   string
	client coordinationclient.LeaseInterface
	t      testing.TB
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Lease returns a Lease with a name that no other test has. It does not exist yet.
func (c *Cluster) Lease(t testing.TB) *Lease {
	t.Helper()
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	if len(name) > 80 {
		name = name[:80]
	}
	l := &Lease{Name: name + "-" + rand.String(6), client: c.Leases(t), t: t}
	t.Cleanup(func() {
		if err := l.client.Delete(context.Background(), l.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the test's Lease: %v", err)
		}
	})
	return l
}

// Create creates the Lease.
func (l *Lease) Create(spec coordinationv1.LeaseSpec, meta metav1.ObjectMeta) *coordinationv1.Lease {
	l.t.Helper()
	meta.Name = l.Name
	lease, err := l.client.Create(l.t.Context(), &coordinationv1.Lease{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return lease
}

// HeldBy creates the Lease as if a holder that never renews had just taken it.
func (l *Lease) HeldBy(identity string, duration time.Duration) *coordinationv1.Lease {
	l.t.Helper()
	return l.Create(Held(identity, duration), metav1.ObjectMeta{})
}

// Held is what a holder writes as it takes a lease.
func Held(identity string, duration time.Duration) coordinationv1.LeaseSpec {
	now := metav1.NowMicro()
	return coordinationv1.LeaseSpec{
		HolderIdentity:       &identity,
		LeaseDurationSeconds: new(int32(duration / time.Second)),
		AcquireTime:          &now,
		RenewTime:            &now,
		LeaseTransitions:     new(int32(0)),
	}
}

// Get reads the Lease, which must exist.
func (l *Lease) Get() *coordinationv1.Lease {
	l.t.Helper()
	lease, err := l.client.Get(l.t.Context(), l.Name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return lease
}

// Exists tells whether there is such a Lease.
func (l *Lease) Exists() bool {
	l.t.Helper()
	_, err := l.client.Get(l.t.Context(), l.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
	return err == nil
}

// Change rewrites the Lease, whoever holds it.
func (l *Lease) Change(change func(*coordinationv1.Lease)) *coordinationv1.Lease {
	l.t.Helper()
	var changed *coordinationv1.Lease
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := l.client.Get(l.t.Context(), l.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(lease)
		changed, err = l.client.Update(l.t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return changed
}

// Delete deletes the Lease.
func (l *Lease) Delete() {
	l.t.Helper()
	if err := l.client.Delete(l.t.Context(), l.Name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// Await waits until the Lease is as wanted, and returns it.
func (l *Lease) Await(what string, wanted func(*coordinationv1.Lease) bool) *coordinationv1.Lease {
	l.t.Helper()
	var lease *coordinationv1.Lease
	err := wait.PollUntilContextTimeout(l.t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		seen, err := l.client.Get(ctx, l.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		lease = seen
		return err == nil && wanted(seen), err
	})
	if err != nil {
		l.t.Fatalf("waiting for a Lease that %s: %v; it is %v", what, err, lease)
	}
	return lease
}

// Holder is the holderIdentity of a Lease, "" where absent.
func Holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
