// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

const (
	ipv4 = "10.1.0.1"
	ipv6 = "2001:db8::1"
)

// The EndpointSlice is what kube-proxy and others expect of one.
func TestEndpointSlice(t *testing.T) {
	s := begin(t, calm)
	service := s.aService()
	m := s.createPod(0, nil)
	web := s.start(m)
	leader := web.Leads()
	slice := s.leadsTo(m)
	if slice.Labels[discoveryv1.LabelServiceName] != s.service || slice.Labels[discoveryv1.LabelManagedBy] != "elector-sidecar" {
		t.Errorf("it is labelled %v", slice.Labels)
	}
	if slice.Annotations[traffic.LeaseAnnotation] != cluster.Namespace+"/"+s.lease.Name ||
		slice.Annotations[traffic.TokenAnnotation] != fmt.Sprint(leader.FencingToken) {
		t.Errorf("it is annotated with %v; the leader says %+v", slice.Annotations, leader)
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}
	if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0] != owner {
		t.Errorf("its owners are %+v", slice.OwnerReferences)
	}
	endpoint := slice.Endpoints[0]
	yes := func(b *bool) bool { return b != nil && *b }
	if c := endpoint.Conditions; !yes(c.Ready) || !yes(c.Serving) || c.Terminating == nil || *c.Terminating {
		t.Errorf("its endpoint's conditions are %v", c)
	}
	if endpoint.NodeName == nil || *endpoint.NodeName != m.node {
		t.Errorf("its endpoint is on node %v", endpoint.NodeName)
	}
	pod := corev1.ObjectReference{Kind: "Pod", Namespace: cluster.Namespace, Name: m.name, UID: s.pod(m).UID}
	if endpoint.TargetRef == nil || *endpoint.TargetRef != pod {
		t.Errorf("its endpoint stands for %+v", endpoint.TargetRef)
	}
	web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
}

// What is not known is left out.
func TestEndpointSliceOfAPodWithoutANode(t *testing.T) {
	s := begin(t, calm)
	s.aService()
	s.start(s.member(0), "NODE_NAME=", "POD_UID=").Leads()
	endpoint := s.leadsTo(s.member(0)).Endpoints[0]
	if endpoint.NodeName != nil || endpoint.TargetRef.UID != "" || endpoint.TargetRef.Name != s.member(0).name {
		t.Errorf("its endpoint is %+v", endpoint)
	}
}

