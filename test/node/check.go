// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const pluginFolder = "/usr/lib/cni" // where Debian puts them

// check says what a node would miss. Without a CNI plugin the node would be Ready, and no pod would start.
func check(o options) error {
	if os.Getuid() != 0 {
		return errors.New("a node needs root")
	}
	if o.Assets == "" {
		return errors.New("KUBEBUILDER_ASSETS is not set: it must be the folder that " +
			"`test/controlplane/build.sh kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy` prints")
	}
	var missing error
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		_, err := exec.LookPath(filepath.Join(o.Assets, name))
		missing = errors.Join(missing, err)
	}
	for _, name := range []string{"ptp", "host-local", "loopback"} {
		_, err := exec.LookPath(filepath.Join(pluginFolder, name))
		missing = errors.Join(missing, err)
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc", "ctr", "ip", "nft", "nsenter"} {
		_, err := exec.LookPath(name)
		missing = errors.Join(missing, err)
	}
	for _, path := range o.Images {
		_, err := os.Stat(path)
		missing = errors.Join(missing, err)
	}
	if missing != nil {
		return fmt.Errorf("a node needs what test/node/deps.sh installs, and the binaries and images:\n%w", missing)
	}
	return nil
}
