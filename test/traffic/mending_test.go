// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"maps"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// What somebody does to the EndpointSlice is mended within a lease duration, while the same pod leads.
func TestEndpointSliceIsMended(t *testing.T) {
	t.Parallel()
	edit := func(change func(*discoveryv1.EndpointSlice)) func(*scenario) {
		return func(s *scenario) { s.changeSlice(change) }
	}
	for what, tamper := range map[string]func(*scenario){
		"deleted":       (*scenario).deleteSlice,
		"emptied":       edit(func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = nil }),
		"led elsewhere": edit(func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.9.9"} }),
		"led elsewhere too": edit(func(slice *discoveryv1.EndpointSlice) {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.9.9.9"}})
		}),
		"not ready":             edit(func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Conditions.Ready = new(false) }),
		"other ports":           edit(func(slice *discoveryv1.EndpointSlice) { slice.Ports[0].Port = new(int32(1)) }),
		"no Service":            edit(func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelServiceName) }),
		"no owner":              edit(func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences = nil }),
		"no token":              edit(func(slice *discoveryv1.EndpointSlice) { delete(slice.Annotations, traffic.TokenAnnotation) }),
		"no number for a token": edit(func(slice *discoveryv1.EndpointSlice) { slice.Annotations[traffic.TokenAnnotation] = "-7" }),
		"another's, and no Lease": edit(func(slice *discoveryv1.EndpointSlice) {
			slice.Endpoints, slice.Annotations = nil, nil
		}),
	} {
		t.Run(what, func(t *testing.T) {
			s := begin(t, steady)
			s.aService()
			web := s.start(s.member(0))
			leader := web.Leads()
			right := s.leadsTo(s.member(0))
			history := s.sliceHistory()
			tamper(s)
			tampered := time.Now()
			history.await("the EndpointSlice to be mended", func(slice *discoveryv1.EndpointSlice) bool {
				return rv(slice) > rv(right) && shown(slice) == s.member(0).address && len(slice.Ports) == 1 && *slice.Ports[0].Port == 80 &&
					*slice.Endpoints[0].Conditions.Ready && maps.Equal(slice.Labels, right.Labels) &&
					maps.Equal(slice.Annotations, right.Annotations) && len(slice.OwnerReferences) == 1
			})
			s.within(steady.duration+soon/2, time.Since(tampered), "mending")
			if now := web.Leader(); now.FencingToken != leader.FencingToken {
				t.Errorf("another term has begun: %+v", now)
			}
		})
	}
}

// Labels and annotations of others stay.
func TestEndpointSliceKeepsWhatIsNotOurs(t *testing.T) {
	s := begin(t, steady)
	s.aService()
	web := s.start(s.member(0))
	web.Leads()
	s.leadsTo(s.member(0))
	s.changeSlice(func(slice *discoveryv1.EndpointSlice) {
		slice.Labels["team"], slice.Annotations["note"] = "a", "b"
	})
	web.Is(sigterm)
	web.Exits(0)
	s.start(s.member(1)).Leads()
	if slice := s.leadsTo(s.member(1)); slice.Labels["team"] != "a" || slice.Annotations["note"] != "b" {
		t.Errorf("it is labelled %v and annotated with %v", slice.Labels, slice.Annotations)
	}
}

// A Service that is deleted and created again is another: the EndpointSlice has to belong to the new one, or it would be
// collected with the old.
func TestServiceIsCreatedAgain(t *testing.T) {
	s := begin(t, steady)
	before := s.aService()
	web := s.start(s.member(0))
	web.Leads()
	s.leadsTo(s.member(0))
	s.deleteService()
	refused(s, web, "not found")
	after := s.createService(before.Spec)
	history := s.sliceHistory()
	history.await("the EndpointSlice to belong to the new Service", func(slice *discoveryv1.EndpointSlice) bool {
		return len(slice.OwnerReferences) == 1 && slice.OwnerReferences[0].UID == after.UID
	})
	web.AwaitGets("/healthz?verbose", 200, "[+]service/"+s.service)
	web.Logs("the sign can be changed again")
}

// refused checks that the sidecar says why the Service does not lead to it, in the log, once, and on /healthz?verbose, and
// that it leads all the same.
func refused(s *scenario, web *sidecar.Sidecar, why string) {
	s.Helper()
	web.AwaitGets("/healthz?verbose", 200, "[-]service/"+s.service+": ")
	web.AwaitGets("/healthz?verbose", 200, why)
	web.Gets("/healthz", 200)
	web.Gets("/is-leader", 200)
	s.pass(s.timing.retry * 3) // for more of the same
	said := 0
	for _, line := range web.LogLines() {
		if line.Sign == "service/"+s.service && line.Msg != "the sign can be changed again" {
			if said++; !strings.Contains(line.Err, why) {
				s.Errorf("the log says %+v; want %q", line, why)
			}
		}
	}
	if said != 1 {
		s.Errorf("the log says so %d times", said)
	}
}
