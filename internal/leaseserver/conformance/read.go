// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var readTests = []testCase{
	{"Get", get},
	{"List", list},
	{"ListEmpty", listEmpty},
	{"ListByLabel", listByLabel},
	{"ListAllNamespaces", listAllNamespaces},
	{"ListBadOptions", listBadOptions},
	{"ReadFuture", readFuture},
}

func get(t *testing.T, a *api) {
	a.get().failsAbout(a.name, http.StatusNotFound, metav1.StatusReasonNotFound)
	lease := a.create("a")
	for _, query := range []string{"", "resourceVersion=" + lease.ResourceVersion} {
		got := a.do(request{method: http.MethodGet, path: a.item(), query: query}).expect(http.StatusOK).lease()
		if got.ResourceVersion != lease.ResourceVersion || got.TypeMeta != lease.TypeMeta {
			t.Errorf("%q: got %+v", query, got)
		}
	}
	a.do(request{method: http.MethodGet, path: a.item(), query: "resourceVersion=abc"}).
		fails(http.StatusInternalServerError, metav1.StatusReasonUnknown)
}

func (a *api) list(query string) response {
	a.t.Helper()
	return a.do(request{method: http.MethodGet, path: leasesPath, query: query})
}

func (r response) leaseList() *coordinationv1.LeaseList {
	r.t.Helper()
	list := decode[coordinationv1.LeaseList](r.expect(http.StatusOK))
	if list.Kind != "LeaseList" || list.APIVersion != coordinationv1.SchemeGroupVersion.String() {
		r.t.Errorf("%s: type %+v", r.what, list.TypeMeta)
	}
	return list
}

func list(t *testing.T, a *api) {
	first := a.createNamed(a.name+"-1", "a")
	second := a.createNamed(a.name+"-2", "a")
	third := a.hold(first, "b")
	list := a.list("").leaseList()
	if revision(t, list.ResourceVersion) < revision(t, third.ResourceVersion) {
		t.Errorf("list at %s is older than %s", list.ResourceVersion, third.ResourceVersion)
	}
	var found []string
	for _, item := range list.Items {
		if strings.HasPrefix(item.Name, a.name) {
			found = append(found, item.Name+"@"+item.ResourceVersion)
		}
	}
	want := []string{first.Name + "@" + third.ResourceVersion, second.Name + "@" + second.ResourceVersion}
	if strings.Join(found, " ") != strings.Join(want, " ") {
		t.Errorf("listed %v, want %v", found, want)
	}
	for _, selector := range []string{"metadata.name%3D" + second.Name, "metadata.name%3D%3D" + second.Name + ",metadata.namespace%3D" + namespace} {
		one := a.list("fieldSelector=" + selector).leaseList()
		if len(one.Items) != 1 || one.Items[0].UID != second.UID {
			t.Errorf("%s selected %+v", selector, one.Items)
		}
		if revision(t, one.ResourceVersion) < revision(t, list.ResourceVersion) {
			t.Errorf("list at %s after one at %s", one.ResourceVersion, list.ResourceVersion)
		}
	}
}

func listEmpty(t *testing.T, a *api) {
	r := a.list("fieldSelector=metadata.name%3D" + a.name)
	revision(t, r.leaseList().ResourceVersion)
	if !strings.Contains(string(r.body), `"items":[]`) {
		t.Errorf("an empty list is %s", r.body)
	}
}

func listByLabel(t *testing.T, a *api) {
	for i, value := range []string{"x", "y"} {
		lease := newLease(a.name + "-" + strconv.Itoa(i))
		lease.Labels = map[string]string{a.name: value}
		a.post(lease).expect(http.StatusCreated)
	}
	for selector, want := range map[string]int{a.name: 2, a.name + "%3Dx": 1, a.name + "%3Dz": 0, "%21" + a.name + "," + a.name: 0} {
		if got := a.list("labelSelector=" + selector).leaseList().Items; len(got) != want {
			t.Errorf("%s selected %d, want %d", selector, len(got), want)
		}
	}
}

func listAllNamespaces(t *testing.T, a *api) {
	lease := a.create("a")
	r := a.do(request{method: http.MethodGet, path: versionPath + "/leases", query: "fieldSelector=metadata.name%3D" + a.name})
	if items := r.leaseList().Items; len(items) != 1 || items[0].UID != lease.UID {
		t.Errorf("listed %+v", items)
	}
}

func listBadOptions(t *testing.T, a *api) {
	for _, query := range []string{
		"resourceVersion=abc",
		"fieldSelector=spec.holderIdentity%3Da",
		"fieldSelector=bad",
		"labelSelector=a%3D%3D%3Db",
		"timeoutSeconds=abc",
		"continue=abc",
	} {
		a.list(query).fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	for query, field := range map[string]string{
		"resourceVersionMatch=Exact":                       "resourceVersionMatch",
		"resourceVersionMatch=Exact&resourceVersion=0":     "resourceVersionMatch",
		"resourceVersionMatch=Whatever&resourceVersion=10": "resourceVersionMatch",
		"sendInitialEvents=true":                           "sendInitialEvents",
	} {
		a.list(query).failsFor(field)
	}
}

// A real server waits a few seconds for a resourceVersion that is still to come; then both give up.
func readFuture(t *testing.T, a *api) {
	lease := a.create("a")
	future := "resourceVersion=" + strconv.FormatUint(revision(t, lease.ResourceVersion)+1_000_000, 10)
	for _, path := range []string{a.item(), leasesPath} {
		status := a.do(request{method: http.MethodGet, path: path, query: future}).fails(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
		if status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
			t.Errorf("details %+v", status.Details)
		}
	}
}
