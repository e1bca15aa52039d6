// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples_test

import (
	"syscall"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// A job under exec works in one pod at a time, whatever happens to the process that runs it.
func TestExecRunsTheJobInOnePodAtATime(t *testing.T) {
	binary, err := process.Build(t.Context(), "..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, loss := range map[string]syscall.Signal{
		"told-to-stop": syscall.SIGTERM, "killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, binary)
			pods := map[string]*pod{}
			for _, name := range []string{"pod-0", "pod-1"} {
				address, err := process.FreeAddress()
				if err != nil {
					t.Fatal(err)
				}
				pods[name] = h.startApp(name, "", []string{binary, "exec", "--", "sh", "exec/job.sh", "0.05"}, []string{
					"ELECTOR_LEASE_NAME=work", "ELECTOR_LEASE_NAMESPACE=default", "KUBECONFIG=" + h.kubeconfig,
					"ELECTOR_LEASE_DURATION=" + leaseDuration.String(), "ELECTOR_RENEW_DEADLINE=" + renewDeadline.String(),
					"ELECTOR_RETRY_PERIOD=300ms", "ELECTOR_HTTP_ADDRESS=" + address,
				})
			}
			h.await("work", func(lines []line) bool { return len(lines) >= 3 })
			before := h.lines()
			leader := before[len(before)-1]
			if err := pods[leader.pod].app.Process.Signal(loss); err != nil {
				t.Fatal(err)
			}
			h.await("work in the other pod", func(lines []line) bool {
				last := lines[len(lines)-1]
				return last.pod != leader.pod && last.token > leader.token
			})
			_ = pods[leader.pod].app.Process.Signal(syscall.SIGCONT) // the frozen one wakes; it may do so to its end
			h.await("more work there", func(lines []line) bool { return h.linesOf(lines[len(lines)-1]) >= 5 })
			h.checkOrder()
		})
	}
}
