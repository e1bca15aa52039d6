// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// silence is how long a client may leave what was sent to it unacknowledged, in milliseconds. The kernel's own answer is
// a quarter of an hour; a client that is gone without a FIN would hold a stream for so long.
const silence = 30_000

// dropSilentPeers sets that on the listening socket, from which connections inherit it.
func dropSilentPeers(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, silence)
	})
	if err != nil {
		return err
	}
	return failed
}
