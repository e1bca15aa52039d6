// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "context"

// startProxy starts kube-proxy, and returns when the API server is to be reached at its Service address.
func (n *node) startProxy(ctx context.Context) error {
	proxy, err := n.startKube("kube-proxy",
		"--kubeconfig="+kubeconfig("system:kube-proxy"), "--hostname-override="+nodeName,
		"--proxy-mode=nftables", "--bind-address="+nodeAddress,
		// The sizes of the connection table are the machine's.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	if err != nil {
		return err
	}
	return proxy.await(ctx, "forward to the API server", func(ctx context.Context) error {
		return n.get(ctx, "https://"+apiService+"/readyz", nil)
	})
}
