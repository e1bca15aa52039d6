// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Warnings are the messages of the Events by which sidecars of the stage warn of their settings, each once. One that is not in
// the log of its sidecar too is an error.
func (s *Stage) Warnings() (messages []string) {
	s.T.Helper()
	events, err := s.CoreV1().Events(s.Namespace).List(s.T.Context(), metav1.ListOptions{FieldSelector: "reason=LeaderReadiness"})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, e := range events.Items {
		logged := func(l *containerLog) bool { return strings.Contains(l.String(), e.Message) }
		s.Await("the log of "+e.InvolvedObject.Name+" has the warning of its Event", func() bool {
			return slices.ContainsFunc(s.logs.of(e.InvolvedObject.Name), logged)
		})
		messages = append(messages, e.Message)
	}
	slices.Sort(messages)
	return slices.Compact(messages)
}
