// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deleteTests = []testCase{
	{"Delete", deleteLease},
	{"DeletePreconditions", deletePreconditions},
	{"DeleteAndCreate", deleteAndCreate},
	{"DeleteWithFinalizer", deleteWithFinalizer},
	{"DeleteDryRun", deleteDryRun},
	{"DeleteUnreadable", deleteUnreadable},
}

func deleteLease(t *testing.T, a *api) {
	lease := a.create("a")
	status := a.delete().expect(http.StatusOK).status()
	if status.Status != metav1.StatusSuccess || status.Details == nil || status.Details.UID != lease.UID || status.Details.Name != a.name {
		t.Errorf("status %+v", status)
	}
	a.get().failsAbout(a.name, http.StatusNotFound, metav1.StatusReasonNotFound)
	a.delete().failsAbout(a.name, http.StatusNotFound, metav1.StatusReasonNotFound)
}

func deletePreconditions(t *testing.T, a *api) {
	lease := a.create("a")
	for _, body := range []string{
		`{"preconditions":{"uid":"other"}}`,
		`{"preconditions":{"resourceVersion":"1"}}`,
	} {
		a.do(request{method: http.MethodDelete, path: a.item(), body: body}).fails(http.StatusConflict, metav1.StatusReasonConflict)
	}
	a.do(request{method: http.MethodDelete, path: a.item(), body: metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	}}).expect(http.StatusOK)
}

func deleteAndCreate(t *testing.T, a *api) {
	first := a.create("a")
	a.delete().expect(http.StatusOK)
	second := a.create("b")
	later(t, first.ResourceVersion, second.ResourceVersion)
	if first.UID == second.UID {
		t.Errorf("both have the uid %s", first.UID)
	}
}

func deleteWithFinalizer(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.Finalizers = []string{"example.com/a"}
	lease = a.post(lease).expect(http.StatusCreated).lease()
	marked := a.delete().expect(http.StatusOK).lease()
	later(t, lease.ResourceVersion, marked.ResourceVersion)
	if marked.DeletionTimestamp == nil || marked.Name != a.name {
		t.Fatalf("marked as %+v", marked.ObjectMeta)
	}
	if again := a.delete().expect(http.StatusOK).lease(); again.ResourceVersion != marked.ResourceVersion {
		t.Errorf("a second delete made %s of %s", again.ResourceVersion, marked.ResourceVersion)
	}
	held := marked.DeepCopy()
	held.DeletionTimestamp = nil
	held = a.hold(held, "b")
	if held.DeletionTimestamp == nil {
		t.Errorf("an update has undone the deletion")
	}
	w := a.watch("fieldSelector=metadata.name%3D" + a.name + "&resourceVersion=" + held.ResourceVersion)
	free := held.DeepCopy()
	free.Finalizers = nil
	a.put(free).expect(http.StatusOK)
	gone := w.next("DELETED")
	later(t, held.ResourceVersion, gone.ResourceVersion)
	a.get().fails(http.StatusNotFound, metav1.StatusReasonNotFound)
}

func deleteDryRun(t *testing.T, a *api) {
	a.create("a")
	a.do(request{method: http.MethodDelete, path: a.item(), query: "dryRun=All"}).expect(http.StatusOK)
	a.get().expect(http.StatusOK)
}

func deleteUnreadable(t *testing.T, a *api) {
	a.create("a")
	a.do(request{method: http.MethodDelete, path: a.item(), body: `{"preconditions":`}).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.do(request{method: http.MethodDelete, path: a.item(), contentType: "text/plain", body: `{}`}).
		fails(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
}
