// SPDX-License-Identifier: Apache-2.0

// Command candidate is what the sidecar is compared with: client-go's LeaderElector on a LeaseLock, made and used as
// its package comment and example show. It tells on standard output what its callbacks are called with, and ends
// when its standard input does, so that it never outlives the benchmark.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "default", "namespace of the Lease")
	name := flag.String("lease", "", "name of the Lease")
	identity := flag.String("identity", "", "holderIdentity")
	duration := flag.Duration("duration", 15*time.Second, "LeaseDuration")
	renew := flag.Duration("renew", 10*time.Second, "RenewDeadline")
	retry := flag.Duration("retry", 2*time.Second, "RetryPeriod")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, *namespace, *name,
		resourcelock.ResourceLockConfig{Identity: *identity}, config, *renew)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *duration,
		RenewDeadline:   *renew,
		RetryPeriod:     *retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leading") },
			OnStoppedLeading: func() { fmt.Println("stopped") },
			OnNewLeader:      func(leader string) { fmt.Println("knows", leader) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}
