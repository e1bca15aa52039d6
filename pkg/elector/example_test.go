// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"context"
	"fmt"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

func Example() {
	store := electortest.NewStore() // in a cluster: clientset.CoordinationV1().Leases("shop")
	e, err := elector.New(elector.Config{
		Client:        store.Leases("shop"),
		Namespace:     "shop",
		Name:          "web",
		Identity:      "web-0_3f0c9f1e",
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()

	status, err := e.Wait(ctx, func(s elector.Status) bool { return s.IsLeader })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.State, status.Leader, status.ValidFor > 9*time.Second, status.FencingToken > 0)

	stop() // releases the lease
	fmt.Println(<-ended)
	fmt.Printf("%s, held by %q\n", e.Status().State, *store.Peek("shop", "web").Spec.HolderIdentity)
	// Output:
	// leading web-0_3f0c9f1e true true
	// <nil>
	// stopped, held by ""
}
