// SPDX-License-Identifier: Apache-2.0

// Package leaseserver serves the Lease API of an electortest.Store over HTTP, in the wire format of a
// kube-apiserver: for the demo, for tests, and enough for "kubectl get lease" to work.
//
// It speaks JSON only: a client that sends protobuf is refused with 415, and one that accepts nothing but
// protobuf with 406. There is no authentication, so it belongs on a loopback address.
package leaseserver

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

const (
	groupPath   = "/apis/coordination.k8s.io"
	versionPath = groupPath + "/v1"
)

// New returns a handler that serves the Leases of store. A watch ends with its request's context, so that a
// server's BaseContext can end them all.
func New(store *electortest.Store) http.Handler {
	s := &server{store: store}
	router := mux.NewRouter()
	for path, methods := range map[string]methods{
		versionPath + "/leases": {http.MethodGet: s.list},
		versionPath + "/namespaces/{namespace}/leases": {
			http.MethodGet:  s.list,
			http.MethodPost: s.create,
		},
		versionPath + "/namespaces/{namespace}/leases/{name}": {
			http.MethodGet:    s.get,
			http.MethodPut:    s.update,
			http.MethodPatch:  s.patch,
			http.MethodDelete: s.delete,
		},
		"/api":      {http.MethodGet: fixed(apiVersions)},
		"/apis":     {http.MethodGet: fixed(groupList)},
		groupPath:   {http.MethodGet: fixed(group)},
		versionPath: {http.MethodGet: fixed(resourceList)},
		"/version":  {http.MethodGet: fixed(serverVersion)},
		"/healthz":  {http.MethodGet: ok},
		"/livez":    {http.MethodGet: ok},
		"/readyz":   {http.MethodGet: ok},
	} {
		router.Handle(path, methods)
	}
	router.NotFoundHandler = http.HandlerFunc(notFound)
	return router
}

type server struct {
	store *electortest.Store
}

func (s *server) leases(r *http.Request) *electortest.Client {
	return s.store.Leases(mux.Vars(r)["namespace"])
}
