// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// recorder is the pod that keeps what the apps of all stages write, behind a Service.
type recorder struct{ namespace, pod, url string }

// startRecorder starts it, and waits until it answers.
func (c *cluster) startRecorder(ctx context.Context) error {
	namespace, err := c.namespace(ctx, "recorder")
	if err != nil {
		return err
	}
	const name = "recorder"
	c.recorder = &recorder{namespace: namespace, pod: name}
	labels := map[string]string{"app": name}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: program(name)}
	if _, err := c.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	service, err := c.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.recorder.url = fmt.Sprintf("http://%s:%d/journals/", bracketed(service.Spec.ClusterIP), port) // the cluster may have no DNS
	return poll(ctx, "the recorder is ready", func() (bool, error) {
		pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && ready(pod), err
	})
}

// ledger is this process's copy of a stage's journal.
type ledger struct {
	mu   sync.Mutex
	copy journal.Journal
}

// update gets what is new.
func (l *ledger) update(ctx context.Context, c *cluster, name string) (journal.Journal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	content, err := c.CoreV1().Pods(c.recorder.namespace).ProxyGet("http", c.recorder.pod, strconv.Itoa(port), "journals/"+name,
		map[string]string{"from": strconv.Itoa(len(l.copy.Entries))}).DoRaw(ctx)
	if err != nil {
		return l.copy, err
	}
	var news journal.Journal
	if err := json.Unmarshal(content, &news); err != nil {
		return l.copy, err
	}
	if l.copy.Recorder != "" && l.copy.Recorder != news.Recorder {
		return l.copy, fmt.Errorf("the recorder has been restarted: what was written is lost")
	}
	l.copy.Recorder, l.copy.Boot = news.Recorder, news.Boot
	l.copy.Entries = append(l.copy.Entries, news.Entries...)
	return l.copy, nil
}

// Journal is what the apps have written so far.
func (s *Stage) Journal() journal.Journal {
	s.T.Helper()
	j, err := s.ledger.update(s.T.Context(), shared, s.Namespace)
	if err != nil {
		s.T.Fatal(err)
	}
	return j
}
