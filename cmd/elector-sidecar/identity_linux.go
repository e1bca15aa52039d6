// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
)

// holdIdentity makes sure that no other process of this pod contends under the same identity. An abstract socket belongs
// to the pod's network, needs no file, and is gone with its process, however that ends.
func holdIdentity(ctx context.Context, cfg *config) (release func(), err error) {
	// Hashed, since such a name holds 107 bytes at most.
	contender := sha256.Sum256([]byte(cfg.LeaseNamespace + "/" + cfg.LeaseName + "/" + cfg.Identity))
	name := fmt.Sprintf("@elector-sidecar/%x", contender)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", name)
	if err != nil {
		return nil, fmt.Errorf("identity %q: another process of this pod contends for lease %s/%s under it; run one sidecar a pod and lease, or set ELECTOR_IDENTITY: %w",
			cfg.Identity, cfg.LeaseNamespace, cfg.LeaseName, err)
	}
	return func() { _ = listener.Close() }, nil
}
