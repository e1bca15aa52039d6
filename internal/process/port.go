// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// The ports lie below those that kernels give to outgoing connections: one of these could take a port between its
// choice and its use.
const (
	lowestPort = 12000
	ports      = 20000
)

var nextPort atomic.Uint32

func init() { nextPort.Store(uint32(os.Getpid()) * 97) } // processes that run side by side begin apart

// FreeAddress is an address on the loopback interface that nobody listens on, and that this process does not choose
// again for a long time.
func FreeAddress() (string, error) {
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", lowestPort+nextPort.Add(1)%ports)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		return address, listener.Close()
	}
	return "", errors.New("no port is free")
}
