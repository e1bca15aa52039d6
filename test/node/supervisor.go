// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// grace is how long the command may go on after a signal.
const grace = 10 * time.Second

// errEnded comes after what the node itself has said.
var errEnded = errors.New("the node has ended")

// run brings a node up for a command, and returns the command's exit code.
func run(o options, command []string) (int, error) {
	if err := check(o); err != nil {
		return 1, err
	}
	if err := sweep(o.Root); err != nil {
		return 1, err
	}
	f, err := claim(filepath.Join(o.Root, runPrefix+strconv.Itoa(os.Getpid())))
	if err != nil {
		return 1, err
	}
	return supervise(o, f, func(node int) *exec.Cmd {
		c := exec.Command(command[0], command[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		c.Env = append(os.Environ(), "KUBECONFIG="+f.kubeconfig(), control.Environment+"="+strconv.Itoa(node),
			"NO_PROXY=*", "no_proxy=*") // no proxy is within reach
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return c
	})
}

// supervise brings a node up, starts the command that is made once it works, and takes the node down when the command has
// ended or a signal asks for it. Without a command, the node stays until a signal.
func supervise(o options, f *folder, makeCommand func(node int) *exec.Cmd) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil { // what is started from here on is in it
		return 1, errors.Join(fmt.Errorf("a network namespace: %w", err), f.remove())
	}
	dog, err := startWatchdog(f)
	if err != nil {
		return 1, errors.Join(err, f.remove())
	}
	node, err := startNode(o, f)
	if err == nil {
		code, err = attend(node, signals, makeCommand)
	}
	if code != 0 || err != nil {
		err = errors.Join(err, keepLogs(f, o.Logs))
	}
	if dog.letGo() != nil {
		err = errors.Join(err, clean(f)) // it was killed
	}
	if node != nil {
		<-node.ended
	}
	return code, err
}

// attend starts the command when the node works, and returns the exit code when the node can go.
func attend(node *running, signals <-chan os.Signal, makeCommand func(node int) *exec.Cmd) (code int, err error) {
	select {
	case <-node.ready:
	case <-node.ended:
		return 1, errEnded
	case s := <-signals:
		return 128 + int(s.(syscall.Signal)), nil
	}
	command := makeCommand(node.pid)
	if command == nil {
		select {
		case <-node.ended:
			return 1, errEnded
		case <-signals:
			return 0, nil
		}
	}
	if err := command.Start(); err != nil {
		return 127, err
	}
	done := make(chan int, 1)
	go func() { done <- exitCode(command) }()
	select {
	case code := <-done:
		return code, nil
	case <-node.ended:
		code, err = 1, errEnded
	case s := <-signals:
		code = 128 + int(s.(syscall.Signal))
	}
	_ = command.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(grace): // it will be killed
	}
	return code, err
}

// exitCode waits for a command. The code is a shell's.
func exitCode(command *exec.Cmd) int {
	_ = command.Wait()
	status := command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// running is a node as its supervisor sees it.
type running struct {
	pid   int           // of the node's init
	ready chan struct{} // closed when the node works
	ended chan struct{} // closed when no process of the node is left
}

// startNode starts the node's init.
func startNode(o options, f *folder) (*running, error) {
	s := state{Supervisor: os.Getpid(), Cgroup: cgroupPrefix + strconv.Itoa(os.Getpid())}
	err := errors.Join(os.MkdirAll(f.logs(), 0o755), f.write(s)) // before there is a cgroup to remove
	if err != nil {
		return nil, err
	}
	s.Controllers, err = makeCgroups(s.Cgroup)
	if err := errors.Join(err, f.write(s)); err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	plan, err := json.Marshal(plan{options: o, Folder: f.path, Cgroup: s.Cgroup})
	if err != nil {
		return nil, err
	}
	status, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	node := exec.Command("/proc/self/exe", "init", string(plan))
	node.Stderr = os.Stderr
	node.ExtraFiles = []*os.File{report}
	node.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // the terminal's signals are the supervisor's
	}
	if err := node.Start(); err != nil {
		return nil, fmt.Errorf("the node's namespaces: %w", err)
	}
	n := &running{node.Process.Pid, make(chan struct{}), make(chan struct{})}
	go func() {
		_ = node.Wait()
		close(n.ended)
	}()
	go func() {
		defer status.Close()
		if line, err := bufio.NewReader(status).ReadString('\n'); err == nil && line == readyLine {
			s.Node = n.pid
			if err := f.write(s); err != nil {
				fmt.Fprintln(os.Stderr, "node:", err)
			}
			close(n.ready)
		}
	}()
	return n, nil
}

// keepLogs copies the components' logs to where they outlive the node.
func keepLogs(f *folder, to string) error {
	logs, err := os.ReadDir(f.logs())
	if err != nil || len(logs) == 0 {
		return err
	}
	err = os.MkdirAll(to, 0o755)
	for _, log := range logs {
		content, errRead := os.ReadFile(filepath.Join(f.logs(), log.Name()))
		err = errors.Join(err, errRead, os.WriteFile(filepath.Join(to, log.Name()), content, 0o644))
	}
	fmt.Fprintln(os.Stderr, "node: the components' logs are in", to)
	return err
}
