// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

var (
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

const (
	serviceNameLabel = "kubernetes.io/service-name"
	managedByLabel   = "endpointslice.kubernetes.io/managed-by"
	manager          = "elector-sidecar"
	// attempts bounds how often an object is read and written again when another has written it meanwhile.
	attempts = 5
)

// service is what is read of a v1 Service.
type service struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Type       string            `json:"type"`
		Selector   map[string]string `json:"selector"`
		IPFamilies []string          `json:"ipFamilies"`
		Ports      []servicePort     `json:"ports"`
	} `json:"spec"`
}

type servicePort struct {
	Name        string             `json:"name"`
	Protocol    string             `json:"protocol"`
	AppProtocol *string            `json:"appProtocol"`
	Port        int32              `json:"port"`
	TargetPort  intstr.IntOrString `json:"targetPort"`
}

// endpointSlice is a discovery.k8s.io/v1 EndpointSlice as far as it is written here.
type endpointSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	AddressType       string         `json:"addressType"`
	Endpoints         []endpoint     `json:"endpoints"`
	Ports             []endpointPort `json:"ports"`
}

type endpoint struct {
	Addresses  []string   `json:"addresses"`
	Conditions conditions `json:"conditions"`
	NodeName   string     `json:"nodeName,omitempty"`
	TargetRef  *reference `json:"targetRef,omitempty"`
}

type conditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating"`
}

type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

