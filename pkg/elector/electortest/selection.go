// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// selection says which Leases a list or a watch is about.
type selection struct {
	namespace string
	fields    fields.Selector
	labels    labels.Selector
}

func newSelection(namespace string, opts metav1.ListOptions) (selection, error) {
	byField, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return selection{}, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if requirement.Field != nameField && requirement.Field != namespaceField {
			return selection{}, apierrors.NewBadRequest(fmt.Sprintf(
				"%q is not a known field selector: only %q, %q", requirement.Field, nameField, namespaceField))
		}
	}
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return selection{}, apierrors.NewBadRequest(err.Error())
	}
	return selection{namespace: namespace, fields: byField, labels: byLabel}, nil
}

func (s selection) matches(lease *coordinationv1.Lease) bool {
	if s.namespace != metav1.NamespaceAll && s.namespace != lease.Namespace {
		return false
	}
	return s.labels.Matches(labels.Set(lease.Labels)) &&
		s.fields.Matches(fields.Set{nameField: lease.Name, namespaceField: lease.Namespace})
}

// event is what a watch of this selection says about a write; false when that is nothing. A Lease that leaves
// the selection is Deleted to the watch, with the resourceVersion of the write.
func (s selection) event(write Write) (watch.Event, bool) {
	was := write.Previous != nil && s.matches(write.Previous)
	is := write.Lease != nil && s.matches(write.Lease)
	switch {
	case was && is:
		return watch.Event{Type: watch.Modified, Object: write.Lease.DeepCopy()}, true
	case is:
		return watch.Event{Type: watch.Added, Object: write.Lease.DeepCopy()}, true
	case was:
		lease := write.Previous.DeepCopy()
		lease.ResourceVersion = write.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: lease}, true
	default:
		return watch.Event{}, false
	}
}
