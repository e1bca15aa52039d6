// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// reap is pid 1 of the node: it runs boot, and reaps what containers leave to it. When it ends, everything ends.
func reap(plan string) (int, error) {
	boot := exec.Command("/proc/self/exe", "boot", plan)
	boot.Stderr = os.Stderr
	boot.ExtraFiles = []*os.File{os.NewFile(3, "report")}
	if err := boot.Start(); err != nil {
		return 1, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && err != syscall.EINTR {
			return 1, err
		}
		if pid == boot.Process.Pid {
			return max(1, status.ExitStatus()), nil
		}
	}
}
