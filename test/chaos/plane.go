// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// plane is a control plane of which the servers can be killed and started again, on the same data and ports.
type plane struct {
	*cluster.Cluster
	client *kubernetes.Clientset // an administrator's
	api    *server
	etcd   *server
}

// server is one of the servers. The first process is the cluster's; the next are run as that was.
type server struct {
	name string
	args []string
	pid  int
	log  io.Writer
}

func startPlane(log io.Writer) (p *plane, err error) {
	p = &plane{}
	if p.Cluster, err = cluster.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.etcd, err = findServer("etcd", log); err != nil {
		return p, err
	}
	if p.api, err = findServer("kube-apiserver", log); err != nil {
		return p, err
	}
	config := rest.CopyConfig(p.Config())
	config.QPS = -1
	config.Timeout = 0 // watches
	p.client, err = kubernetes.NewForConfig(config)
	return p, err
}

// findServer finds the one child of this process that runs a program.
func findServer(name string, log io.Writer) (*server, error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, path := range lines {
		line, err := os.ReadFile(path)
		status, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err != nil || err2 != nil || len(line) == 0 {
			continue // it has ended
		}
		args := bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0})
		fields := bytes.Fields(status[bytes.LastIndexByte(status, ')')+1:]) // state, parent, …
		if filepath.Base(string(args[0])) != name || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		s := &server{name: name, log: log}
		for _, arg := range args {
			s.args = append(s.args, string(arg))
		}
		s.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return s, err
	}
	return nil, fmt.Errorf("no %s runs", name)
}

// stopGrace is how long a server may take that is told to stop, before it is killed.
const stopGrace = 3 * time.Second

// end ends the process and waits for that. Whoever started it collects it.
func (s *server) end(signal syscall.Signal) {
	_ = syscall.Kill(s.pid, signal)
	for deadline := time.Now().Add(stopGrace); syscall.Kill(s.pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
		}
	}
}

// start runs the server again. It ends with this process.
func (s *server) start() error {
	args := s.args
	if setpriv, err := exec.LookPath("setpriv"); err == nil {
		args = append([]string{setpriv, "--pdeathsig", "KILL", "--"}, args...)
	}
	command := exec.Command(args[0], args[1:]...)
	command.Stdout, command.Stderr = s.log, s.log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is not for it
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	s.pid = command.Process.Pid
	go func() { _ = command.Wait() }()
	return nil
}

// restart ends servers, waits, starts them again and waits until the API server is ready.
func (p *plane) restart(signal syscall.Signal, rest time.Duration, servers ...*server) error {
	for _, s := range servers {
		s.end(signal)
	}
	time.Sleep(rest)
	for _, s := range slices.Backward(servers) { // etcd first
		if err := s.start(); err != nil {
			return err
		}
	}
	return p.await()
}

// await waits until the API server is ready.
func (p *plane) await() error {
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err = p.client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("the API server is not ready: %w", err)
}

func (p *plane) stop() error {
	for _, s := range []*server{p.api, p.etcd} {
		if s != nil {
			s.end(syscall.SIGKILL)
		}
	}
	return p.Stop()
}
