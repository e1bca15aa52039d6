// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var createTests = []testCase{
	{"CreateSetsSystemFields", createSetsSystemFields},
	{"CreateExisting", createExisting},
	{"CreateWithResourceVersion", createWithResourceVersion},
	{"CreateInvalid", createInvalid},
	{"CreateUnreadable", createUnreadable},
	{"CreateGeneratesName", createGeneratesName},
	{"CreateKeepsEmptyFields", createKeepsEmptyFields},
	{"CreateKeepsFields", createKeepsFields},
	{"CreateDropsDisabledFields", createDropsDisabledFields},
	{"CreateDryRun", createDryRun},
	{"CreateRace", createRace},
}

func createSetsSystemFields(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.UID = "mine"
	lease.CreationTimestamp = metav1.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	created := a.post(lease).expect(http.StatusCreated).lease()
	if created.TypeMeta != lease.TypeMeta {
		t.Errorf("type %+v", created.TypeMeta)
	}
	if created.Namespace != namespace || created.Name != a.name {
		t.Errorf("created %s/%s", created.Namespace, created.Name)
	}
	if created.UID == "" || created.UID == "mine" {
		t.Errorf("uid %q", created.UID)
	}
	if created.CreationTimestamp.Year() == 2001 || created.CreationTimestamp.IsZero() {
		t.Errorf("creationTimestamp %s", created.CreationTimestamp)
	}
	revision(t, created.ResourceVersion)
	got := a.get().expect(http.StatusOK).lease()
	if got.UID != created.UID || got.ResourceVersion != created.ResourceVersion || !got.CreationTimestamp.Equal(&created.CreationTimestamp) {
		t.Errorf("created %+v, but read %+v", created.ObjectMeta, got.ObjectMeta)
	}
}

func createExisting(t *testing.T, a *api) {
	first := a.create("a")
	a.post(newLease(a.name)).failsAbout(a.name, http.StatusConflict, metav1.StatusReasonAlreadyExists)
	if got := a.get().lease(); got.ResourceVersion != first.ResourceVersion {
		t.Errorf("the refused create made resourceVersion %s of %s", got.ResourceVersion, first.ResourceVersion)
	}
}

func createWithResourceVersion(t *testing.T, a *api) {
	lease := newLease(a.name)
	lease.ResourceVersion = "5"
	a.post(lease).fails(http.StatusInternalServerError, metav1.StatusReasonUnknown)
	a.get().failsAbout(a.name, http.StatusNotFound, metav1.StatusReasonNotFound)
	lease.ResourceVersion = "0"
	a.post(lease).expect(http.StatusCreated)
}

func createInvalid(t *testing.T, a *api) {
	for _, test := range []struct {
		field string
		spoil func(*coordinationv1.Lease)
	}{
		{"metadata.name", func(l *coordinationv1.Lease) { l.Name = "" }},
		{"metadata.name", func(l *coordinationv1.Lease) { l.Name = "My_App." }},
		{"metadata.name", func(l *coordinationv1.Lease) { l.Name = strings.Repeat("a", 254) }},
		{"metadata.labels", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b c"} }},
		{"metadata.annotations", func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"a b": ""} }},
		{"metadata.annotations", func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{"a": strings.Repeat("a", 300_000)}
		}},
		{"metadata.ownerReferences[0].uid", func(l *coordinationv1.Lease) {
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a"}}
		}},
		{"spec.leaseDurationSeconds", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(0)) }},
		{"spec.leaseDurationSeconds", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(-1)) }},
		{"spec.leaseTransitions", func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(-1)) }},
	} {
		lease := newLease(a.name)
		test.spoil(lease)
		a.post(lease).failsFor(test.field)
	}
	lease := newLease("My_App.")
	lease.Spec.LeaseTransitions = new(int32(-1))
	a.post(lease).failsFor("metadata.name", "spec.leaseTransitions")
	a.get().fails(http.StatusNotFound, metav1.StatusReasonNotFound)
}

