// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

var (
	pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

type object struct {
	Name string `json:"name"`
}

func clientOf(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Each request is what the API server expects, and its answer is read as JSON.
func TestRequests(t *testing.T) {
	var sent string
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Content-Type"), " ", string(body))
		fmt.Fprint(w, `{"name":"back","more":1}`)
	})
	ctx, send, into := t.Context(), object{"there"}, &object{}
	for want, do := range map[string]func() error{
		"GET /api/v1/namespaces/shop/pods/web-0  ":                   func() error { return client.Get(ctx, pods, "web-0", into) },
		"GET /api/v1/namespaces/shop/pods?labelSelector=a%2Fb%3Dc  ": func() error { return client.List(ctx, pods, "a/b=c", into) },
		`POST /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices application/json {"name":"there"}`: func() error {
			return client.Create(ctx, endpointSlices, send, into)
		},
		`PUT /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web application/json {"name":"there"}`: func() error {
			return client.Update(ctx, endpointSlices, "web", send, into)
		},
		`PATCH /api/v1/namespaces/shop/pods/web-0 application/merge-patch+json {"name":"there"}`: func() error {
			return client.Patch(ctx, pods, "web-0", "", types.MergePatchType, send, into)
		},
		`PATCH /api/v1/namespaces/shop/pods/web-0/status application/strategic-merge-patch+json {"name":"there"}`: func() error {
			return client.Patch(ctx, pods, "web-0", "status", types.StrategicMergePatchType, send, into)
		},
	} {
		*into = object{}
		if err := do(); err != nil || sent != want || into.Name != "back" {
			t.Errorf("sent %q; want %q; read %v, %v", sent, want, into, err)
		}
	}
	if err := client.Patch(ctx, pods, "web-0", "", types.MergePatchType, send, nil); err != nil {
		t.Error(err)
	}
}

// Errors are known by what the API server says, and say it.
func TestErrors(t *testing.T) {
	for what, test := range map[string]struct {
		code   int
		reason string
		is     func(error) bool
	}{
		"conflict":       {409, "Conflict", apierrors.IsConflict},
		"already exists": {409, "AlreadyExists", apierrors.IsAlreadyExists},
		"forbidden":      {403, "Forbidden", apierrors.IsForbidden},
		"not found":      {404, "NotFound", apierrors.IsNotFound},
		"invalid":        {422, "Invalid", apierrors.IsInvalid},
		"busy":           {429, "TooManyRequests", apierrors.IsTooManyRequests},
	} {
		t.Run(what, func(t *testing.T) {
			asked := 0
			client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(test.code)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"endpoints[0].addresses[0]: may not be that"}`,
					test.reason, test.code)
			})
			err := client.Create(t.Context(), endpointSlices, object{}, nil)
			if !test.is(err) || !strings.Contains(err.Error(), "may not be that") {
				t.Errorf("the error is %v", err)
			}
			if asked != 1 {
				t.Errorf("it was sent %d times", asked)
			}
		})
	}
	t.Run("no API server's", func(t *testing.T) {
		client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		if err := client.Get(t.Context(), pods, "web-0", &object{}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("no JSON", func(t *testing.T) {
		client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
		if err := client.Get(t.Context(), pods, "web-0", &object{}); err == nil || !strings.Contains(err.Error(), "pods") {
			t.Errorf("the error is %v", err)
		}
	})
}

// After a request without an answer the next one goes out on a new connection; one that was called off says nothing.
func TestSilentConnectionIsReplaced(t *testing.T) {
	var connections atomic.Int32
	var silent atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			<-r.Context().Done()
		}
		fmt.Fprint(w, `{}`)
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context) error { return client.Get(ctx, pods, "web-0", &object{}) }
	for _, step := range []struct {
		timeout time.Duration // 0: it is answered
		cause   error         // why it is not waited for
		want    int32         // connections so far
	}{
		{0, nil, 1},
		{0, nil, 1},
		{50 * time.Millisecond, context.Canceled, 1},
		{0, nil, 1},
		{50 * time.Millisecond, context.DeadlineExceeded, 1},
		{0, nil, 2},
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		silent.Store(step.timeout > 0)
		switch {
		case step.timeout == 0:
		case errors.Is(step.cause, context.DeadlineExceeded):
			ctx, cancel = context.WithTimeout(ctx, step.timeout)
		default:
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(step.timeout, cancel)
		}
		if err := get(ctx); (err != nil) != (step.timeout > 0) {
			t.Errorf("%+v: %v", step, err)
		}
		cancel()
		if got := connections.Load(); got != step.want {
			t.Errorf("%+v: there were %d connections", step, got)
		}
	}
}
