// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// cleanupLimit is how long the end of the node's processes, and of its cgroups, may take.
const cleanupLimit = 20 * time.Second

// watchdog is the process that ends the node when its supervisor lets go of it or has ended, even by SIGKILL.
type watchdog struct {
	process *exec.Cmd
	leash   *os.File // a pipe; the watchdog acts when no process holds this end
}

// startWatchdog starts one in the network namespace of this thread, which must be the node's.
func startWatchdog(f *folder) (*watchdog, error) {
	end, leash, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer end.Close()
	process := exec.Command("/proc/self/exe", "watch", f.path)
	process.Stdin, process.Stderr = end, os.Stderr
	process.ExtraFiles = []*os.File{f.lock} // the folder is in use until it is removed
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &watchdog{process, leash}, process.Start()
}

// letGo has the node cleaned up.
func (w *watchdog) letGo() error {
	_ = w.leash.Close()
	return w.process.Wait()
}

// watch is the watchdog's process.
func watch(path string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return clean(&folder{path: path})
}

// clean ends each process of this one's network namespace, but for this one and its parent, and removes what the node
// leaves. The node's init is one of them, with which everything in its pid namespace ends.
func clean(f *folder) error {
	err := within(cleanupLimit, func() error {
		left, err := inNamespace()
		if err != nil {
			return err
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("processes %d do not end", left)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.remove()
}

// inNamespace returns the processes in the network namespace of this one, but for this one and its parent.
func inNamespace() (pids []int, err error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err != nil || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		if namespace, err := os.Readlink(link); err == nil && namespace == own {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
