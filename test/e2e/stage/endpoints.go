// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// portNumber is where Services lead.
var portNumber = intstr.FromInt32(port)

// Endpoint is a pod as a Service has it.
type Endpoint struct {
	Pod                         string
	Ready, Serving, Terminating bool
}

func (e Endpoint) String() string {
	words := []string{e.Pod}
	for _, w := range []struct {
		word  string
		holds bool
	}{{"ready", e.Ready}, {"serving", e.Serving}, {"terminating", e.Terminating}} {
		if w.holds {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " ")
}

// Endpoints is what an EndpointSlice of a Service has said from some time on.
type Endpoints struct {
	Seen    time.Time // when a watch told of it
	Slice   string    // its name
	Version int64     // its resourceVersion
	Token   int64     // the fencing token that it is annotated with, 0 where it is not
	List    []Endpoint
}

func (e Endpoints) String() string {
	return fmt.Sprintf("%s %s version %d token %d: %v", e.Seen.UTC().Format("15:04:05.000"), e.Slice, e.Version, e.Token, e.List)
}

// Path is how the EndpointSlices of a Service have changed.
type Path struct {
	mu      sync.Mutex
	history []Endpoints
}

// WatchEndpoints keeps how the endpoints of a Service change, from now on.
func (s *Stage) WatchEndpoints(service string) *Path {
	s.T.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s.T.Cleanup(stop)
	watcher, err := s.DiscoveryV1().EndpointSlices(s.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		s.T.Fatal(err)
	}
	p := &Path{}
	go func() {
		for event := range watcher.ResultChan() {
			if slice, ok := event.Object.(*discoveryv1.EndpointSlice); ok && event.Type != watch.Bookmark {
				p.add(slice, event.Type == watch.Deleted)
			}
		}
	}()
	return p
}

func (p *Path) add(slice *discoveryv1.EndpointSlice, gone bool) {
	now := Endpoints{Seen: time.Now(), Slice: slice.Name}
	now.Version, _ = strconv.ParseInt(slice.ResourceVersion, 10, 64)
	now.Token, _ = strconv.ParseInt(slice.Annotations["elector-sidecar/fencing-token"], 10, 64)
	is := func(b *bool) bool { return b != nil && *b }
	for _, e := range slice.Endpoints {
		if c := e.Conditions; !gone && e.TargetRef != nil {
			now.List = append(now.List, Endpoint{e.TargetRef.Name, is(c.Ready), is(c.Serving), is(c.Terminating)})
		}
	}
	slices.SortFunc(now.List, func(a, b Endpoint) int { return strings.Compare(a.Pod, b.Pod) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = append(p.history, now)
}

// History is how the EndpointSlices have changed so far.
func (p *Path) History() []Endpoints {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.history)
}

// Now is what the Service leads to.
func (p *Path) Now() (list []Endpoint) {
	last := map[string][]Endpoint{}
	for _, e := range p.History() {
		last[e.Slice] = e.List
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		list = append(list, last[name]...)
	}
	return list
}
