// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package elector

import "time"

var processStart = time.Now()

// sinceBoot falls back to the monotonic clock, which may not count suspended time. Clusters run on Linux; this keeps
// the package usable for development elsewhere.
func sinceBoot() time.Duration { return time.Since(processStart) }
