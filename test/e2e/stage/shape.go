// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"strings"
	"time"
)

// Shape is how a pod has the sidecar: the name of the component in manifests/components that adds it.
type Shape string

// The shapes.
const (
	Native   Shape = "native-sidecar"
	Ordinary Shape = "container"
)

// Shapes is both.
var Shapes = []Shape{Native, Ordinary}

func (s Shape) String() string {
	if s == Native {
		return "native"
	}
	return "ordinary"
}

// Timings are those of the election.
type Timings struct{ Lease, Renew, Retry time.Duration }

// The timings that cases run with.
var (
	Default = Timings{15 * time.Second, 10 * time.Second, 2 * time.Second}
	Short   = Timings{5 * time.Second, 3 * time.Second, time.Second}
)

func (t Timings) String() string {
	return fmt.Sprintf("%s/%s/%s", t.Lease, t.Renew, t.Retry)
}

// Expiry is by when another pod leads after the leader has died: the lease counts from when its last renewal was seen, and
// the retry period is what all that comes on top may take.
func (t Timings) Expiry() time.Duration { return t.Lease + t.Retry }

// HandoverTimeout is ELECTOR_HANDOVER_TIMEOUT of the ordinary container in manifests/.
const HandoverTimeout = 20 * time.Second

// setting names a combination in the table.
func setting(s Shape, t Timings) string { return fmt.Sprintf("%s, %s", t, s) }

// identifier is part of the name of a namespace.
func identifier(name string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	return name[:min(len(name), 40)]
}
