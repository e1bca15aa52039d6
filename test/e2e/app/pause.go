// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// pause reaps the processes that others in the pod have left to it, until it is told to stop.
func pause() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	ctx, stop := untilTold()
	defer stop()
	for {
		reap()
		select {
		case <-children:
		case <-ctx.Done():
			return nil
		}
	}
}

func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// untilTold is a context that ends as the process is told to stop.
func untilTold() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}
