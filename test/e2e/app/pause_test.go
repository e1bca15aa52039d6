// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPauseReaps runs this test's binary as the pause of a pod, with an orphan.
func TestPauseReaps(t *testing.T) {
	if os.Getenv("PAUSE") != "" {
		becomeSubreaper()
		if err := exec.Command("sh", "-c", "sleep 0.05 & exit 0").Run(); err != nil { // leaves an orphan to this process
			t.Fatal(err)
		}
		if err := pause(); err != nil {
			t.Fatal(err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPauseReaps$")
	cmd.Env = append(os.Environ(), "PAUSE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	children := func() string {
		var all []byte
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			some, _ := os.ReadFile(list)
			all = append(all, some...)
		}
		return strings.TrimSpace(string(all))
	}
	eventually(t, "it has a child", func() bool { return children() != "" })
	eventually(t, "it has reaped its child", func() bool { return children() == "" })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to stop it ends with %v", err)
	}
}

// becomeSubreaper makes orphans below this process its children, as they are of a pod's first process.
func becomeSubreaper() {
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		panic(errno)
	}
}
