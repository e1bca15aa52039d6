// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// up brings up the node that stays, with a supervisor in the background.
func up(o options) error {
	if err := check(o); err != nil {
		return err
	}
	if err := sweep(o.Root); err != nil {
		return err
	}
	f, err := claim(filepath.Join(o.Root, upName))
	if errors.Is(err, errTaken) {
		node, err := standing(o.Root)
		if err != nil {
			return err
		}
		fmt.Println("A node is up already.")
		explain(o.Root, node)
		return nil
	} else if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	status, report, err := os.Pipe()
	if err != nil {
		return err
	}
	argument, err := json.Marshal(o)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.Root, "up.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	supervisor := exec.Command("/proc/self/exe", "hold", string(argument))
	supervisor.Stdout, supervisor.Stderr = log, log
	supervisor.ExtraFiles = []*os.File{f.lock, report}
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = supervisor.Start()
	_, _ = report.Close(), f.lock.Close()
	if err != nil {
		return err
	}
	go func() {
		<-interrupted
		_ = supervisor.Process.Signal(syscall.SIGTERM)
	}()
	if n, _ := status.Read(make([]byte, 1)); n == 0 {
		err := supervisor.Wait()
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s%w", said, errors.Join(errors.New("the node did not come up"), err))
	}
	node, err := standing(o.Root)
	if err != nil {
		return err
	}
	explain(o.Root, node)
	return nil
}

// hold is the process of the supervisor that up starts. It has the folder's lock as file 3, and writes to file 4 when the
// node works.
func hold(argument string) (int, error) {
	var o options
	if err := json.Unmarshal([]byte(argument), &o); err != nil {
		return 1, err
	}
	f := &folder{filepath.Join(o.Root, upName), os.NewFile(3, "lock")}
	report := os.NewFile(4, "report")
	for _, file := range []*os.File{f.lock, report} {
		syscall.CloseOnExec(int(file.Fd()))
	}
	return supervise(o, f, func(int) *exec.Cmd {
		_, _ = report.WriteString("+")
		return nil
	})
}

// standing returns the node that is up.
func standing(root string) (control.Node, error) {
	f := folder{path: filepath.Join(root, upName)}
	s, err := f.read()
	if err != nil || s.Node == 0 {
		return 0, errors.Join(errors.New("no node is up, or not yet"), err)
	}
	return control.Node(s.Node), nil
}

func explain(root string, node control.Node) {
	f := folder{path: filepath.Join(root, upName)}
	fmt.Printf(`
  enter="nsenter -t %[1]d -n"                  # its network; -p -m for its processes and files
  export KUBECONFIG=%[2]s
  export %[3]s=%[1]d
  $enter kubectl get pods -A

Logs: %[4]s
`, node, f.kubeconfig(), control.Environment, f.logs())
}

// down takes the node down that is up, and removes what others have left.
func down(o options) error {
	path := filepath.Join(o.Root, upName)
	s, err := (&folder{path: path}).read()
	if err == nil && s.Supervisor > 0 {
		f, err := claim(path)
		if err == nil {
			_ = f.lock.Close() // its supervisor has ended
		} else if errors.Is(err, errTaken) {
			_ = syscall.Kill(s.Supervisor, syscall.SIGTERM)
		} else {
			return err
		}
	}
	err = within(2*cleanupLimit, func() error {
		f, err := claim(path)
		if err != nil {
			return err
		}
		defer f.lock.Close()
		return f.remove()
	})
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(o.Root, "up.log"))
	return sweep(o.Root)
}

// manipulate carries out the verbs that change a running node.
func manipulate(verb string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one argument", verb)
	}
	node, err := control.FromEnvironment()
	if os.Getenv(control.Environment) == "" {
		repository, errFind := findRepository()
		if errFind != nil {
			return errFind
		}
		node, err = standing(filepath.Join(repository, ".cache", "node"))
	}
	if err != nil {
		return err
	}
	if verb == "kubelet" {
		switch args[0] {
		case "stop":
			return node.StopKubelet()
		case "start":
			return node.StartKubelet()
		}
		return fmt.Errorf("kubelet %s: it is stop or start", args[0])
	}
	pod, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	if verb == "cut" {
		return node.Cut(pod)
	}
	return node.Mend(pod)
}
