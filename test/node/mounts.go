// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// temporary is the components' folder for temporary files.
const temporary = work + "/tmp"

// sysctls are what the kubelet writes, with the values that it wants to find. Nothing namespaces them.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// mountAll gives the node a /proc of its own, and memory wherever its components write. The folders to keep stay where
// they are.
func mountAll(keep ...string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	var kept []*os.File
	for _, path := range keep {
		dir, err := os.Open(path)
		if err != nil {
			return err
		}
		defer dir.Close()
		kept = append(kept, dir)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, path := range []string{"/run", "/var/log", "/var/lib"} {
		if err := syscall.Mount("node", path, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, dir := range kept {
		if err := uncover(dir); err != nil {
			return err
		}
	}
	for _, path := range []string{pki, configs, temporary} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	for name, value := range sysctls {
		private := filepath.Join(work, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(private, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := syscall.Mount(private, "/proc/sys/"+name, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	// The kubelet's mounts must reach the containers.
	return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, "")
}

// uncover makes a folder reachable again that a mount may have hidden.
func uncover(dir *os.File) error {
	was, err := dir.Stat()
	if err != nil {
		return err
	}
	if is, err := os.Stat(dir.Name()); err == nil && os.SameFile(was, is) {
		return nil
	}
	if err := os.MkdirAll(dir.Name(), 0o755); err != nil {
		return err
	}
	return syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), dir.Name(), "", syscall.MS_BIND, "")
}
