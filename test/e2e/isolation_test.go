// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
	"github.com/elector-sidecar/elector-sidecar/test/e2e/stage"
	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// TestCaseH2IsolatedLeader: the kubelet stands still for longer than a lease lasts, and the leader's pod and the API server do not
// reach each other. Other pods reach it all the time, also through a Service that selects by the app's label, since nobody is there
// to report that it is not ready. It is not parallel: the kubelet is that of all cases.
func TestCaseH2IsolatedLeader(t *testing.T) {
	const name = "H2: kubelet stopped, leader cut off from the API server"
	node, ok := stage.OwnNode(t, name, stage.Native, stage.Short)
	if !ok {
		return
	}
	row := stage.NewRow(t, name, stage.Native, stage.Short)
	s := stage.New(t, stage.Setup{Shape: stage.Native, Timings: stage.Short, Components: []string{"leader-service", "pod-label"},
		Names: map[string]string{"serviceName": "web-leader", "podLabel": leaderLabel},
		Objects: []runtime.Object{deployment(2, ""), stage.Service("web", map[string]string{"app": "web"}),
			stage.Service("web-leader", nil), stage.Service("web-label", map[string]string{leaderLabel: "leader"})}})
	path, everyPod := s.WatchEndpoints("web-leader"), s.WatchEndpoints("web")
	old := s.Settle()
	clients := map[string]*stage.Client{"the pod's address": s.NewClient(s.PodURL(old.First.Pod)), "the Service of all pods": s.NewClient(s.URL("web")),
		"ELECTOR_SERVICE": s.NewClient(s.URL("web-leader")), "ELECTOR_POD_LABEL": s.NewClient(s.URL("web-label"))}
	for _, client := range clients {
		client.Reached(old.First.Token)
	}

	from, isolated := len(s.Journal().Entries), s.Pod(old.First.Pod).Status.PodIP
	answers := askSidecar(t, isolated)
	mend := isolate(t, node, isolated)
	cut := journal.SinceBoot() // this process is on the node's machine: one clock
	deadline := cut + s.Timings.Renew
	x := s.Succession(old, from)
	row.Fill(t, x, s.Timings.Expiry(), "lease duration + retry period")
	if x.SamePod() || x.Released() {
		t.Errorf("next is %s, want another pod on expiry", x)
	}
	for _, client := range []string{"ELECTOR_SERVICE", "ELECTOR_POD_LABEL", "the Service of all pods"} {
		clients[client].Reached(x.New.First.Token)
	}
	s.Await("the kubelet has stood still for longer than a lease lasts", func() bool { return journal.SinceBoot() > cut+s.Timings.Lease })

	if !slices.Contains(everyPod.Now(), stage.Endpoint{Pod: old.First.Pod, Ready: true, Serving: true}) {
		t.Errorf("the Service of all pods leads to %v: the isolated one is not among them", everyPod.Now())
	}
	if role := s.Pod(old.First.Pod).Labels[leaderLabel]; role != "follower" {
		t.Errorf("the isolated pod is labelled %q, although another leads", role)
	}
	said := lastLeading(answers())
	if said > deadline {
		t.Errorf("the isolated sidecar has said that it leads when asked %s after it was cut off", said-cut)
	}
	refused, answered := 0, 0
	for name, client := range clients {
		for _, r := range judge(s, name, client) {
			switch {
			case r.Sent < deadline || r.Pod != old.First.Pod:
			case r.Outcome == journal.OK:
				answered++
			default:
				refused++
			}
		}
	}
	if refused == 0 || answered > 0 {
		t.Errorf("the isolated pod has refused %d requests after its deadline, and answered %d as the leader", refused, answered)
	}
	moved := reached(s, clients["ELECTOR_SERVICE"].Requests(), x.New)
	follows(s, path)
	t.Logf("the isolated sidecar has said for %s that it leads; then its app has refused %d requests; the Service has reached the new leader %s after its first write",
		seconds(said-cut), refused, seconds(moved))

	mend()
	s.Ready(2)
	s.Await("the old leader follows the new one, as its label says too", func() bool {
		var now struct{ Name, State string }
		err := s.Ask(old.First.Pod, "leader", &now)
		return err == nil && now.State == "following" && now.Name == x.New.First.Pod && s.Pod(old.First.Pod).Labels[leaderLabel] == "follower"
	})
	for _, pod := range s.Pods() {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.RestartCount > 0 {
				t.Errorf("%s of %s was restarted", c.Name, pod.Name)
			}
		}
	}
	if after := s.AtWork(); after.First.Token != x.New.First.Token {
		t.Errorf("%s leads, want %s on", after, x.New)
	}
}

// isolate stops the kubelet and cuts the pod with that address off from the API server, until mend is called or the test ends.
func isolate(t *testing.T, node control.Node, pod string) (mend func()) {
	t.Helper()
	address := netip.MustParseAddr(pod)
	mended := false
	mend = func() {
		if mended {
			return
		}
		mended = true
		if err := node.Mend(address); err != nil {
			t.Error(err)
		}
		if err := node.StartKubelet(); err != nil {
			t.Error(err)
		}
	}
	if err := node.StopKubelet(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mend)
	if err := node.Cut(address); err != nil {
		t.Fatal(err)
	}
	return mend
}

// answer is what a sidecar has said to a request that was sent at some time since boot.
type answer struct {
	sent    time.Duration
	leading bool
}

// askSidecar asks a pod's sidecar over and over who leads, from the node's network, until the answers are asked for.
func askSidecar(t *testing.T, pod string) (answers func() []answer) {
	ctx, stop := context.WithCancel(t.Context())
	var list []answer
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ; ctx.Err() == nil; <-ticker.C {
			sent := journal.SinceBoot()
			var body struct{ IsLeader bool }
			if err := getJSON(ctx, fmt.Sprintf("http://%s/leader", net.JoinHostPort(pod, "4040")), &body); err == nil {
				list = append(list, answer{sent, body.IsLeader})
			}
		}
	}()
	return func() []answer {
		stop()
		<-done
		return list
	}
}

// lastLeading is when the last request was sent that was answered with "leading".
func lastLeading(answers []answer) (last time.Duration) {
	for _, a := range answers {
		if a.leading {
			last = a.sent
		}
	}
	return last
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
