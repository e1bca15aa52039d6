// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroupPrefix begins the names of the nodes' cgroups. The supervisor's pid follows.
const cgroupPrefix = "elector-node-"

// hierarchies returns the mount points of the cgroup hierarchies, of both versions.
func hierarchies() (v1, v2 []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		switch fields[2] {
		case "cgroup":
			v1 = append(v1, fields[1])
		case "cgroup2":
			v2 = append(v2, fields[1])
		}
	}
	if len(v1)+len(v2) == 0 {
		return nil, nil, errors.New("no cgroup hierarchy is mounted")
	}
	return v1, v2, nil
}

// makeCgroups makes the cgroup that the pods' are made in, in each hierarchy. It returns the controllers that had to be
// enabled for all cgroups of the machine.
func makeCgroups(name string) (enabled []string, err error) {
	v1, v2, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, hierarchy := range v1 {
		if err := os.Mkdir(filepath.Join(hierarchy, name), 0o755); err != nil {
			return nil, err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new cgroup, which then takes no process
			value, err := os.ReadFile(filepath.Join(hierarchy, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(hierarchy, name, file), value, 0)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if len(v1) > 0 {
		return nil, nil // a second version beside the first has no controllers
	}
	return makeCgroup2(v2[0], name)
}

func makeCgroup2(hierarchy, name string) (enabled []string, err error) {
	available, err := words(filepath.Join(hierarchy, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	delegated, err := words(filepath.Join(hierarchy, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	for _, controller := range available {
		if !slices.Contains(delegated, controller) {
			enabled = append(enabled, controller)
		}
	}
	if err := os.WriteFile(filepath.Join(hierarchy, "cgroup.subtree_control"), switches("+", enabled), 0); err != nil {
		return nil, err
	}
	return enabled, os.Mkdir(filepath.Join(hierarchy, name), 0o755)
}

func words(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Fields(string(data)), err
}

func switches(sign string, controllers []string) []byte {
	var line strings.Builder
	for _, controller := range controllers {
		fmt.Fprint(&line, sign, controller, " ")
	}
	return []byte(line.String())
}

// removeCgroups removes the cgroup of each hierarchy with those in it. Their last processes may still be ending.
func removeCgroups(name string, controllers []string) error {
	v1, v2, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range slices.Concat(v1, v2) {
		err := within(cleanupLimit, func() error { return removeCgroup(filepath.Join(hierarchy, name)) })
		if err != nil {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	if len(controllers) > 0 {
		// Another node may have come to rely on them, then this is refused.
		_ = os.WriteFile(filepath.Join(v2[0], "cgroup.subtree_control"), switches("-", controllers), 0)
	}
	return nil
}

func removeCgroup(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(path, entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

// within tries until there is no error or the time is over.
func within(limit time.Duration, try func() error) error {
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-ticker.C
	}
}
