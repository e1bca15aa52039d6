// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// representation turns an object into the form that the client has asked for.
type representation func(runtime.Object) runtime.Object

// negotiate picks the first acceptable of the request's media types: the object itself or, as kubectl asks, a
// Table, both in JSON.
func negotiate(r *http.Request) (representation, error) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return typed, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(clause)
		if err != nil || mediaType != runtime.ContentTypeJSON && mediaType != "*/*" {
			continue
		}
		switch {
		case params["as"] == "":
			return typed, nil
		case params["as"] == "Table" && params["g"] == metav1.GroupName && params["v"] == "v1":
			return tables(metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))), nil
		}
	}
	return nil, failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+runtime.ContentTypeJSON)
}