// Each kind of Service: the ports and the address that the EndpointSlice has to have, the ports as name/protocol/number.
func TestPortsAndAddresses(t *testing.T) {
	t.Parallel()
	single, prefer, headless := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.ClusterIPNone
	number, name := intstr.FromInt32, intstr.FromString
	const both = ipv4 + "," + ipv6
	for what, test := range map[string]struct {
		spec    corev1.ServiceSpec
		pod     []corev1.ContainerPort // of the second container; nil: the pod is not in the cluster
		ip      string                 // POD_IP; "" is ipv4
		ports   []string
		address string // "" is ipv4
	}{
		"several named, with numbers": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "web", Port: 80, TargetPort: number(8080)}, {Name: "admin", Port: 81, TargetPort: number(8081)}}},
			ports: []string{"web/TCP/8080", "admin/TCP/8081"},
		},
		"no targetPort": {
			spec:  corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			ports: []string{"/TCP/80"},
		},
		"named targetPort": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "a", Port: 80, TargetPort: name("http")}, {Name: "b", Port: 81, TargetPort: name("side")}}},
			pod:   []corev1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "http", ContainerPort: 8080}},
			ports: []string{"a/TCP/8080", "b/TCP/4040"},
		},
		"one name, two protocols": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "u", Port: 53, Protocol: "UDP", TargetPort: name("dns")}, {Name: "t", Port: 53, TargetPort: name("dns")}}},
			pod:   []corev1.ContainerPort{{Name: "dns", ContainerPort: 5353}}, // and in the sidecar's for UDP
			ports: []string{"u/UDP/5354", "t/TCP/5353"},
		},
		"UDP and SCTP": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "u", Port: 53, Protocol: "UDP"}, {Name: "s", Port: 36412, Protocol: "SCTP", TargetPort: number(1)}}},
			ports: []string{"u/UDP/53", "s/SCTP/1"},
		},
		"appProtocol": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "a", Port: 80, AppProtocol: new("kubernetes.io/h2c")}, {Name: "b", Port: 81}}},
			ports: []string{"a/TCP/80/kubernetes.io/h2c", "b/TCP/81"},
		},
		"headless": {
			spec:  corev1.ServiceSpec{ClusterIP: headless, Ports: []corev1.ServicePort{{Port: 80, TargetPort: number(8080)}}},
			ports: []string{"/TCP/8080"},
		},
		"headless without ports": {
			spec: corev1.ServiceSpec{ClusterIP: headless},
		},
		"headless, of a pod of the second family": { // without a family policy it is of both
			spec: corev1.ServiceSpec{ClusterIP: headless}, ip: ipv6, address: ipv6,
		},
		"IPv6": {
			spec: corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{"IPv6"}, IPFamilyPolicy: &single,
				Ports: []corev1.ServicePort{{Port: 80}}},
			ip: both, address: ipv6, ports: []string{"/TCP/80"},
		},
		"IPv4 of a pod that names the other first": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}, ip: ipv6 + "," + ipv4, ports: []string{"/TCP/80"},
		},
		"both families, the first is IPv6": {
			spec: corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{"IPv6", "IPv4"}, IPFamilyPolicy: &prefer,
				Ports: []corev1.ServicePort{{Port: 80}}},
			ip: both, address: ipv6, ports: []string{"/TCP/80"},
		},
		"both families, of a pod of the second": {
			spec: corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{"IPv6", "IPv4"}, IPFamilyPolicy: &prefer,
				Ports: []corev1.ServicePort{{Port: 80}}},
			ports: []string{"/TCP/80"},
		},
		"an address that is IPv4 in IPv6": {
			spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}, ip: "::ffff:" + ipv4, ports: []string{"/TCP/80"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := begin(t, calm)
			s.serviceOf(test.spec)
			m := s.member(0)
			if test.pod != nil {
				m = s.createPod(0, func(pod *corev1.Pod) {
					always := corev1.ContainerRestartPolicyAlways
					pod.Spec.InitContainers = []corev1.Container{{Name: "elector-sidecar", Image: "x", RestartPolicy: &always,
						Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 4040}, {Name: "dns", ContainerPort: 5354, Protocol: "UDP"}}}}
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "web", Image: "x", Ports: test.pod})
				})
			}
			if m.address = ipv4; test.ip != "" {
				m.address = test.ip
			}
			s.start(m).Leads()
			want, family := ipv4, discoveryv1.AddressTypeIPv4
			if test.address == ipv6 {
				want, family = ipv6, discoveryv1.AddressTypeIPv6
			}
			slice := s.leads(want)
			if slice.AddressType != family {
				t.Errorf("it has addresses of type %s", slice.AddressType)
			}
			var ports []string
			for _, p := range slice.Ports {
				text := fmt.Sprintf("%s/%s/%d", *p.Name, *p.Protocol, *p.Port)
				if p.AppProtocol != nil {
					text += "/" + *p.AppProtocol
				}
				ports = append(ports, text)
			}
			if !slices.Equal(ports, test.ports) {
				t.Errorf("its ports are %s; want %s", strings.Join(ports, " "), strings.Join(test.ports, " "))
			}
		})
	}
}

// The ports follow the Service while the pod leads.
func TestPortsFollowTheService(t *testing.T) {
	s := begin(t, brisk)
	s.aService()
	s.start(s.member(0)).Leads()
	s.leadsTo(s.member(0))
	history := s.sliceHistory()
	s.changeService(func(service *corev1.Service) { service.Spec.Ports[0].TargetPort = intstr.FromInt32(9090) })
	history.await("another port", func(slice *discoveryv1.EndpointSlice) bool { return *slice.Ports[0].Port == 9090 })
}
