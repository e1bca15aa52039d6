// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command node brings up a real Kubernetes cluster of one node, for end-to-end tests: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, containerd, kubelet and kube-proxy, in namespaces and cgroups of their own, with
// their files in memory. Nothing can leave it, and nothing of it outlives it. It needs root.
//
// The node is a tree of processes:
//
//	node run            supervisor: on the host, in the node's network namespace alone, as the command that it runs
//	├─ node watch       watchdog: cleans up when the supervisor has ended, however it ended
//	├─ node init        pid 1 of the node: reaps
//	│  └─ node boot     brings the components up and watches over them
//	│     └─ etcd, kube-apiserver, …
//	└─ the command
//
// Pods reach the API server at its Service address, and each other; the node is their gateway.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const usage = `node: a real Kubernetes cluster of one node, for tests

  node run [flags] -- COMMAND [ARGUMENT…]
        bring a cluster up, run the command in its network namespace with KUBECONFIG and E2E_NODE_PID set, and take it all
        down. The exit code is the command's
  node up [flags]         bring up a cluster that stays, and say how to use it
  node down               take that one down
  node kubelet stop|start freeze the kubelet, and let it go on
  node cut|mend IP        drop what a pod and the API server send to each other, and let it through again

kubelet, cut and mend work on the cluster of E2E_NODE_PID, else on that of "node up".

Flags of run and up:
`

// The kernel ties a child's parent-death signal, and its network namespace, to the thread that started it.
func init() { runtime.LockOSThread() }

func main() {
	code, err := dispatch(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func dispatch(args []string) (int, error) {
	verb := "help"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "run":
		o, command, err := parse(args)
		if err != nil || o == nil {
			return 0, err
		}
		if len(command) == 0 {
			return 2, errors.New("run needs a command")
		}
		return run(*o, command)
	case "up":
		o, _, err := parse(args)
		if err != nil || o == nil {
			return 0, err
		}
		return 0, up(*o)
	case "down":
		o, _, err := parse(args)
		if err != nil || o == nil {
			return 0, err
		}
		return 0, down(*o)
	case "kubelet", "cut", "mend":
		return 0, manipulate(verb, args)
	case "hold":
		return hold(args[0])
	case "watch":
		return 0, watch(args[0])
	case "init":
		return reap(args[0])
	case "boot":
		return 1, boot(args[0])
	}
	_, _, err := parse([]string{"-help"})
	return 2, err
}

// options is what the caller chooses.
type options struct {
	Root    string        // folder for the nodes' folders
	Logs    string        // folder that gets the components' logs after a failure
	Assets  string        // folder with the Kubernetes binaries
	Images  []string      // OCI tars to import
	Sandbox string        // image of the pods' pause container
	Timeout time.Duration // for coming up
}

// parse returns nil options where help was asked for.
func parse(args []string) (*options, []string, error) {
	o := options{Assets: os.Getenv("KUBEBUILDER_ASSETS")}
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	images := flags.String("images", "", "comma-separated OCI tars to import; one must hold the sandbox image")
	flags.StringVar(&o.Root, "dir", "", "folder for what the node keeps on disk (default the repository's .cache/node)")
	flags.StringVar(&o.Logs, "logs", "", "folder that gets the components' logs after a failure (default logs in that of -dir)")
	flags.StringVar(&o.Sandbox, "sandbox", "docker.io/library/e2e-app:latest", "image that holds a pod's namespaces; it must wait for a signal when run without arguments")
	flags.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "how long the cluster may take to come up")
	if err := flags.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			return nil, nil, err
		}
		fmt.Print(usage)
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return nil, nil, nil
	}
	if o.Root == "" {
		repository, err := findRepository()
		if err != nil {
			return nil, nil, err
		}
		o.Root = filepath.Join(repository, ".cache", "node")
	}
	if o.Logs == "" {
		o.Logs = filepath.Join(o.Root, "logs")
	}
	for _, path := range strings.Split(*images, ",") {
		if path != "" {
			o.Images = append(o.Images, path)
		}
	}
	paths := []*string{&o.Root, &o.Logs}
	for i := range o.Images {
		paths = append(paths, &o.Images[i])
	}
	for _, path := range paths {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, nil, err
		}
		*path = absolute
	}
	return &o, flags.Args(), nil
}

// findRepository finds the repository that the working directory is in.
func findRepository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "node")); err == nil {
			return dir, nil
		}
	}
	return "", errors.Join(errors.New("this is not inside the repository: say -dir"), err)
}
