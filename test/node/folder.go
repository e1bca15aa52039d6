// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is what a node keeps on the host's disk: its state, its kubeconfig and its logs. Whoever holds its lock owns
// it: the supervisor, or the watchdog after it.
type folder struct {
	path string
	lock *os.File
}

// state says what is to be cleaned up, and where a running node is.
type state struct {
	Supervisor  int      // pid
	Node        int      // pid of the node's init; 0 until the node works
	Cgroup      string   // name of the cgroup in each hierarchy
	Controllers []string // enabled for the sake of this node (cgroup v2)
}

const (
	upName    = "up"   // the folder of the node that stays
	runPrefix = "run-" // of the folders of the others
)

var errTaken = errors.New("the node's folder is in use")

// claim makes and locks a folder. The error is errTaken where another process owns it.
func claim(path string) (*folder, error) {
	for {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		lock, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its owner has just removed it
		} else if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = lock.Close()
			return nil, errTaken
		}
		locked, err := lock.Stat()
		if err != nil {
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(locked, there) {
			return &folder{path, lock}, nil
		}
		_ = lock.Close()
	}
}

func (f *folder) logs() string       { return filepath.Join(f.path, "logs") }
func (f *folder) kubeconfig() string { return filepath.Join(f.path, "kubeconfig") }

func (f *folder) write(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next := filepath.Join(f.path, "state.new")
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(f.path, "state"))
}

func (f *folder) read() (s state, err error) {
	data, err := os.ReadFile(filepath.Join(f.path, "state"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// remove removes the folder, and the node's cgroups. No process of the node may be left.
func (f *folder) remove() error {
	if s, err := f.read(); err == nil && s.Cgroup != "" {
		if err := removeCgroups(s.Cgroup, s.Controllers); err != nil {
			return err
		}
	}
	return os.RemoveAll(f.path)
}

// sweep removes what nodes have left of which nobody could clean up.
func sweep(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != upName && !strings.HasPrefix(entry.Name(), runPrefix) {
			continue
		}
		f, err := claim(filepath.Join(root, entry.Name()))
		if errors.Is(err, errTaken) {
			continue
		} else if err != nil {
			return err
		}
		err = f.remove()
		_ = f.lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
