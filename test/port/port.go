// SPDX-License-Identifier: Apache-2.0

// Package port chooses TCP ports for tests.
package port

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// The ports lie below those that kernels give to outgoing connections: one of these could take a port between its
// choice and its use.
const (
	lowest = 12000
	number = 20000
)

var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * 97) } // test packages run side by side

// Free is an address on the loopback interface that nobody listens on, and that no test of this process gets again.
func Free(t testing.TB) string {
	t.Helper()
	for range number {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+next.Add(1)%number)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatal("no port is free")
	return ""
}
