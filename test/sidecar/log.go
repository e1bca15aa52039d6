// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// LogLine is a line of the JSON log, as far as tests look at it.
type LogLine struct {
	Time                                     time.Time
	Level, Msg, Verbs, Sign, Err, RoleNeeded string
}

// LogLines reads the log of a sidecar that was started with ELECTOR_LOG_FORMAT=json.
func (s *Sidecar) LogLines() []LogLine {
	s.t.Helper()
	var lines []LogLine
	for text := range strings.Lines(s.Log()) {
		if !strings.HasSuffix(text, "\n") {
			break // it is being written
		}
		var line LogLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			s.t.Fatalf("this line of the log is not JSON: %v: %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// Complaints are the lines about missing permissions.
func (s *Sidecar) Complaints() []LogLine {
	s.t.Helper()
	return slices.DeleteFunc(s.LogLines(), func(line LogLine) bool { return line.RoleNeeded == "" })
}
