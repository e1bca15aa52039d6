// SPDX-License-Identifier: Apache-2.0

package electortest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var leaseResource = coordinationv1.Resource("leases")

const generatedSuffixLength = 5

func (s *Store) get(namespace, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	revision, err := parseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, internalError(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkReached(revision); err != nil {
		return nil, err
	}
	lease, err := s.find(namespace, name)
	return lease.DeepCopy(), err
}

func (s *Store) list(namespace string, opts metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	selected, err := newSelection(namespace, opts)
	if err != nil {
		return nil, err
	}
	if err := validateListOptions(opts); err != nil {
		return nil, err
	}
	revision, err := parseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkReached(revision); err != nil {
		return nil, err
	}
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && revision != s.revision {
		return nil, apierrors.NewResourceExpired("The provided resource version is too old.")
	}
	return &coordinationv1.LeaseList{
		ListMeta: metav1.ListMeta{ResourceVersion: formatResourceVersion(s.revision)},
		Items:    s.selectLocked(selected),
	}, nil
}

// selectLocked returns copies of the selected Leases in the order of their keys.
func (s *Store) selectLocked(selected selection) []coordinationv1.Lease {
	items := []coordinationv1.Lease{}
	for _, lease := range s.leases {
		if selected.matches(lease) {
			items = append(items, *lease.DeepCopy())
		}
	}
	slices.SortFunc(items, func(a, b coordinationv1.Lease) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return items
}

func (s *Store) create(client *Client, namespace string, in *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	lease, err := admit(namespace, in)
	if err != nil {
		return nil, err
	}
	if lease.Name == "" && lease.GenerateName != "" {
		lease.Name = lease.GenerateName + rand.String(generatedSuffixLength)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createLocked(client, "create", lease, opts.DryRun)
}

func (s *Store) createLocked(client *Client, verb string, lease *coordinationv1.Lease, dryRun []string) (*coordinationv1.Lease, error) {
	lease.UID = uuid.NewUUID()
	lease.CreationTimestamp = now()
	lease.DeletionTimestamp = nil
	lease.DeletionGracePeriodSeconds = nil
	if errs := validateCreate(lease); len(errs) > 0 {
		return nil, invalid(lease.Name, errs)
	}
	if revision, err := strconv.ParseUint(lease.ResourceVersion, 10, 64); err == nil && revision != 0 {
		return nil, internalError("resourceVersion should not be set on objects to be created")
	}
	lease.ResourceVersion = ""
	key := keyOf(lease)
	if s.leases[key] != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
	}
	if len(dryRun) == 0 {
		s.commit(client, verb, key, lease)
	}
	return lease.DeepCopy(), nil
}

func (s *Store) update(client *Client, namespace string, in *coordinationv1.Lease, opts metav1.UpdateOptions) (result *coordinationv1.Lease, created bool, err error) {
	lease, err := admit(namespace, in)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.leases[keyOf(lease)]
	if err := checkUID(lease, current); err != nil {
		return nil, false, err
	}
	if current != nil {
		result, err = s.replaceLocked(client, "update", lease, current, opts.DryRun)
		return result, false, err
	}
	if _, err := objectRevision(lease); err != nil {
		return nil, false, err
	}
	lease.ResourceVersion = ""
	result, err = s.createLocked(client, "update", lease, opts.DryRun)
	return result, err == nil, err
}

// patch changes a Lease as it is now, so that it meets no conflict of its own making.
func (s *Store) patch(client *Client, namespace, name string, change func(*coordinationv1.Lease) error, opts metav1.PatchOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, err := s.find(namespace, name)
	if err != nil {
		return nil, err
	}
	lease := current.DeepCopy()
	if err := change(lease); err != nil {
		return nil, err
	}
	lease, err = admit(namespace, lease)
	if err != nil {
		return nil, err
	}
	if lease.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", lease.Name, name))
	}
	return s.replaceLocked(client, "patch", lease, current, opts.DryRun)
}

// replaceLocked puts lease, which the caller gives away, in the place of current.
func (s *Store) replaceLocked(client *Client, verb string, lease, current *coordinationv1.Lease, dryRun []string) (*coordinationv1.Lease, error) {
	if err := checkRevision(lease, current); err != nil {
		return nil, err
	}
	keepSystemFields(lease, current)
	if errs := validateUpdate(lease, current); len(errs) > 0 {
		return nil, invalid(lease.Name, errs)
	}
	switch {
	case equality.Semantic.DeepEqual(lease, current):
	case len(dryRun) > 0:
	case lease.DeletionTimestamp != nil && len(lease.Finalizers) == 0:
		s.commit(client, verb, keyOf(lease), nil)
	default:
		s.commit(client, verb, keyOf(lease), lease)
	}
	return lease.DeepCopy(), nil
}

// delete returns the deleted Lease. A Lease with finalizers is only marked, and returned as marked.
func (s *Store) delete(client *Client, namespace, name string, opts metav1.DeleteOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease, err := s.find(namespace, name)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(lease, opts.Preconditions); err != nil {
		return nil, err
	}
	lease = lease.DeepCopy()
	switch {
	case len(opts.DryRun) > 0:
	case len(lease.Finalizers) == 0:
		s.commit(client, "delete", keyOf(lease), nil)
	case lease.DeletionTimestamp == nil:
		lease.DeletionTimestamp = new(now())
		lease.DeletionGracePeriodSeconds = new(int64(0))
		s.commit(client, "delete", keyOf(lease), lease)
		lease = lease.DeepCopy()
	}
	return lease, nil
}

func (s *Store) find(namespace, name string) (*coordinationv1.Lease, error) {
	lease := s.leases[types.NamespacedName{Namespace: namespace, Name: name}]
	if lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, name)
	}
	return lease, nil
}