func createUnreadable(t *testing.T, a *api) {
	for _, body := range []string{
		``,
		`{"metadata":`,
		`[]`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + a.name + `"}}`,
		`{"apiVersion":"coordination.k8s.io/v9","kind":"Lease","metadata":{"name":"` + a.name + `"}}`,
		`{"metadata":{"name":"` + a.name + `","namespace":"kube-system"}}`,
		`{"metadata":{"name":"` + a.name + `"},"spec":{"leaseDurationSeconds":"15"}}`,
		`{"metadata":{"name":"` + a.name + `"},"spec":{"leaseDurationSeconds":1.5}}`,
		`{"metadata":{"name":"` + a.name + `"},"spec":{"renewTime":"yesterday"}}`,
		`{"metadata":{"name":"` + a.name + `"},"spec":{"renewTime":"2020-01-02T03:04:05"}}`,
	} {
		a.post(body).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
}

func createGeneratesName(t *testing.T, a *api) {
	prefix := a.name + "-"
	created := a.post(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}).expect(http.StatusCreated).lease()
	if !strings.HasPrefix(created.Name, prefix) || len(created.Name) == len(prefix) {
		t.Errorf("generated the name %q from %q", created.Name, prefix)
	}
}

func createKeepsEmptyFields(t *testing.T, a *api) {
	created := a.post(`{"metadata":{"name":"` + a.name + `"},"spec":{"holderIdentity":"","leaseTransitions":0}}`).expect(http.StatusCreated).lease()
	spec := a.get().lease().Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != "" || spec.LeaseTransitions == nil {
		t.Errorf("empty values became %+v", spec)
	}
	if spec.AcquireTime != nil || spec.RenewTime != nil || spec.LeaseDurationSeconds != nil {
		t.Errorf("absent values became %+v", spec)
	}
	created.Spec = coordinationv1.LeaseSpec{}
	a.put(created).expect(http.StatusOK)
	if spec := a.get().lease().Spec; spec != (coordinationv1.LeaseSpec{}) {
		t.Errorf("an empty spec became %+v", spec)
	}
}

func createKeepsFields(t *testing.T, a *api) {
	a.post(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"` + a.name + `",
		"labels":{"app":"web"},"annotations":{"example.com/a":"b"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true}]},
		"spec":{"holderIdentity":"web-0_u","leaseDurationSeconds":15,"leaseTransitions":3,
		"acquireTime":"2020-01-02T03:04:05.000001Z","renewTime":"2020-01-02T05:04:06.123450+02:00"}}`).expect(http.StatusCreated)
	body := string(a.get().expect(http.StatusOK).body)
	for _, want := range []string{
		`"labels":{"app":"web"}`,
		`"annotations":{"example.com/a":"b"}`,
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true}]`,
		`"holderIdentity":"web-0_u"`,
		`"leaseDurationSeconds":15`,
		`"leaseTransitions":3`,
		`"acquireTime":"2020-01-02T03:04:05.000001Z"`,
		`"renewTime":"2020-01-02T03:04:06.123450Z"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

// Coordinated leader election is off by default, and its fields are then dropped before they are validated.
func createDropsDisabledFields(t *testing.T, a *api) {
	created := a.post(`{"metadata":{"name":"` + a.name + `"},"spec":{"strategy":"unknown","preferredHolder":"b"}}`).expect(http.StatusCreated).lease()
	if created.Spec.Strategy != nil || created.Spec.PreferredHolder != nil {
		t.Errorf("kept %+v", created.Spec)
	}
}

func createDryRun(t *testing.T, a *api) {
	created := a.do(request{method: http.MethodPost, path: leasesPath, query: "dryRun=All", body: newLease(a.name)}).expect(http.StatusCreated).lease()
	if created.ResourceVersion != "" || created.UID == "" {
		t.Errorf("dry run gave resourceVersion %q and uid %q", created.ResourceVersion, created.UID)
	}
	a.get().fails(http.StatusNotFound, metav1.StatusReasonNotFound)
}

func createRace(t *testing.T, a *api) {
	a.cleanUp(a.name)
	codes := a.race(func(int) request {
		return request{method: http.MethodPost, path: leasesPath, body: newLease(a.name)}
	})
	if codes[http.StatusCreated] != 1 || codes[http.StatusConflict] != racers-1 {
		t.Errorf("codes %v", codes)
	}
}
