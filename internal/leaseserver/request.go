// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxBodyBytes is the limit of a kube-apiserver.
const maxBodyBytes = 3 << 20

// decodeQuery reads a request's options with one of metav1's generated conversions.
func decodeQuery[T any](r *http.Request, opts *T, convert func(*url.Values, *T, conversion.Scope) error) error {
	query := r.URL.Query()
	if err := convert(&query, opts, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func readLease(w http.ResponseWriter, r *http.Request) (*coordinationv1.Lease, error) {
	if err := checkContentType(r, runtime.ContentTypeJSON); err != nil {
		return nil, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	if err := json.Unmarshal(body, lease); err != nil {
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("the object provided is unrecognized (must be of type Lease): %v", err))
	}
	if lease.Kind == "" {
		lease.Kind = leaseType.Kind
	}
	if lease.APIVersion == "" {
		lease.APIVersion = leaseType.APIVersion
	}
	if lease.TypeMeta != leaseType {
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("%s in version %q cannot be handled as a Lease", lease.Kind, lease.APIVersion))
	}
	return lease, nil
}

func readDeleteOptions(w http.ResponseWriter, r *http.Request) (metav1.DeleteOptions, error) {
	var opts metav1.DeleteOptions
	body, err := readBody(w, r)
	if err != nil {
		return opts, err
	}
	if len(body) == 0 {
		return opts, decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_DeleteOptions)
	}
	if err := checkContentType(r, runtime.ContentTypeJSON); err != nil {
		return opts, err
	}
	if err := json.Unmarshal(body, &opts); err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooLarge.Limit))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return body, nil
}

// checkContentType takes a missing Content-Type for the wanted one.
func checkContentType(r *http.Request, wanted string) error {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(contentType); err == nil && mediaType == wanted {
		return nil
	}
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+wanted)
}

func checkName(lease *coordinationv1.Lease, name string) error {
	switch lease.Name {
	case name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", lease.Name, name))
	}
}
