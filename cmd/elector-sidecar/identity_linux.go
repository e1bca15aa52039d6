// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"strings"
)

// holdIdentity makes sure that no other process in this pod's network namespace contends under the same identity, and
// returns the name of that place for elector.Config.Sandbox ("" where the kernel does not tell). An abstract socket
// belongs to its network namespace, needs no file, and is gone with its process, however that ends.
func holdIdentity(ctx context.Context, cfg *config) (sandbox string, release func(), err error) {
	// Hashed, since such a name holds 107 bytes at most.
	contender := sha256.Sum256([]byte(cfg.LeaseNamespace + "/" + cfg.LeaseName + "/" + cfg.Identity))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", fmt.Sprintf("@elector-sidecar/%x", contender))
	if err != nil {
		return "", nil, fmt.Errorf("identity %q: another process in this pod contends for lease %s/%s under it; run one sidecar a pod and lease, or set ELECTOR_IDENTITY: %w",
			cfg.Identity, cfg.LeaseNamespace, cfg.LeaseName, err)
	}
	return networkNamespace(), func() { _ = listener.Close() }, nil
}

// networkNamespace names this network namespace among all that exist at a time: by its inode and the boot of its
// kernel. A later namespace can get the same inode, but only once this one, with all its processes, is gone.
func networkNamespace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	inode, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	place := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + inode))
	return fmt.Sprintf("%x", place[:8])
}