type endpointPort struct {
	Name        string  `json:"name"`
	Protocol    string  `json:"protocol"`
	Port        int32   `json:"port"`
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// Service is the sign of a Service without a selector: an EndpointSlice that has the leader as its only endpoint, or none.
// It is one object for all candidates, so that a leader that cannot be reached any more need not do anything.
type Service struct {
	api   *apiserver.Client
	name  string
	lease string
	pod   Pod

	named   bool           // the Service names a port of the pod
	seen    *endpointSlice // as last read or written; nil: it has to be read
	created *endpointSlice // what may have been created without an answer
}

// NewService returns the sign of the Service of that name in the pod's namespace, for the leader of the lease namespace/name.
func NewService(api *apiserver.Client, name, lease string, pod Pod) *Service {
	return &Service{api: api, name: name, lease: lease, pod: pod}
}

// SliceName is the name of the EndpointSlice of a Service.
func SliceName(service string) string { return service + "-leader" }

func (s *Service) String() string { return "service/" + s.name }

// Role is what the sign needs: a create request does not say the name where RBAC looks for it.
func (s *Service) Role() string {
	rules := []policyRule{
		rule("", "services", s.name, "get"),
		rule("discovery.k8s.io", "endpointslices", "", "create"),
		rule("discovery.k8s.io", "endpointslices", SliceName(s.name), "get", "update"),
	}
	if s.named {
		rules = append(rules, rule("", "pods", "", "get"))
	}
	return role(s.pod.Namespace, "elector-sidecar-service:"+s.name, rules...)
}

// Raise makes this pod the only endpoint, with the ports of the Service. Where that fails it takes out the leader before
// this one all the same.
func (s *Service) Raise(ctx context.Context, token uint64) error {
	err := s.raise(ctx, token)
	if err != nil {
		_ = s.empty(ctx, token, func(slice *endpointSlice) bool { return parseToken(slice.Annotations) < token })
	}
	return err
}

func (s *Service) raise(ctx context.Context, token uint64) error {
	target, err := s.target(ctx)
	s.seen = nil // somebody may have changed it meanwhile
	if err != nil {
		return err
	}
	return s.write(ctx, token, func(slice *endpointSlice) error {
		if slice.AddressType != "" && slice.AddressType != target.AddressType {
			return fmt.Errorf("EndpointSlice %s has addresses of type %s, which cannot be changed to the Service's, %s: delete it",
				s.where(), slice.AddressType, target.AddressType)
		}
		slice.AddressType, slice.Endpoints, slice.Ports = target.AddressType, target.Endpoints, target.Ports
		slice.OwnerReferences = target.OwnerReferences
		return nil
	})
}

// Lower takes this pod out.
func (s *Service) Lower(ctx context.Context, token uint64) error {
	var err error
	if token == 0 { // only a predecessor in this pod can have put it in
		err = s.empty(ctx, 0, s.leadsHere)
	} else {
		err = s.write(ctx, token, withoutEndpoints)
	}
	if errors.Is(err, errLater) || errors.Is(err, errForeign) {
		return nil // it is not in there
	}
	return err
}

// empty takes out whoever is in an EndpointSlice of which what is asked is true.
func (s *Service) empty(ctx context.Context, token uint64, of func(*endpointSlice) bool) error {
	slice, err := s.read(ctx)
	if err != nil || slice == nil || len(slice.Endpoints) == 0 || !of(slice) {
		return err
	}
	s.seen = slice
	return s.write(ctx, max(token, parseToken(slice.Annotations)), withoutEndpoints)
}

func withoutEndpoints(slice *endpointSlice) error {
	slice.Endpoints = nil
	return nil
}

// write changes the EndpointSlice, or creates it, unless a later leader has done so. To lower what is not there creates it
// only where it may yet come to be there.
func (s *Service) write(ctx context.Context, token uint64, change func(*endpointSlice) error) error {
	var err error
	for range attempts {
		if err = s.try(ctx, token, change); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

func (s *Service) try(ctx context.Context, token uint64, change func(*endpointSlice) error) error {
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	slice := &endpointSlice{}
	switch {
	case before != nil:
		if err := s.check(before); err != nil {
			return err
		}
		if shown := parseToken(before.Annotations); shown > token {
			return laterLeader("EndpointSlice "+s.where(), shown, token)
		}
		*slice = *before
		slice.ObjectMeta = *before.DeepCopy()
	case s.created != nil:
		*slice = *s.created
		slice.ObjectMeta = *s.created.DeepCopy()
	}
	if err := change(slice); err != nil {
		return err
	}
	if slice.AddressType == "" {
		return nil // nothing was ever raised
	}
	slice.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
	slice.Name, slice.Namespace = SliceName(s.name), s.pod.Namespace
	metav1.SetMetaDataLabel(&slice.ObjectMeta, serviceNameLabel, s.name)
	metav1.SetMetaDataLabel(&slice.ObjectMeta, managedByLabel, manager)
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, LeaseAnnotation, s.lease)
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, TokenAnnotation, formatToken(token))
	if before != nil && same(before, slice) {
		s.seen = before
		return nil
	}
	stored := &endpointSlice{}
	s.seen = nil
	if before == nil {
		earlier := s.created
		s.created = slice
		if err = s.api.Create(ctx, endpointSlices, slice, stored); refused(err) {
			s.created = earlier
		}
	} else {
		err = s.api.Update(ctx, endpointSlices, slice.Name, slice, stored)
	}
	if err != nil {
		return fmt.Errorf("write EndpointSlice %s: %w", s.where(), err)
	}
	s.seen, s.created = stored, nil
	log := klog.FromContext(ctx)
	if len(slice.Endpoints) > 0 {
		log.Info("the Service leads to this pod", "service", s.pod.Namespace+"/"+s.name, "endpoint", slice.Endpoints[0].Addresses[0], "fencingToken", token)
	} else {
		log.Info("the Service does not lead to this pod any more", "service", s.pod.Namespace+"/"+s.name, "fencingToken", token)
	}
	return nil
}

// refused tells whether an error says that nothing was stored, nor will be. 408 is a proxy's, which may have passed it on.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return 400 <= code && code < 500 && code != http.StatusRequestTimeout
}

// read is the EndpointSlice, nil where there is none; what was seen last is good for one time.
func (s *Service) read(ctx context.Context) (*endpointSlice, error) {
	if s.seen != nil {
		seen := s.seen
		s.seen = nil
		return seen, nil
	}
	slice := &endpointSlice{}
	switch err := s.api.Get(ctx, endpointSlices, SliceName(s.name), slice); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read EndpointSlice %s: %w", s.where(), err)
	}
	return slice, nil
}

// leadsHere tells whether the EndpointSlice has this very pod.
func (s *Service) leadsHere(slice *endpointSlice) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e endpoint) bool {
		return e.TargetRef != nil && e.TargetRef.UID != "" && e.TargetRef.UID == string(s.pod.UID)
	})
}

func (s *Service) where() string { return s.pod.Namespace + "/" + SliceName(s.name) }

// errForeign is of an EndpointSlice that is not this sign's.
var errForeign = errors.New("it is not written")

