// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// What cannot be done is said, nothing is changed, and once it can be done it is.
func TestServiceThatCannotFollow(t *testing.T) {
	t.Parallel()
	single, ports := corev1.IPFamilyPolicySingleStack, []corev1.ServicePort{{Port: 80}}
	ready := func(spec corev1.ServiceSpec) func(*scenario) { return func(s *scenario) { s.serviceOf(spec) } }
	foreign := func(slice *discoveryv1.EndpointSlice) func(*scenario) {
		return func(s *scenario) {
			service := s.aService()
			meta := ours(service)
			for key, value := range slice.Labels {
				meta.Labels[key] = value
			}
			slice.Labels, slice.AddressType = meta.Labels, discoveryv1.AddressTypeIPv4
			if slice.Endpoints == nil {
				slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}
			}
			s.createSlice(slice)
		}
	}
	noSelector := func(s *scenario) {
		s.changeService(func(service *corev1.Service) { service.Spec.Selector = nil })
	}
	for what, test := range map[string]struct {
		service func(*scenario)
		why     string
		mend    func(*scenario)
	}{
		"missing": {
			func(s *scenario) {
				s.aService()
				s.deleteService()
			}, "not found",
			func(s *scenario) { s.createService(corev1.ServiceSpec{Ports: ports}) },
		},
		"with a selector": {
			ready(corev1.ServiceSpec{Ports: ports, Selector: map[string]string{"app": "web"}}), "it must have none", noSelector,
		},
		"ExternalName": {
			ready(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}), "ExternalName",
			func(s *scenario) {
				s.changeService(func(service *corev1.Service) {
					service.Spec.Type, service.Spec.ExternalName, service.Spec.Ports = corev1.ServiceTypeClusterIP, "", ports
				})
			},
		},
		"of another family": {
			ready(corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{"IPv6"}, IPFamilyPolicy: &single, Ports: ports}),
			"its addresses are IPv6, and POD_IP has none of these",
			func(s *scenario) {
				s.deleteService()
				s.createService(corev1.ServiceSpec{Ports: ports})
			},
		},
		"with a port that the pod has not": {
			func(s *scenario) {
				s.serviceOf(corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}})
				s.createPod(0, nil)
			}, `is "http": no container of pod`,
			func(s *scenario) {
				s.changeService(func(service *corev1.Service) { service.Spec.Ports[0].TargetPort = intstr.FromInt32(80) })
			},
		},
		"the EndpointSlice is another's": {
			foreign(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{discoveryv1.LabelManagedBy: "somebody"}}}),
			`is managed by "somebody"`, (*scenario).deleteSlice,
		},
		"the EndpointSlice is of another Lease": {
			foreign(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{traffic.LeaseAnnotation: "default/other", traffic.TokenAnnotation: "1"}}}),
			"shows the leader of the Lease default/other", (*scenario).deleteSlice,
		},
		"the EndpointSlice is of another family": {
			func(s *scenario) {
				service := s.aService()
				s.createSlice(&discoveryv1.EndpointSlice{ObjectMeta: ours(service), AddressType: discoveryv1.AddressTypeIPv6})
			}, "has addresses of type IPv6", (*scenario).deleteSlice,
		},
		"the EndpointSlice shows a later leader": { // as after a restore of objects from elsewhere
			foreign(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{traffic.TokenAnnotation: "18446744073709551615"}}}),
			"a later leader", (*scenario).deleteSlice,
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := begin(t, lasting)
			test.service(s)
			before := s.slice()
			web := s.start(s.member(0))
			web.Leads()
			refused(s, web, test.why)
			if after := s.slice(); before != nil && rv(after) != rv(before) {
				t.Errorf("the EndpointSlice was %v, and is %v", before, after)
			} else if before == nil && after != nil {
				t.Errorf("there is an EndpointSlice: %v", after)
			}
			test.mend(s)
			s.leadsTo(s.member(0))
			web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
		})
	}
}

// Who cannot be shown at least takes out the leader before it, which has lost.
func TestFormerLeaderIsTakenOut(t *testing.T) {
	s := begin(t, steady)
	s.serviceOf(corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}})
	web := s.start(s.createPod(0, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	}))
	web.Leads()
	s.leadsTo(s.member(0))
	next := s.start(s.createPod(1, nil)) // of a later version, without that port
	next.Follows(web.Name)
	web.Is(sigkill)
	next.Leads()
	s.leadsToNobody()
	refused(s, next, "no container of pod")
}

// A sidecar that is killed, and whose pod does not lead after its restart, does not stay the one that is led to.
func TestRestartedPodTakesItselfOut(t *testing.T) {
	s := begin(t, lasting)
	s.aService()
	a := s.healthyApp()
	web := s.start(s.member(0), a.env...)
	web.Leads()
	s.leadsTo(s.member(0))
	web.Is(sigkill)
	<-web.Ended()
	a.ill.Store(true)
	s.start(s.member(0), a.env...)
	s.leadsToNobody()
}

