// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var updateTests = []testCase{
	{"Update", update},
	{"UpdateStale", updateStale},
	{"UpdateWithoutResourceVersion", updateWithoutResourceVersion},
	{"UpdateUnparsableResourceVersion", updateUnparsableResourceVersion},
	{"UpdateOtherUID", updateOtherUID},
	{"UpdateWithoutUID", updateWithoutUID},
	{"UpdateNothing", updateNothing},
	{"UpdateInvalid", updateInvalid},
	{"UpdateOtherName", updateOtherName},
	{"UpdateMissing", updateMissing},
	{"UpdateMissingWithUID", updateMissingWithUID},
	{"UpdateReplaced", updateReplaced},
	{"UpdateRemovesFields", updateRemovesFields},
	{"UpdateDryRun", updateDryRun},
	{"UpdateRace", updateRace},
}

func update(t *testing.T, a *api) {
	first := a.create("a")
	second := first.DeepCopy()
	second.Spec.HolderIdentity = new("b")
	second.CreationTimestamp = metav1.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	second = a.put(second).expect(http.StatusOK).lease()
	later(t, first.ResourceVersion, second.ResourceVersion)
	if second.UID != first.UID || !second.CreationTimestamp.Equal(&first.CreationTimestamp) {
		t.Errorf("%s of %s became %s of %s", first.UID, first.CreationTimestamp, second.UID, second.CreationTimestamp)
	}
	if got := a.get().lease(); holder(got) != "b" || got.ResourceVersion != second.ResourceVersion {
		t.Errorf("holder %q at %s, want b at %s", holder(got), got.ResourceVersion, second.ResourceVersion)
	}
}

func updateStale(t *testing.T, a *api) {
	first := a.create("a")
	second := a.hold(first, "b")
	for _, resourceVersion := range []string{
		first.ResourceVersion,
		strconv.FormatUint(revision(t, second.ResourceVersion)+1_000_000, 10),
	} {
		lease := second.DeepCopy()
		lease.ResourceVersion = resourceVersion
		lease.Spec.LeaseDurationSeconds = new(int32(0))
		a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	}
	if got := a.get().lease(); got.ResourceVersion != second.ResourceVersion {
		t.Errorf("refused updates made resourceVersion %s of %s", got.ResourceVersion, second.ResourceVersion)
	}
}

func updateWithoutResourceVersion(t *testing.T, a *api) {
	lease := a.create("a")
	for _, none := range []string{"", "0"} {
		lease.ResourceVersion = none
		a.put(lease).failsFor("metadata.resourceVersion")
	}
}

func updateUnparsableResourceVersion(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.ResourceVersion = "abc"
	a.put(lease).fails(http.StatusInternalServerError, metav1.StatusReasonUnknown)
	a.create("a")
	a.put(lease).fails(http.StatusInternalServerError, metav1.StatusReasonUnknown)
}

func updateOtherUID(t *testing.T, a *api) {
	lease := a.create("a")
	lease.UID = "other"
	a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	lease.ResourceVersion = ""
	a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
}

func updateWithoutUID(t *testing.T, a *api) {
	lease := a.create("a")
	uid := lease.UID
	lease.UID = ""
	if updated := a.hold(lease, "b"); updated.UID != uid {
		t.Errorf("uid %q became %q", uid, updated.UID)
	}
}

func updateNothing(t *testing.T, a *api) {
	lease := a.create("a")
	w := a.watch("fieldSelector=metadata.name%3D" + a.name + "&resourceVersion=" + lease.ResourceVersion)
	same := a.put(lease).expect(http.StatusOK).lease()
	if same.ResourceVersion != lease.ResourceVersion {
		t.Errorf("resourceVersion %s became %s", lease.ResourceVersion, same.ResourceVersion)
	}
	changed := a.hold(same, "b")
	w.expect("MODIFIED", changed)
}

