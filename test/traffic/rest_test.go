// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/http"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

// signRequests are those that are about no Lease.
func signRequests(r proxy.Request) bool { return !proxy.To("", "/leases")(r) }

// A follower at rest sends nothing because of the signs, and a leader looks after them once in a lease duration.
func TestRequestsAtRest(t *testing.T) {
	s := begin(t, steady)
	s.aService()
	s.env = append(s.env, "ELECTOR_POD_LABEL="+roleKey, "ELECTOR_READINESS_GATE="+gate)
	m, n := s.createPod(0, nil), s.createPod(1, nil)
	config := s.config
	ofLeader := s.proxied()
	web := s.start(m)
	web.Leads()
	s.leadsTo(m)
	s.config = config
	ofFollower := s.proxied()
	next := s.start(n)
	next.Follows(web.Name)
	s.labelled(n, roleKey, "follower")
	s.conditioned(n, gate, "False")
	ofFollower.Await("the look for what a predecessor left", proxy.To(http.MethodGet, "/endpointslices/"))
	ofFollower.Quieten(soon/10, signRequests)

	ofFollower.Forget()
	ofLeader.Forget()
	const checks = 2
	s.pass(checks * steady.duration)
	if sent := ofFollower.Seen(signRequests); len(sent) > 0 {
		t.Errorf("a follower at rest sends %v", sent)
	}
	// A check reads the Service, the EndpointSlice, the pods with the label, and the pod twice.
	sent := ofLeader.Seen(signRequests)
	if most := 5 * (checks + 1); len(sent) > most || len(sent) < 5 {
		t.Errorf("a leader at rest sends %d requests, not 5 to %d: %v", len(sent), most, sent)
	}
	for _, r := range sent {
		if r.Method != http.MethodGet {
			t.Errorf("a leader at rest sends %v", r)
		}
	}
	web.Gets("/is-leader", 200)
}

// Who could never be shown has nothing to take back, and does not ask for it as a follower.
func TestRequestsOfWhoWasNeverShown(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]func(*scenario){
		"the EndpointSlice is another's": func(s *scenario) {
			s.createSlice(&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{discoveryv1.LabelServiceName: s.service, discoveryv1.LabelManagedBy: "somebody"}}})
		},
		"it may not create one": func(s *scenario) {
			user := plane.User(s)
			s.config = user.Config
			user.Grant(s.leaseRole())
			role := cluster.LeaseRole(s.sliceName(), "get", "update")
			role.Rules[0].APIGroups, role.Rules[0].Resources = []string{discoveryv1.GroupName}, []string{"endpointslices"}
			role.Rules[1].APIGroups, role.Rules[1].Resources = []string{""}, []string{"services"}
			role.Rules[1].ResourceNames, role.Rules[1].Verbs = []string{s.service}, []string{"get"}
			user.Grant(role)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, steady)
			s.aService()
			ready(s)
			network := s.proxied()
			web := s.start(s.member(0))
			web.Leads()
			web.AwaitGets("/healthz?verbose", 200, "[-]service/"+s.service)
			web.Post("/resign?cooldown=1m", http.StatusAccepted)
			web.AwaitGets("/leader", 200, `"state":"following"`)
			web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
			network.Forget()
			s.pass(5 * steady.retry)
			if sent := network.Seen(signRequests); len(sent) > 0 {
				t.Errorf("as a follower it sends %v", sent)
			}
		})
	}
}
