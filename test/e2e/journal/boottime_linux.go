// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME, which the standard library does not name

// SinceBoot is the time on CLOCK_BOOTTIME, which all pods of a node share, which nobody sets, and which counts suspended
// time.
func SinceBoot() time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("journal: no CLOCK_BOOTTIME: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}

// Boot names the boot of this node's kernel, "" where it is unknown: times of SinceBoot compare within one.
var Boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})
