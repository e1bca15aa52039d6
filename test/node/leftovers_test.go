// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// However a node ends, nothing of it stays.
func TestNothingIsLeft(t *testing.T) {
	for _, end := range []struct {
		name string
		how  func(*cluster)
		code int
		logs bool // of the components, since something failed
	}{
		{"the command ends", func(c *cluster) { _ = c.stdin.Close() }, endCode, true},
		{"SIGTERM", func(c *cluster) { c.signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM), true},
		{"SIGKILL", func(c *cluster) {
			c.signalWatchdog(syscall.SIGTERM) // in vain
			c.signal(syscall.SIGKILL)
		}, 128 + int(syscall.SIGKILL), false},
		{"SIGKILL of the watchdog", func(c *cluster) {
			c.signalWatchdog(syscall.SIGKILL)
			c.signal(syscall.SIGTERM)
		}, 128 + int(syscall.SIGTERM), true},
	} {
		t.Run(end.name, func(t *testing.T) {
			before := takeSnapshot(t)
			c := start(t, "live")
			its := c.awaitNode()
			c.await("the pod runs")
			if running := its.processes(); !slices.Contains(running, "etcd") || !slices.Contains(running, "app") || !slices.Contains(running, "sleep") {
				t.Fatalf("the processes of the node are not found: %v", running)
			}
			if during := takeSnapshot(t).difference(before, its.cgroup); len(during) == 0 || slices.ContainsFunc(during, notCgroup) {
				t.Errorf("while the node is up, the host has other changes than the node's cgroups:\n%s", strings.Join(during, "\n"))
			}

			end.how(c)
			if code := c.end(); code != end.code {
				t.Errorf("the exit code is %d, not %d; it said:\n%s", code, end.code, &c.said)
			}
			if end.logs {
				if logs := filepath.Join(c.dir, "logs"); len(tree(logs, 1)) == 0 || os.RemoveAll(logs) != nil {
					t.Errorf("in %s are no logs", logs)
				}
			}
			checkNothingIsLeft(t, c.dir, its, before)
		})
	}
}

func notCgroup(line string) bool { return !strings.HasPrefix(line, "cgroups: ") }

// A node that was killed while it came up leaves nothing either.
func TestNothingIsLeftOfHalfANode(t *testing.T) {
	before := takeSnapshot(t)
	c := start(t, "live")
	its := c.awaitNode()
	c.signal(syscall.SIGKILL)
	c.end()
	checkNothingIsLeft(t, c.dir, its, before)
}

// What neither the supervisor nor the watchdog could remove, the next node does.
func TestTheNextNodeSweeps(t *testing.T) {
	before := takeSnapshot(t)
	c := start(t, "live")
	its := c.awaitNode()
	c.signalWatchdog(syscall.SIGKILL)
	c.signal(syscall.SIGKILL)
	c.end()
	if left := takeSnapshot(t).difference(before, its.cgroup); len(left) == 0 {
		t.Fatal("there is nothing to sweep")
	}
	if out, err := exec.Command(program, "down", "-dir", c.dir).CombinedOutput(); err != nil {
		t.Fatalf("down: %v: %s", err, out)
	}
	checkNothingIsLeft(t, c.dir, its, before)
}

// A node that cannot come up says which component is at fault, also where its folder is one that the node has for itself.
func TestFailureIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("/var/lib", "node-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("KUBEBUILDER_ASSETS", assetsWithout(t, "kube-proxy"))
	c := startIn(t, dir, "live")
	if code := c.end(); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	for _, part := range []string{"kube-proxy has ended", "nothing works today", filepath.Join(c.dir, "logs")} {
		if !strings.Contains(c.said.String(), part) {
			t.Errorf("%q is not in what it said:\n%s", part, &c.said)
		}
	}
}

// assetsWithout returns a folder with the Kubernetes binaries, of which one only complains.
func assetsWithout(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	binaries, err := filepath.Glob(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, binary := range binaries {
		if filepath.Base(binary) == name {
			err = os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho nothing works today\nexit 1\n"), 0o755)
		} else {
			err = os.Symlink(binary, filepath.Join(dir, filepath.Base(binary)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (c *cluster) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// checkNothingIsLeft checks that the host is as before.
func checkNothingIsLeft(t *testing.T, dir string, its belongings, before snapshot) {
	t.Helper()
	err := within(patience, func() error { // the host's init may still have to reap
		if left := its.processes(); len(left) > 0 {
			return fmt.Errorf("processes are left: %v", left)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if left := takeSnapshot(t).difference(before, its.cgroup); len(left) > 0 {
		t.Errorf("the host is not as before:\n%s", strings.Join(left, "\n"))
	}
	if kept := tree(dir, 1); len(kept) > 0 {
		t.Errorf("in its folder are left: %v", kept)
	}
}

// awaitNode waits until the node has an init.
func (c *cluster) awaitNode() (its belongings) {
	c.t.Helper()
	err := within(patience, func() (err error) {
		its, err = belongingsOf(c.cmd.Process.Pid)
		return err
	})
	if err != nil {
		c.t.Fatalf("there is no node: %v; it said: %s", err, &c.said)
	}
	return its
}

// belongingsOf returns those of a supervisor's node.
func belongingsOf(supervisor int) (belongings, error) {
	process := "/proc/" + child(supervisor, "init")
	net, errNet := keepNamespace(process + "/ns/net")
	pid, errPid := keepNamespace(process + "/ns/pid")
	return belongings{net, pid, cgroupPrefix + strconv.Itoa(supervisor)}, errors.Join(errNet, errPid)
}

// keepNamespace returns a namespace's name, and sees to it that no other namespace gets that name.
func keepNamespace(path string) (name string, err error) {
	var fd int
	if fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return "", err
	}
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // fd stays open
}

func (c *cluster) signalWatchdog(s syscall.Signal) {
	c.t.Helper()
	pid, err := strconv.Atoi(child(c.cmd.Process.Pid, "watch"))
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// child returns the pid of a supervisor's child that runs with a verb, "" where there is none.
func child(supervisor int, verb string) string {
	children, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range children {
		line, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(supervisor) && strings.HasPrefix(string(line), "/proc/self/exe\x00"+verb+"\x00") {
			return filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}
