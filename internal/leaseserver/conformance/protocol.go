// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

var protocolTests = []testCase{
	{"MethodNotAllowed", methodNotAllowed},
	{"UnknownPath", unknownPath},
	{"NotAcceptable", notAcceptable},
	{"UnsupportedMediaType", unsupportedMediaType},
	{"TooLarge", tooLarge},
	{"Table", table},
	{"Discovery", discovery},
	{"Health", health},
	{"TypedClient", typedClient},
}

func methodNotAllowed(t *testing.T, a *api) {
	a.create("a")
	for _, r := range []request{
		{method: http.MethodPost, path: a.item(), body: newLease(a.name)},
		{method: http.MethodPut, path: leasesPath, body: newLease(a.name)},
		{method: http.MethodPatch, path: leasesPath, contentType: contentMergePatch, body: "{}"},
		{method: http.MethodPost, path: versionPath + "/leases", body: newLease(a.name)},
		{method: http.MethodOptions, path: a.item()},
	} {
		a.do(r).fails(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	}
	a.do(request{method: http.MethodHead, path: a.item()}).expect(http.StatusMethodNotAllowed)
	a.do(request{method: http.MethodHead, path: leasesPath}).expect(http.StatusMethodNotAllowed)
}

func unknownPath(t *testing.T, a *api) {
	for _, path := range []string{versionPath + "/nothing", groupPath + "/v9", versionPath + "/namespaces/" + namespace + "/nothing"} {
		a.do(request{method: http.MethodGet, path: path}).fails(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
	a.do(request{method: http.MethodGet, path: "/nothing"}).expect(http.StatusNotFound)
}

func notAcceptable(t *testing.T, a *api) {
	a.create("a")
	for _, accept := range []string{"image/png", "application/*", "application/json;as=Nothing;v=v1;g=meta.k8s.io"} {
		a.do(request{method: http.MethodGet, path: a.item(), accept: accept}).fails(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable)
		a.do(request{method: http.MethodGet, path: leasesPath, accept: accept}).fails(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable)
	}
	for _, accept := range []string{"*/*", "image/png, application/json", "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json"} {
		a.do(request{method: http.MethodGet, path: a.item(), accept: accept}).expect(http.StatusOK).lease()
	}
}

func unsupportedMediaType(t *testing.T, a *api) {
	body := newLease(a.name)
	for _, r := range []request{
		{method: http.MethodPost, path: leasesPath, contentType: "text/plain", body: body},
		{method: http.MethodPut, path: a.item(), contentType: "text/plain", body: body},
		{method: http.MethodPatch, path: a.item(), contentType: contentJSON, body: body},
	} {
		a.do(r).fails(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
	}
	a.cleanUp(a.name)
	a.do(request{method: http.MethodPost, path: leasesPath, contentType: "application/json; charset=utf-8", body: body}).expect(http.StatusCreated)
}

func tooLarge(t *testing.T, a *api) {
	const limit = 3 << 20
	for _, r := range []request{
		{method: http.MethodPost, path: leasesPath},
		{method: http.MethodPut, path: a.item()},
		{method: http.MethodDelete, path: a.item()},
	} {
		r.body = strings.Repeat(" ", limit+1)
		a.do(r).fails(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
	}
}

// kubectl prints Leases as the server lays them out.
func table(t *testing.T, a *api) {
	lease := a.create("web-0")
	for _, r := range []request{
		{method: http.MethodGet, path: a.item()},
		{method: http.MethodGet, path: leasesPath, query: a.thisName()},
	} {
		r.accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
		got := decode[metav1.Table](a.do(r).expect(http.StatusOK))
		if got.Kind != "Table" || got.APIVersion != "meta.k8s.io/v1" || got.ResourceVersion == "" || len(got.Rows) != 1 {
			t.Fatalf("table %+v", got)
		}
		var columns []string
		for _, column := range got.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		if !slices.Equal(columns, []string{"Name", "Holder", "Age"}) {
			t.Errorf("columns %v", columns)
		}
		if cells := got.Rows[0].Cells; len(cells) != 3 || cells[0] != lease.Name || cells[1] != "web-0" {
			t.Errorf("cells %v", cells)
		}
		if object := string(got.Rows[0].Object.Raw); !strings.Contains(object, `"kind":"PartialObjectMetadata"`) {
			t.Errorf("object %s", object)
		}
	}
}

func discovery(t *testing.T, a *api) {
	at := func(path string) response {
		return a.do(request{method: http.MethodGet, path: path}).expect(http.StatusOK)
	}
	if got := decode[metav1.APIVersions](at("/api")); got.Kind != "APIVersions" {
		t.Errorf("/api: %+v", got)
	}
	groups := decode[metav1.APIGroupList](at("/apis"))
	if !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "coordination.k8s.io" }) {
		t.Errorf("/apis: %+v", groups)
	}
	group := decode[metav1.APIGroup](at(groupPath))
	if group.Name != "coordination.k8s.io" || group.PreferredVersion.GroupVersion != "coordination.k8s.io/v1" {
		t.Errorf("%s: %+v", groupPath, group)
	}
	resources := decode[metav1.APIResourceList](at(versionPath))
	i := slices.IndexFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "leases" })
	if i < 0 {
		t.Fatalf("%s: %+v", versionPath, resources)
	}
	leases := resources.APIResources[i]
	if leases.Kind != "Lease" || leases.SingularName != "lease" || !leases.Namespaced {
		t.Errorf("leases are %+v", leases)
	}
	for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
		if !slices.Contains(leases.Verbs, verb) {
			t.Errorf("leases lack the verb %s", verb)
		}
	}
	if got := decode[version.Info](at("/version")); got.Major != "1" || got.GitVersion == "" {
		t.Errorf("/version: %+v", got)
	}
}

func health(t *testing.T, a *api) {
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if got := a.do(request{method: http.MethodGet, path: path}).expect(http.StatusOK); string(got.body) != "ok" {
			t.Errorf("%s: %q", path, got.body)
		}
	}
}