// Who starts as a follower leaves the leader shown.
func TestStartOfAFollowerChangesNothing(t *testing.T) {
	s := begin(t, calm)
	s.aService()
	s.start(s.member(0)).Leads()
	slice := s.leadsTo(s.member(0))
	network := s.proxied()
	next := s.start(s.member(1))
	next.Follows(s.member(0).name)
	next.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
	s.pass(soon / 10)
	if after := s.slice(); rv(after) != rv(slice) {
		t.Errorf("the EndpointSlice was %v, and is %v", slice, after)
	}
	for _, r := range network.Seen(nil) {
		if r.Method != "GET" {
			t.Errorf("a follower sends %+v", r)
		}
	}
}

// leaseRole is the Role that the election needs.
func (s *scenario) leaseRole() *rbacv1.Role {
	return cluster.LeaseRole(s.lease.Name, "create", "get", "list", "update", "watch")
}

// Each permission is missing once: the log names the Role that is needed, and with that Role as it is in the log it works.
func TestServiceWithoutPermission(t *testing.T) {
	t.Parallel()
	const group = discoveryv1.GroupName
	port := map[bool]intstr.IntOrString{false: intstr.FromInt32(8080), true: intstr.FromString("http")}
	for missing, test := range map[string]struct {
		present bool // the EndpointSlice is there already
		named   bool // the Service names a port of the pod
		denied  string
	}{
		"services get":          {denied: `cannot get resource "services"`},
		"endpointslices get":    {denied: `cannot get resource "endpointslices"`},
		"endpointslices create": {denied: `cannot create resource "endpointslices"`},
		"endpointslices update": {present: true, denied: `cannot update resource "endpointslices"`},
		"pods get":              {named: true, denied: `cannot get resource "pods"`},
	} {
		t.Run(missing, func(t *testing.T) {
			s := begin(t, lasting)
			service := s.serviceOf(corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: port[test.named]}}})
			m := s.createPod(0, func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
			})
			if test.present {
				s.createSlice(&discoveryv1.EndpointSlice{ObjectMeta: ours(service), AddressType: discoveryv1.AddressTypeIPv4})
			}
			user := plane.User(t)
			s.config = user.Config
			user.Grant(s.leaseRole())
			some := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-", Namespace: cluster.Namespace}}
			for _, permission := range []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"services"}, ResourceNames: []string{s.service}, Verbs: []string{"get"}},
				{APIGroups: []string{group}, Resources: []string{"endpointslices"}, ResourceNames: []string{s.sliceName()}, Verbs: []string{"get"}},
				{APIGroups: []string{group}, Resources: []string{"endpointslices"}, ResourceNames: []string{s.sliceName()}, Verbs: []string{"update"}},
				{APIGroups: []string{group}, Resources: []string{"endpointslices"}, Verbs: []string{"create"}},
			} {
				if permission.Resources[0]+" "+permission.Verbs[0] != missing {
					some.Rules = append(some.Rules, permission)
				}
			}
			user.Grant(some)
			web := s.start(m)
			web.Leads()
			web.Logs("permission missing")
			web.AwaitGets("/healthz?verbose", 200, "[-]service/"+s.service)
			web.AwaitGets("/healthz?verbose", 200, test.denied)
			web.Gets("/healthz", 200)
			role := &rbacv1.Role{}
			said := web.Complaints()
			if len(said) != 1 || !strings.Contains(said[0].Err, test.denied) {
				t.Fatalf("the log says %+v", said)
			}
			if err := json.Unmarshal([]byte(said[0].RoleNeeded), role); err != nil {
				t.Fatal(err)
			}
			user.Grant(role)
			s.leadsTo(m)
			web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
		})
	}
}

// The Roles of the log are as narrow as they can be.
func TestRolesOfTheLog(t *testing.T) {
	s := begin(t, lasting)
	s.aService()
	const key, gate = "example.com/role", "example.com/leads"
	s.env = append(s.env, "ELECTOR_POD_LABEL="+key, "ELECTOR_READINESS_GATE="+gate)
	user := plane.User(t)
	s.config = user.Config
	user.Grant(s.leaseRole())
	m := s.createPod(0, nil)
	web := s.start(m)
	web.Leads()
	var rules []string
	granted := map[string]bool{}
	s.await("a complaint of each sign", func() error {
		for _, line := range web.Complaints() {
			if granted[line.Sign] {
				continue
			}
			granted[line.Sign] = true
			role := &rbacv1.Role{}
			if err := json.Unmarshal([]byte(line.RoleNeeded), role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				rules = append(rules, strings.Join(slices.Concat(rule.Verbs, rule.Resources, rule.ResourceNames), " "))
			}
			user.Grant(role)
		}
		if len(granted) < 3 {
			return fmt.Errorf("only of %v", granted)
		}
		return nil
	})
	slices.Sort(rules)
	want := []string{"create endpointslices", "get list patch pods", "get pods", "get services " + s.service,
		"get update endpointslices " + s.sliceName(), "patch pods/status"}
	if slices.Sort(want); !slices.Equal(rules, want) {
		t.Errorf("they are %q; want %q", rules, want)
	}
	s.leadsTo(m)
	s.labelled(m, key, "leader")
	s.conditioned(m, gate, corev1.ConditionTrue)
}
