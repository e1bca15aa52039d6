// SPDX-License-Identifier: Apache-2.0

package elector

import "time"

// Instant is one point in time, read from the two clocks that leadership is judged by.
type Instant struct {
	// Boot is the time since boot, suspended time included (CLOCK_BOOTTIME). It is never stepped.
	Boot time.Duration
	// Wall is the time of day. It can be stepped either way; only its forward jumps matter here.
	Wall time.Time
}

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Boot: i.Boot + d, Wall: i.Wall.Add(d)}
}

// worstSince is the time that may have passed since then: the larger of what the two clocks say. A virtual machine
// that was paused can come back with a boot clock that stood still and a time of day that jumped.
func (i Instant) worstSince(then Instant) time.Duration {
	return max(i.Boot-then.Boot, i.Wall.Sub(then.Wall))
}

// Clock tells the time. The elector's own is used where Config has none.
type Clock interface {
	Now() Instant
}

type systemClock struct{}

func (systemClock) Now() Instant {
	return Instant{Boot: sinceBoot(), Wall: time.Now().Round(0)}
}