func updateInvalid(t *testing.T, a *api) {
	lease := a.create("a")
	for field, change := range map[string]func(*coordinationv1.Lease){
		"spec.leaseDurationSeconds":  func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(0)) },
		"spec.leaseTransitions":      func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(-1)) },
		"metadata.labels":            func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b c"} },
		"metadata.deletionTimestamp": func(l *coordinationv1.Lease) { l.DeletionTimestamp = new(metav1.Now()) },
	} {
		invalid := lease.DeepCopy()
		change(invalid)
		a.put(invalid).failsFor(field)
	}
}

func updateOtherName(t *testing.T, a *api) {
	lease := a.create("a")
	for _, change := range []func(*coordinationv1.Lease){
		func(l *coordinationv1.Lease) { l.Name = a.name + "-other" },
		func(l *coordinationv1.Lease) { l.Name = "" },
		func(l *coordinationv1.Lease) { l.Namespace = "kube-system" },
	} {
		other := lease.DeepCopy()
		change(other)
		a.put(other).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
}

// An update creates what is missing, whatever resourceVersion it names.
func updateMissing(t *testing.T, a *api) {
	for _, resourceVersion := range []string{"", "0", "12"} {
		lease := newLease(a.name)
		lease.ResourceVersion = resourceVersion
		created := a.put(lease).expect(http.StatusCreated).lease()
		if created.UID == "" || created.CreationTimestamp.IsZero() || created.ResourceVersion == resourceVersion {
			t.Errorf("created %+v", created.ObjectMeta)
		}
		a.delete().expect(http.StatusOK)
	}
	lease := newLease(a.name)
	lease.Spec.LeaseTransitions = new(int32(-1))
	a.put(lease).failsFor("spec.leaseTransitions")
}

// With a uid, an update of what is missing is a conflict: nobody revives a deleted Lease by mistake.
func updateMissingWithUID(t *testing.T, a *api) {
	lease := a.create("a")
	a.delete().expect(http.StatusOK)
	a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	a.get().fails(http.StatusNotFound, metav1.StatusReasonNotFound)
}

func updateReplaced(t *testing.T, a *api) {
	lease := a.create("a")
	a.delete().expect(http.StatusOK)
	replacement := a.create("b")
	a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	lease.UID = ""
	a.put(lease).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	if got := a.get().lease(); got.ResourceVersion != replacement.ResourceVersion {
		t.Errorf("the replacement was changed: %+v", got)
	}
}

func updateRemovesFields(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.Labels = map[string]string{"a": "b"}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "u"}}
	lease = a.post(lease).expect(http.StatusCreated).lease()
	lease.Labels, lease.OwnerReferences = nil, nil
	lease = a.put(lease).expect(http.StatusOK).lease()
	if len(lease.Labels) > 0 || len(lease.OwnerReferences) > 0 {
		t.Errorf("kept %+v", lease.ObjectMeta)
	}
}

func updateDryRun(t *testing.T, a *api) {
	lease := a.create("a")
	lease.Spec.HolderIdentity = new("b")
	dry := a.do(request{method: http.MethodPut, path: a.item(), query: "dryRun=All", body: lease}).expect(http.StatusOK).lease()
	if holder(dry) != "b" || dry.ResourceVersion != lease.ResourceVersion {
		t.Errorf("dry run gave holder %q at %s", holder(dry), dry.ResourceVersion)
	}
	if got := a.get().lease(); holder(got) != "a" {
		t.Errorf("dry run wrote holder %q", holder(got))
	}
}

// Of all that write on one resourceVersion, exactly one succeeds.
func updateRace(t *testing.T, a *api) {
	lease := a.create("a")
	codes := a.race(func(i int) request {
		mine := lease.DeepCopy()
		mine.Spec.HolderIdentity = new(fmt.Sprint("racer-", i))
		return request{method: http.MethodPut, path: a.item(), body: mine}
	})
	if codes[http.StatusOK] != 1 || codes[http.StatusConflict] != racers-1 {
		t.Errorf("codes %v", codes)
	}
}
