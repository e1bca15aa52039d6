// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var patchTests = []testCase{
	{"Patch", patch},
	{"PatchRefused", patchRefused},
	{"PatchMissing", patchMissing},
	{"PatchRace", patchRace},
}

func patch(t *testing.T, a *api) {
	lease := a.create("a")
	patched := a.mergePatch(`{"metadata":{"annotations":{"a":"b","c":"d"}}}`).expect(http.StatusOK).lease()
	later(t, lease.ResourceVersion, patched.ResourceVersion)
	if holder(patched) != "a" || patched.UID != lease.UID || len(patched.Annotations) != 2 {
		t.Errorf("patched to %+v", patched)
	}
	again := a.mergePatch(`{"metadata":{"annotations":{"a":"b"}}}`).expect(http.StatusOK).lease()
	if again.ResourceVersion != patched.ResourceVersion {
		t.Errorf("a patch that changes nothing made %s of %s", again.ResourceVersion, patched.ResourceVersion)
	}
	less := a.mergePatch(`{"metadata":{"annotations":{"a":null}},"spec":{"holderIdentity":null}}`).expect(http.StatusOK).lease()
	if len(less.Annotations) != 1 || less.Spec.HolderIdentity != nil {
		t.Errorf("null left %+v", less)
	}
}

func patchRefused(t *testing.T, a *api) {
	lease := a.create("a")
	a.mergePatch(`{"metadata":{"resourceVersion":"1","annotations":{"a":"b"}}}`).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonConflict)
	a.mergePatch(`{"metadata":{"name":"other"}}`).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.mergePatch(`{"metadata":{"namespace":"other"}}`).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.mergePatch(`{"metadata":`).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	a.mergePatch(`{"metadata":{"uid":"other"}}`).failsFor("metadata.uid")
	a.mergePatch(`{"spec":{"leaseDurationSeconds":0}}`).failsFor("spec.leaseDurationSeconds")
	a.mergePatch(`{"spec":{"leaseDurationSeconds":"a"}}`).failsFor("patch")
	if got := a.get().lease(); got.ResourceVersion != lease.ResourceVersion {
		t.Errorf("refused patches made %s of %s", got.ResourceVersion, lease.ResourceVersion)
	}
}

func patchMissing(t *testing.T, a *api) {
	a.mergePatch(`{"metadata":{"annotations":{"a":"b"}}}`).failsAbout(a.name, http.StatusNotFound, metav1.StatusReasonNotFound)
}

// Patches without a resourceVersion meet no conflict.
func patchRace(t *testing.T, a *api) {
	a.create("a")
	codes := a.race(func(i int) request {
		label := map[string]string{"n": string(rune('a' + i))}
		return request{method: http.MethodPatch, path: a.item(), contentType: contentMergePatch,
			body: map[string]any{"metadata": map[string]any{"labels": label}}}
	})
	if codes[http.StatusOK] != racers {
		t.Errorf("codes %v", codes)
	}
}
