// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	groupPath   = "/apis/coordination.k8s.io"
	versionPath = groupPath + "/v1"
	leasesPath  = versionPath + "/namespaces/" + namespace + "/leases"

	contentJSON       = "application/json"
	contentMergePatch = "application/merge-patch+json"
)

// api is one subtest's access to the server. Its Leases are called name, or begin with it.
type api struct {
	t      *testing.T
	config *rest.Config
	client *http.Client
	base   *url.URL
	name   string
}

// request is one HTTP request. A body is sent as it is when it is a string, and otherwise encoded.
type request struct {
	method      string
	path        string
	query       string
	contentType string
	accept      string
	body        any
}

type response struct {
	t      *testing.T
	what   string
	code   int
	header http.Header
	body   []byte
}

func (a *api) item() string {
	return leasesPath + "/" + a.name
}

func (a *api) do(r request) response {
	a.t.Helper()
	reply := a.open(a.t.Context(), r)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		a.t.Fatalf("%s %s: read: %v", r.method, r.path, err)
	}
	return response{t: a.t, what: r.method + " " + r.path, code: reply.StatusCode, header: reply.Header, body: body}
}

func (a *api) open(ctx context.Context, r request) *http.Response {
	a.t.Helper()
	reply, err := a.send(ctx, r)
	if err != nil {
		a.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return reply
}

func (a *api) send(ctx context.Context, r request) (*http.Response, error) {
	body, isText := r.body.(string)
	if !isText && r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = string(encoded)
	}
	address := a.base.JoinPath(r.path)
	address.RawQuery = r.query
	out, err := http.NewRequestWithContext(ctx, r.method, address.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header.Set("User-Agent", "conformance")
	if r.contentType == "" && r.body != nil {
		r.contentType = contentJSON
	}
	if r.contentType != "" {
		out.Header.Set("Content-Type", r.contentType)
	}
	if r.accept != "" {
		out.Header.Set("Accept", r.accept)
	}
	return a.client.Do(out)
}

func (a *api) get() response {
	a.t.Helper()
	return a.do(request{method: http.MethodGet, path: a.item()})
}

// post creates a Lease and sees to its deletion.
func (a *api) post(body any) response {
	a.t.Helper()
	r := a.do(request{method: http.MethodPost, path: leasesPath, body: body})
	if r.code == http.StatusCreated {
		a.cleanUp(r.lease().Name)
	}
	return r
}

// put updates the subtest's Lease and, as that can create it, sees to its deletion.
func (a *api) put(body any) response {
	a.t.Helper()
	r := a.do(request{method: http.MethodPut, path: a.item(), body: body})
	if r.code == http.StatusCreated {
		a.cleanUp(a.name)
	}
	return r
}

func (a *api) mergePatch(body any) response {
	a.t.Helper()
	return a.do(request{method: http.MethodPatch, path: a.item(), contentType: contentMergePatch, body: body})
}

func (a *api) delete() response {
	a.t.Helper()
	return a.do(request{method: http.MethodDelete, path: a.item()})
}

func (a *api) cleanUp(name string) {
	a.t.Cleanup(func() {
		reply, err := a.send(context.WithoutCancel(a.t.Context()), request{method: http.MethodDelete, path: leasesPath + "/" + name})
		if err != nil {
			a.t.Errorf("delete %s: %v", name, err)
			return
		}
		reply.Body.Close()
	})
}

// create makes the subtest's Lease, held by holder.
func (a *api) create(holder string) *coordinationv1.Lease {
	a.t.Helper()
	return a.createNamed(a.name, holder)
}

func (a *api) createNamed(name, holder string) *coordinationv1.Lease {
	a.t.Helper()
	lease := newLease(name)
	lease.Spec.HolderIdentity = &holder
	return a.post(lease).expect(http.StatusCreated).lease()
}

// hold updates a Lease to another holder.
func (a *api) hold(lease *coordinationv1.Lease, holder string) *coordinationv1.Lease {
	a.t.Helper()
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = &holder
	return a.do(request{method: http.MethodPut, path: leasesPath + "/" + lease.Name, body: lease}).expect(http.StatusOK).lease()
}

func newLease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(15))},
	}
}

func (r response) expect(code int) response {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("%s: code %d, want %d: %s", r.what, r.code, code, bytes.TrimSpace(r.body))
	}
	return r
}

// fails checks that the answer is a complete Status with this code and reason.
func (r response) fails(code int, reason metav1.StatusReason) metav1.Status {
	r.t.Helper()
	status := r.expect(code).status()
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != metav1.StatusFailure {
		r.t.Errorf("%s: not a v1 Status of a failure: %s", r.what, r.body)
	}
	if int(status.Code) != code || status.Reason != reason {
		r.t.Errorf("%s: status has code %d and reason %q, want %d and %q", r.what, status.Code, status.Reason, code, reason)
	}
	if status.Message == "" {
		r.t.Errorf("%s: status has no message", r.what)
	}
	return status
}

// failsAbout is fails where the Status must name the Lease.
func (r response) failsAbout(name string, code int, reason metav1.StatusReason) {
	r.t.Helper()
	details := r.fails(code, reason).Details
	if details == nil || details.Name != name || details.Group != coordinationv1.GroupName || details.Kind != "leases" {
		r.t.Errorf("%s: details %+v do not name the lease %s", r.what, details, name)
	}
}

// failsFor is an Invalid Status that blames these fields, and no others.
func (r response) failsFor(fields ...string) {
	r.t.Helper()
	status := r.fails(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	var blamed []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			blamed = append(blamed, cause.Field)
		}
	}
	slices.Sort(blamed)
	slices.Sort(fields)
	if !slices.Equal(slices.Compact(blamed), fields) {
		r.t.Errorf("%s: blames %v, want %v", r.what, blamed, fields)
	}
}

func (r response) lease() *coordinationv1.Lease {
	r.t.Helper()
	return decode[coordinationv1.Lease](r)
}

func (r response) status() metav1.Status {
	r.t.Helper()
	return *decode[metav1.Status](r)
}

func decode[T any](r response) *T {
	r.t.Helper()
	if got := r.header.Get("Content-Type"); got != contentJSON {
		r.t.Errorf("%s: Content-Type %q", r.what, got)
	}
	out := new(T)
	if err := json.Unmarshal(r.body, out); err != nil {
		r.t.Fatalf("%s: %v: %s", r.what, err, r.body)
	}
	return out
}

func revision(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("resourceVersion %q is not a positive number", resourceVersion)
	}
	return n
}

// later checks that a resourceVersion is larger than an earlier one.
func later(t *testing.T, earlier, later string) {
	t.Helper()
	if revision(t, later) <= revision(t, earlier) {
		t.Errorf("resourceVersion %s does not follow %s", later, earlier)
	}
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
