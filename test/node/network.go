// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// links is what ip sets up. The bridge has a fixed hardware address, else it would change with the pods that come and go,
// and pods would lose their gateway meanwhile. Kubernetes finds the node's address by the default route.
const links = `link set lo up
link add cni0 address 0a:58:0a:58:00:01 type bridge
address add ` + nodeAddress + `/16 dev cni0
link set cni0 up
route add default dev cni0 src ` + nodeAddress + `
`

// cutRules drop what pods in the set and the API server send to each other. The API server's Service address has been
// translated to its own where these look.
const cutRules = `table inet ` + control.Table + ` {
	set ` + control.Set + ` { type ipv4_addr; }
	chain in { type filter hook input priority filter; ip saddr @` + control.Set + ` tcp dport ` + apiPort + ` drop; }
	chain out { type filter hook output priority filter; ip daddr @` + control.Set + ` tcp sport ` + apiPort + ` drop; }
}
`

// connect sets up the node's network: a bridge for the pods, and nothing that leads out.
func connect() error {
	if err := syscall.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	if err := feed(links, "ip", "-batch", "-"); err != nil {
		return err
	}
	const filter = "/proc/sys/net/bridge/bridge-nf-call-iptables" // else answers from a pod beside the asker miss kube-proxy
	if _, err := os.Stat(filter); err != nil {
		if out, err := exec.Command("modprobe", "br_netfilter").CombinedOutput(); err != nil {
			return fmt.Errorf("modprobe br_netfilter: %w: %s", err, out)
		}
	}
	for _, path := range []string{"/proc/sys/net/ipv4/ip_forward", filter} {
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return err
		}
	}
	return feed(cutRules, "nft", "-f", "-")
}

// feed runs a command with an input.
func feed(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", cmd, err), errors.New(string(out)))
	}
	return nil
}