// checkReached refuses to answer for a resourceVersion that is still to come.
func (s *Store) checkReached(revision uint64) error {
	if revision <= s.revision {
		return nil
	}
	tooLarge := apierrors.NewTimeoutError(
		fmt.Sprintf("Too large resource version: %d, current: %d", revision, s.revision), 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return tooLarge
}

// admit returns a copy of a Lease as it would arrive over the wire at a namespace's collection.
func admit(namespace string, in *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease := in.DeepCopy()
	lease.TypeMeta = metav1.TypeMeta{}
	lease.ManagedFields = nil
	dropDisabledFields(&lease.Spec)
	for _, t := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		if t != nil {
			t.Time = t.Truncate(time.Microsecond).Local()
		}
	}
	if lease.Namespace == "" {
		lease.Namespace = namespace
	}
	if lease.Namespace != namespace {
		return nil, apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	return lease, nil
}

// dropDisabledFields drops what belongs to coordinated leader election, a feature that is off by default.
func dropDisabledFields(spec *coordinationv1.LeaseSpec) {
	spec.Strategy = nil
	spec.PreferredHolder = nil
}

// keepSystemFields carries over what an update cannot change.
func keepSystemFields(lease, current *coordinationv1.Lease) {
	if lease.UID == "" {
		lease.UID = current.UID
	}
	lease.CreationTimestamp = current.CreationTimestamp
	lease.Generation = current.Generation
	if current.DeletionTimestamp != nil {
		lease.DeletionTimestamp = current.DeletionTimestamp
		lease.DeletionGracePeriodSeconds = current.DeletionGracePeriodSeconds
	}
}

// checkUID takes the uid of a Lease to be written, where it has one, as a precondition; current may be nil.
func checkUID(lease, current *coordinationv1.Lease) error {
	var uid types.UID
	if current != nil {
		uid = current.UID
	}
	if lease.UID == "" || lease.UID == uid {
		return nil
	}
	//lint:ignore ST1005 these are the words of the API server
	precondition := fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", lease.UID, uid)
	return apierrors.NewConflict(leaseResource, lease.Name, precondition)
}

func checkRevision(lease, current *coordinationv1.Lease) error {
	revision, err := objectRevision(lease)
	if err != nil {
		return err
	}
	if revision == 0 {
		kind := schema.GroupKind{Group: leaseResource.Group, Kind: leaseResource.Resource}
		return apierrors.NewInvalid(kind, lease.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), revision, "must be specified for an update"),
		})
	}
	if revision != parseStored(current.ResourceVersion) {
		return apierrors.NewConflict(leaseResource, lease.Name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

func checkPreconditions(lease *coordinationv1.Lease, preconditions *metav1.Preconditions) error {
	if preconditions == nil {
		return nil
	}
	resource := schema.GroupResource{Group: leaseResource.Group, Resource: "Lease"}
	if uid := preconditions.UID; uid != nil && *uid != lease.UID {
		return apierrors.NewConflict(resource, lease.Name, fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated",
			*uid, lease.UID))
	}
	if version := preconditions.ResourceVersion; version != nil && *version != lease.ResourceVersion {
		return apierrors.NewConflict(resource, lease.Name, fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified",
			*version, lease.ResourceVersion))
	}
	return nil
}

func keyOf(lease *coordinationv1.Lease) types.NamespacedName {
	return types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
}

// now has the precision of a metav1.Time on the wire.
func now() metav1.Time {
	return metav1.Time{Time: time.Now().Truncate(time.Second)}
}
