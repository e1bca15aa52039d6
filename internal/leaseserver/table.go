// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

var leaseColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	{Name: "Holder", Type: "string", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]},
	{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

// tables shows Leases as kubectl prints them; anything else stays what it is. Like a kube-apiserver, it gives
// the columns once per response, so that in a watch only the first Table has them.
func tables(include metav1.IncludeObjectPolicy) representation {
	columns := leaseColumns
	table := func(meta metav1.ListMeta, leases ...coordinationv1.Lease) *metav1.Table {
		t := &metav1.Table{
			TypeMeta:          metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"},
			ListMeta:          meta,
			ColumnDefinitions: columns,
			Rows:              []metav1.TableRow{},
		}
		columns = nil
		for i := range leases {
			t.Rows = append(t.Rows, row(&leases[i], include))
		}
		return t
	}
	return func(object runtime.Object) runtime.Object {
		switch object := object.(type) {
		case *coordinationv1.Lease:
			return table(metav1.ListMeta{ResourceVersion: object.ResourceVersion}, *object)
		case *coordinationv1.LeaseList:
			return table(object.ListMeta, object.Items...)
		default:
			return typed(object)
		}
	}
}

func row(lease *coordinationv1.Lease, include metav1.IncludeObjectPolicy) metav1.TableRow {
	var holder string
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	age := "<unknown>"
	if !lease.CreationTimestamp.IsZero() {
		age = duration.HumanDuration(time.Since(lease.CreationTimestamp.Time))
	}
	r := metav1.TableRow{Cells: []any{lease.Name, holder, age}}
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		r.Object.Object = typed(lease)
	default:
		r.Object.Object = &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"},
			ObjectMeta: lease.ObjectMeta,
		}
	}
	return r
}
