// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// logs are those of all containers of a stage, from their start: a pod that is deleted takes its own along.
type logs struct {
	client    kubernetes.Interface
	namespace string
	mu        sync.Mutex
	kept      []*containerLog
}

type containerLog struct {
	pod, container, id string
	mu                 sync.Mutex
	text               bytes.Buffer
}

func (l *containerLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *containerLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// followLogs reads the log of each container that starts, until ctx ends.
func followLogs(ctx context.Context, c kubernetes.Interface, namespace string) *logs {
	l := &logs{client: c, namespace: namespace}
	go func() {
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for {
			if pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
				for _, pod := range pods.Items {
					l.follow(ctx, &pod)
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

// follow begins with the containers of a pod that are new.
func (l *logs) follow(ctx context.Context, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running == nil || slices.ContainsFunc(l.kept, func(k *containerLog) bool { return k.id == status.ContainerID }) {
			continue
		}
		k := &containerLog{pod: pod.Name, container: status.Name, id: status.ContainerID}
		l.kept = append(l.kept, k)
		go func() {
			stream, err := l.client.CoreV1().Pods(l.namespace).GetLogs(k.pod, &corev1.PodLogOptions{Container: k.container, Follow: true}).Stream(ctx)
			if err != nil {
				return // it has ended already
			}
			defer stream.Close()
			_, _ = io.Copy(k, stream)
		}()
	}
}

// Log is what the containers of a pod have logged so far, also where it has gone.
func (s *Stage) Log(pod string) string {
	var text strings.Builder
	for _, k := range s.logs.of(pod) {
		fmt.Fprintf(&text, "log of %s in %s\n%s", k.container, pod, k)
	}
	return text.String()
}

// of is the logs of a pod.
func (l *logs) of(pod string) (list []*containerLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if k.pod == pod {
			list = append(list, k)
		}
	}
	return list
}

// pods is the names of the pods that have logs, in the order of their start.
func (l *logs) pods() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if !slices.Contains(names, k.pod) {
			names = append(names, k.pod)
		}
	}
	return names
}
