// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// ClientTimeout is how long a client waits for an answer.
const ClientTimeout = 2 * time.Second

// clientPeriod is the time from one request of a client to the next.
const clientPeriod = 50 * time.Millisecond

// Client is a pod that requests a URL over and over. It is on the node of the recorder, so that its times and those of the
// journal are of one clock, and in the namespace of the recorder, so that it is no pod of the stage.
type Client struct {
	stage *Stage
	name  string
}

// NewClient starts a client of a URL, and waits until it is at work.
func (s *Stage) NewClient(url string) *Client {
	s.T.Helper()
	pods := s.CoreV1().Pods(shared.recorder.namespace)
	recorder, err := pods.Get(s.T.Context(), shared.recorder.pod, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	spec := program("client",
		corev1.EnvVar{Name: "TARGET_URL", Value: url},
		corev1.EnvVar{Name: "CLIENT_PERIOD", Value: clientPeriod.String()},
		corev1.EnvVar{Name: "CLIENT_TIMEOUT", Value: ClientTimeout.String()})
	spec.NodeName = recorder.Spec.NodeName
	pod, err := pods.Create(s.T.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "client-"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		if err := s.removePod(shared.recorder.namespace, pod.Name); err != nil {
			s.T.Error(err)
		}
	})
	c := &Client{stage: s, name: pod.Name}
	s.AwaitNil("the client is at work", func() error {
		if requests, err := c.requests(); err != nil || len(requests) == 0 {
			return fmt.Errorf("%d requests: %w", len(requests), err)
		}
		return nil
	})
	return c
}

// Requests is what the client has seen so far, in the order of sending.
func (c *Client) Requests() journal.Requests {
	c.stage.T.Helper()
	var requests journal.Requests
	c.stage.AwaitNil("the client tells what it has seen", func() (err error) {
		requests, err = c.requests()
		return err
	})
	return requests
}

func (c *Client) requests() (requests journal.Requests, err error) {
	content, err := c.stage.CoreV1().Pods(shared.recorder.namespace).
		ProxyGet("http", c.name, strconv.Itoa(port), "requests", nil).DoRaw(c.stage.T.Context())
	if err != nil {
		return nil, err
	}
	return requests, json.Unmarshal(content, &requests)
}

// Reached waits until the client has had an answer with that token, or of a later leader.
func (c *Client) Reached(token int64) {
	c.stage.T.Helper()
	c.stage.Await(fmt.Sprintf("a request is answered with token %d", token), func() bool {
		return slices.ContainsFunc(c.Requests(), func(r journal.Request) bool { return r.Outcome == journal.OK && r.Token >= token })
	})
}

// URL is where a Service answers. The cluster may have no DNS.
func (s *Stage) URL(service string) string {
	s.T.Helper()
	svc, err := s.CoreV1().Services(s.Namespace).Get(s.T.Context(), service, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return fmt.Sprintf("http://%s:%d/", bracketed(svc.Spec.ClusterIP), svc.Spec.Ports[0].Port)
}

// PodURL is where the app in a pod answers.
func (s *Stage) PodURL(pod string) string {
	s.T.Helper()
	return fmt.Sprintf("http://%s:%d/", bracketed(s.Pod(pod).Status.PodIP), port)
}