// check refuses such an EndpointSlice.
func (s *Service) check(slice *endpointSlice) error {
	if by := slice.Labels[managedByLabel]; by != manager {
		return fmt.Errorf("EndpointSlice %s is managed by %q, not by %s: %w; rename the Service or delete it", s.where(), by, manager, errForeign)
	}
	if lease := slice.Annotations[LeaseAnnotation]; lease != "" && lease != s.lease {
		return fmt.Errorf("EndpointSlice %s shows the leader of the Lease %s, not of %s: %w, since a Service can follow one Lease; delete the EndpointSlice if it was to follow that one before",
			s.where(), lease, s.lease, errForeign)
	}
	return nil
}

// target is what an EndpointSlice of the Service has to say for it to lead to this pod.
func (s *Service) target(ctx context.Context) (*endpointSlice, error) {
	svc := &service{}
	name := s.pod.Namespace + "/" + s.name
	if err := s.api.Get(ctx, services, s.name, svc); err != nil {
		return nil, fmt.Errorf("read Service %s: %w", name, err)
	}
	switch {
	case len(svc.Spec.Selector) > 0:
		return nil, fmt.Errorf("Service %s has a selector, so that it leads to every pod that this selects: it must have none", name)
	case svc.Spec.Type == "ExternalName":
		return nil, fmt.Errorf("Service %s is of type ExternalName, which has no endpoints: it must be of another", name)
	}
	address, family, err := s.address(svc.Spec.IPFamilies)
	if err != nil {
		return nil, fmt.Errorf("Service %s: %w", name, err)
	}
	ports, err := s.ports(ctx, svc.Spec.Ports)
	if err != nil {
		return nil, fmt.Errorf("Service %s: %w", name, err)
	}
	return &endpointSlice{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}}}, // so that it goes with the Service
		AddressType: family,
		Endpoints: []endpoint{{
			Addresses:  []string{address.String()},
			Conditions: conditions{Ready: true, Serving: true},
			NodeName:   s.pod.Node,
			TargetRef:  &reference{Kind: "Pod", Namespace: s.pod.Namespace, Name: s.pod.Name, UID: string(s.pod.UID)},
		}},
		Ports: ports,
	}, nil
}

// address is this pod's in the first of the Service's families in which it has one.
func (s *Service) address(families []string) (netip.Addr, string, error) {
	familyOf := func(a netip.Addr) string {
		if a.Is4() {
			return "IPv4"
		}
		return "IPv6"
	}
	for _, family := range families {
		for _, a := range s.pod.Addresses {
			if familyOf(a) == family {
				return a, family, nil
			}
		}
	}
	return netip.Addr{}, "", fmt.Errorf("its addresses are %s, and POD_IP has none of these", strings.Join(families, " and "))
}

func (s *Service) ports(ctx context.Context, declared []servicePort) ([]endpointPort, error) {
	var ports []endpointPort
	var self *pod
	for _, p := range declared {
		port := endpointPort{Name: p.Name, Protocol: cmp.Or(p.Protocol, "TCP"), Port: p.TargetPort.IntVal, AppProtocol: p.AppProtocol}
		switch {
		case p.TargetPort.Type == intstr.String:
			s.named = true
			if self == nil {
				self = &pod{}
				if err := s.api.Get(ctx, pods, s.pod.Name, self); err != nil {
					return nil, fmt.Errorf("targetPort of port %d is the name %q, which stands for a port of the pod; a number needs no permission to read it: read pod %s: %w",
						p.Port, p.TargetPort.StrVal, s.pod.Name, err)
				}
			}
			number, ok := self.port(p.TargetPort.StrVal, port.Protocol)
			if !ok {
				return nil, fmt.Errorf("targetPort of port %d is %q: no container of pod %s has a %s port of that name",
					p.Port, p.TargetPort.StrVal, s.pod.Name, port.Protocol)
			}
			port.Port = number
		case port.Port == 0:
			port.Port = p.Port
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// same tells whether nothing would change.
func same(a, b *endpointSlice) bool {
	encode := func(s *endpointSlice) string {
		c := *s
		c.TypeMeta = metav1.TypeMeta{}
		c.Endpoints, c.Ports = append([]endpoint{}, s.Endpoints...), append([]endpointPort{}, s.Ports...)
		text, err := json.Marshal(c)
		return string(text) + fmt.Sprint(errors.Unwrap(err))
	}
	return encode(a) == encode(b)
}
