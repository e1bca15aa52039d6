// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// methods are the handlers of one path. Any other method is answered with 405 and the Allow header.
type methods map[string]http.HandlerFunc

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handle, ok := m[r.Method]; ok {
		handle(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(m)), ", "))
	writeGenericError(w, r, http.StatusMethodNotAllowed)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeGenericError(w, r, http.StatusNotFound)
}

// writeGenericError answers for a request that is about no particular object.
func writeGenericError(w http.ResponseWriter, r *http.Request, code int) {
	writeError(w, apierrors.NewGenericServerResponse(code, r.Method, schema.GroupResource{}, "", "", 0, true))
}

func ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// The client is gone if this fails.
	_, _ = io.WriteString(w, "ok")
}
