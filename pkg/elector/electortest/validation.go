// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"fmt"
	"net/http"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateCreate(lease *coordinationv1.Lease) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&lease.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateSpec(&lease.Spec, field.NewPath("spec"))...)
}

func validateUpdate(lease, current *coordinationv1.Lease) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&lease.ObjectMeta, &current.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateSpec(&lease.Spec, field.NewPath("spec"))...)
}

func validateSpec(spec *coordinationv1.LeaseSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seconds := spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	if transitions := spec.LeaseTransitions; transitions != nil && *transitions < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *transitions, "must be greater than or equal to 0"))
	}
	return errs
}

func validateListOptions(opts metav1.ListOptions) error {
	if opts.Continue != "" {
		return apierrors.NewBadRequest("invalid continue token: lists are not paged")
	}
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	switch match := opts.ResourceVersionMatch; {
	case match == "":
	case opts.ResourceVersion == "":
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
	case match != metav1.ResourceVersionMatchExact && match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(path, match, []metav1.ResourceVersionMatch{
			metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan, ""}))
	case match == metav1.ResourceVersionMatchExact && opts.ResourceVersion == "0":
		errs = append(errs, field.Forbidden(path, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
	}
	if opts.SendInitialEvents != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	}
	return invalidListOptions(errs)
}

func validateWatchOptions(opts metav1.ListOptions) error {
	var errs field.ErrorList
	path := field.NewPath("resourceVersionMatch")
	match := opts.ResourceVersionMatch
	if opts.SendInitialEvents != nil && match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(path,
			fmt.Sprintf("sendInitialEvents requires setting resourceVersionMatch to %s", metav1.ResourceVersionMatchNotOlderThan)))
	}
	if opts.SendInitialEvents == nil && match != "" {
		errs = append(errs, field.Forbidden(path,
			"resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	return invalidListOptions(errs)
}

func invalidListOptions(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

func invalid(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: leaseResource.Group, Kind: "Lease"}, name, errs)
}

// internalError is the answer of a kube-apiserver to an error that it did not foresee: 500 without a reason.
func internalError(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonUnknown,
		Message: message,
	}}
}

// parseResourceVersion gives 0 for a request that names no resourceVersion in particular.
func parseResourceVersion(resourceVersion string) (uint64, error) {
	if resourceVersion == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), resourceVersion, err.Error())
	}
	return revision, nil
}

// objectRevision is the resourceVersion that a Lease to be written carries, 0 for none.
func objectRevision(lease *coordinationv1.Lease) (uint64, error) {
	if lease.ResourceVersion == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
	if err != nil {
		return 0, internalError(err.Error())
	}
	return revision, nil
}
