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

// links is what ip sets up: the node's address, and a way towards Services, on which kube-proxy catches what is sent to
// them. Each pod gets a link and a route of its own later. Any other address is unreachable.
const links = `link set lo up
address add ` + nodeAddress + `/32 dev lo
route add ` + serviceRange + ` dev lo src ` + nodeAddress + `
route add unreachable default
`

// cutRules drop what pods in the set and the API server send to each other. The API server's Service address has been
// translated to its own where these look.
const cutRules = `table inet ` + control.Table + ` {
	set ` + control.Set + ` { type ipv4_addr; }
	chain in { type filter hook input priority filter; ip saddr @` + control.Set + ` tcp dport ` + apiPort + ` drop; }
	chain out { type filter hook output priority filter; ip daddr @` + control.Set + ` tcp sport ` + apiPort + ` drop; }
}
`

// connect sets up the node's network, out of which nothing leads.
func connect() error {
	if err := syscall.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	if err := feed(links, "ip", "-batch", "-"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
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
