// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"time"

	"golang.org/x/sys/unix"
)

func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("elector: the kernel has no CLOCK_BOOTTIME (Linux 2.6.39 and later do): " + err.Error())
	}
	return time.Duration(ts.Nano())
}
