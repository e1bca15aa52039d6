// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// readMergePatch returns the change that a JSON merge patch (RFC 7386) makes; no other kind is understood.
func readMergePatch(w http.ResponseWriter, r *http.Request) (func(*coordinationv1.Lease) error, error) {
	if err := checkContentType(r, string(types.MergePatchType)); err != nil {
		return nil, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	return func(lease *coordinationv1.Lease) error { return mergeInto(lease, patch) }, nil
}

func mergeInto(lease *coordinationv1.Lease, patch map[string]any) error {
	before, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal(before, &object); err != nil {
		return fmt.Errorf("decode lease: %w", err)
	}
	after, err := json.Marshal(merge(object, patch))
	if err != nil {
		return fmt.Errorf("encode patched lease: %w", err)
	}
	patched := coordinationv1.Lease{}
	if err := json.Unmarshal(after, &patched); err != nil {
		return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(after), err.Error()),
		})
	}
	*lease = patched
	return nil
}

func merge(target, patch map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			child, _ := target[key].(map[string]any)
			target[key] = merge(child, value)
		default:
			target[key] = value
		}
	}
	return target
}
