// SPDX-License-Identifier: Apache-2.0

package leaseserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver/conformance"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

func newServer(t *testing.T) (*electortest.Store, *httptest.Server) {
	t.Helper()
	store := electortest.NewStore()
	server := httptest.NewServer(leaseserver.New(store))
	t.Cleanup(server.Close)
	return store, server
}

func TestConformance(t *testing.T) {
	_, server := newServer(t)
	conformance.Run(t, &rest.Config{Host: server.URL})
}

// A real server forgets by compaction, minutes later: that is why this is not in the suite.
func TestExpired(t *testing.T) {
	store, server := newServer(t)
	if _, err := store.Leases("default").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	store.ForgetHistory()
	body := get(t, server.URL+leasesPath+"?watch=true&resourceVersion=1000")
	line, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type   string
		Object metav1.Status
	}
	if err := json.Unmarshal(line, &event); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if event.Type != "ERROR" || event.Object.Code != http.StatusGone || event.Object.Reason != metav1.StatusReasonExpired {
		t.Errorf("event %s", line)
	}
}

// A watch ends with the server's context, so that a server can be shut down under open watches.
func TestContextEndsWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewUnstartedServer(leaseserver.New(electortest.NewStore()))
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	defer server.Close()
	body := get(t, server.URL+leasesPath+"?watch=true")
	cancel()
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("read %q, %v", rest, err)
	}
}

func TestAllowHeader(t *testing.T) {
	_, server := newServer(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+leasesPath+"/web", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if got := reply.Header.Get("Allow"); got != "DELETE, GET, PATCH, PUT" {
		t.Errorf("Allow: %q", got)
	}
}

// A client that speaks protobuf only is told so.
func TestProtobufRefused(t *testing.T) {
	_, server := newServer(t)
	for header, want := range map[string]int{
		"Accept":       http.StatusNotAcceptable,
		"Content-Type": http.StatusUnsupportedMediaType,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+leasesPath, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(header, runtime.ContentTypeProtobuf)
		reply, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("%s: code %d, want %d", header, reply.StatusCode, want)
		}
	}
}

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

func get(t *testing.T, url string) io.Reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reply.Body.Close() })
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, reply.Status)
	}
	return reply.Body
}
