// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

const containerdSocket = "/run/containerd/containerd.sock"

// containerdConfig takes the sandbox image. Without restrict_oom_score_adj no pod starts where the caller's own score is
// raised.
const containerdConfig = `version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + pluginFolder + `"
    conf_dir = "` + configs + `/cni"
`

// podNetwork links each pod to the node alone. On a bridge, an answer from a pod that was reached through a Service would
// miss kube-proxy, but for a kernel module that then changes how all bridges of the machine work.
const podNetwork = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{
    "type": "ptp",
    "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "` + podRange + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// startContainerd starts containerd and gives it the images.
func (n *node) startContainerd(ctx context.Context, images []*os.File) error {
	if err := os.Mkdir(configs+"/cni", 0o700); err != nil {
		return err
	}
	if _, err := config("cni/pods.conflist", podNetwork); err != nil {
		return err
	}
	path, err := config("containerd.toml", fmt.Sprintf(containerdConfig, n.Sandbox))
	if err != nil {
		return err
	}
	containerd, err := n.start("containerd", "--config="+path)
	if err != nil {
		return err
	}
	err = containerd.await(ctx, "answer", func(ctx context.Context) error {
		return exec.CommandContext(ctx, "ctr", "version").Run()
	})
	if err != nil {
		return err
	}
	for _, image := range images {
		ctr := exec.CommandContext(ctx, "ctr", "--namespace=k8s.io", "images", "import", "-")
		ctr.Stdin = image
		if out, err := ctr.CombinedOutput(); err != nil {
			return fmt.Errorf("importing %s: %w: %s\n%s", image.Name(), err, out, containerd.tail())
		}
	}
	// Kubernetes would try to pull what is missing, and there is no network.
	out, err := exec.CommandContext(ctx, "ctr", "--namespace=k8s.io", "images", "list", "--quiet", "name=="+n.Sandbox).Output()
	if err == nil && len(out) == 0 {
		return fmt.Errorf("none of the images is %s, in which pods would be held", n.Sandbox)
	}
	return err
}
