// SPDX-License-Identifier: Apache-2.0

// Package control does to the node of a test what befalls nodes.
package control

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Environment is the variable with the pid of the node's init, which the node's commands have.
	Environment = "E2E_NODE_PID"
	// Table is the nftables table of the node that has Set.
	Table = "elector_e2e"
	// Set is the nftables set of the pods that are cut off.
	Set = "cut"
)

// patience is how long a process may take to stop and to go on.
const patience = 10 * time.Second

// Node is a running node: the pid of its init, as the host sees it.
type Node int

// FromEnvironment returns the node that this process was started for.
func FromEnvironment() (Node, error) {
	pid, err := strconv.Atoi(os.Getenv(Environment))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("%s is %q: it must be the pid of the node's init", Environment, os.Getenv(Environment))
	}
	return Node(pid), nil
}

// StopKubelet freezes the kubelet. The containers go on; nobody probes or restarts them, or tells the API server of them.
func (n Node) StopKubelet() error { return n.signalKubelet(syscall.SIGSTOP, true) }

// StartKubelet lets a frozen kubelet go on.
func (n Node) StartKubelet() error { return n.signalKubelet(syscall.SIGCONT, false) }

// Cut drops what a pod and the API server send to each other. The pod still reaches other pods, and they it; the kubelet's
// probes go on.
func (n Node) Cut(pod netip.Addr) error { return n.element("add", pod) }

// Mend undoes Cut. It is an error where the pod was not cut off.
func (n Node) Mend(pod netip.Addr) error { return n.element("delete", pod) }

func (n Node) element(verb string, pod netip.Addr) error {
	nft := exec.Command("nsenter", "-t", strconv.Itoa(int(n)), "-n", "--",
		"nft", verb, "element", "inet", Table, Set, "{", pod.String(), "}")
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", nft, err, out)
	}
	return nil
}

func (n Node) signalKubelet(signal syscall.Signal, stopped bool) error {
	kubelet, err := n.kubelet()
	if err != nil {
		return err
	}
	if err := syscall.Kill(kubelet, signal); err != nil {
		return err
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ticker.C {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", kubelet))
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, "T") == stopped {
			return nil
		}
	}
	return fmt.Errorf("the kubelet, process %d, does not take the signal %v", kubelet, signal)
}

// kubelet returns the kubelet's pid.
func (n Node) kubelet() (int, error) {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", n))
	if err != nil {
		return 0, fmt.Errorf("the node is not up: %w", err)
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, path := range names {
		process := filepath.Dir(path)
		if name, err := os.ReadFile(path); err != nil || string(name) != "kubelet\n" {
			continue
		}
		if its, err := os.Readlink(process + "/ns/pid"); err == nil && its == namespace {
			return strconv.Atoi(filepath.Base(process))
		}
	}
	return 0, errors.New("the node has no kubelet")
}
