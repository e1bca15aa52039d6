// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// dump shows what is to be seen of the stage: the Lease, the writes, and of each pod its state, its logs and its events.
func (s *Stage) dump(j journal.Journal) {
	ctx := context.Background()
	var text strings.Builder
	section := func(title string) { fmt.Fprintf(&text, "\n--- %s\n", title) }

	section("the Lease")
	records, _ := s.lease.all()
	for _, r := range records[max(0, len(records)-30):] {
		fmt.Fprintln(&text, r)
	}
	section("who was at work")
	for _, r := range journal.Reigns(j.Entries) {
		fmt.Fprintf(&text, "%s to %s: %s\n", r.First.ArrivedWall.UTC().Format("15:04:05.000"), r.Last.ArrivedWall.UTC().Format("15:04:05.000"), r)
	}
	section("events")
	events, err := s.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil {
		for _, e := range events.Items {
			fmt.Fprintf(&text, "%s %s %s/%s: %s\n", e.LastTimestamp.UTC().Format("15:04:05"), e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
	pods, err := s.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil {
		section("pods")
		for _, pod := range pods.Items {
			describe(&text, &pod)
		}
	}
	for _, pod := range s.logs.pods() {
		for _, log := range s.logs.of(pod) {
			section(fmt.Sprintf("log of %s in %s", log.container, pod))
			text.WriteString(log.String())
		}
	}
	s.T.Logf("what is to be seen of %s:\n%s", s.Namespace, text.String())
}

func describe(text *strings.Builder, pod *corev1.Pod) {
	fmt.Fprintf(text, "%s (%s): %s, deleted at %v, conditions", pod.Name, pod.UID, pod.Status.Phase, pod.DeletionTimestamp)
	for _, c := range pod.Status.Conditions {
		fmt.Fprintf(text, " %s=%s", c.Type, c.Status)
	}
	fmt.Fprintln(text)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		fmt.Fprintf(text, "    %s: ready %t, restarts %d, state %s\n", status.Name, status.Ready, status.RestartCount, status.State.String())
	}
}
