// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"encoding/json"
	"errors"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	statusType    = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	leaseType     = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"}
	leaseListType = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "LeaseList"}
)

// typed sets the kind and apiVersion that an object has on the wire.
func typed(object runtime.Object) runtime.Object {
	switch object := object.(type) {
	case *coordinationv1.Lease:
		object.TypeMeta = leaseType
	case *coordinationv1.LeaseList:
		object.TypeMeta = leaseListType
	case *metav1.Status:
		object.TypeMeta = statusType
	}
	return object
}

func writeObject(w http.ResponseWriter, code int, object any) {
	body, err := json.Marshal(object)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	// The client is gone if this fails.
	_, _ = w.Write(append(body, '\n'))
}

// writeError answers with the Status of an error, or 500 when it has none.
func writeError(w http.ResponseWriter, err error) {
	status := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: err.Error(),
	}
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = known.Status()
	}
	writeObject(w, int(status.Code), typed(&status))
}

func failure(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: message,
	}}
}
