// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const streamTimeout = 30 * time.Second

// stream is an open watch. A subtest that waits for an event in vain fails after streamTimeout.
type stream struct {
	t       *testing.T
	decoder *json.Decoder
}

func (a *api) watch(query string) *stream {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), streamTimeout)
	a.t.Cleanup(cancel)
	reply := a.open(ctx, request{method: http.MethodGet, path: leasesPath, query: "watch=true&" + query})
	a.t.Cleanup(func() { reply.Body.Close() })
	if reply.StatusCode != http.StatusOK || reply.Header.Get("Content-Type") != contentJSON {
		a.t.Fatalf("watch %s: code %d, Content-Type %q", query, reply.StatusCode, reply.Header.Get("Content-Type"))
	}
	return &stream{t: a.t, decoder: json.NewDecoder(reply.Body)}
}

// next reads an event, which must be of this type.
func (s *stream) next(want string) *coordinationv1.Lease {
	s.t.Helper()
	lease := &coordinationv1.Lease{}
	s.read(want, lease)
	if lease.Kind != "Lease" || lease.APIVersion != coordinationv1.SchemeGroupVersion.String() {
		s.t.Errorf("event with an object of type %+v", lease.TypeMeta)
	}
	return lease
}

// expect reads an event, which must be of this type and show the Lease.
func (s *stream) expect(want string, lease *coordinationv1.Lease) {
	s.t.Helper()
	got := s.next(want)
	if got.Name != lease.Name || got.UID != lease.UID || got.ResourceVersion != lease.ResourceVersion || holder(got) != holder(lease) {
		s.t.Fatalf("%s %s held by %q at %s, want %s held by %q at %s", want,
			got.Name, holder(got), got.ResourceVersion, lease.Name, holder(lease), lease.ResourceVersion)
	}
}

func (s *stream) fail() metav1.Status {
	s.t.Helper()
	var status metav1.Status
	s.read("ERROR", &status)
	return status
}

func (s *stream) read(want string, object any) {
	s.t.Helper()
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := s.decoder.Decode(&event); err != nil {
		s.t.Fatalf("wait for %s: %v", want, err)
	}
	if event.Type != want {
		s.t.Fatalf("event %s, want %s: %s", event.Type, want, event.Object)
	}
	if err := json.Unmarshal(event.Object, object); err != nil {
		s.t.Fatalf("decode %s: %v", event.Object, err)
	}
}

// end checks that the watch ends in good order, without another event.
func (s *stream) end() {
	s.t.Helper()
	var event json.RawMessage
	if err := s.decoder.Decode(&event); !errors.Is(err, io.EOF) {
		s.t.Fatalf("event %s or error %v, want the end", event, err)
	}
}
