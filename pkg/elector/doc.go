// SPDX-License-Identifier: Apache-2.0

// Package elector contends for a Kubernetes Lease, and tells at any instant whether this process leads.
//
// # Guarantees
//
// At most one process is told that it leads, as long as the API server keeps one history of the Lease, all who write the
// Lease keep to the protocol of client-go's leaderelection, no two live processes share an Identity, and clocks run at
// rates that differ by less than LeaseDuration / RenewDeadline.
//
// The rules behind it have names, which the code uses:
//
//   - S1: one write in flight, always with the resourceVersion that it was decided on.
//   - S2: a process leads only after a write of its own has succeeded. Reading its own name is not enough.
//   - S3: it leads until RenewDeadline after the instant before its last successful write was sent, by the worse of a clock
//     that counts suspended time and the forward jumps of the time of day.
//   - S4: another's lease is expired once its record has not changed for its own duration since the change was seen.
//     Times that others wrote are never compared with local time.
//   - S5: another holder, another Lease, or none: not leader as soon as that is seen.
//   - S6: the end of the election loop, for whatever reason, is "not leader".
//   - S7: the fencing token, the resourceVersion of the write that began the term, is larger for each later leader.
//
// Records written by client-go's leaderelection are understood, and those of this package by it.
//
// # Arithmetic
//
// Take the last renewal of a leader that was ever stored. It was sent, then committed, then seen by a rival, in this order.
// With a LeaseDuration of 15 s and a RenewDeadline of 10 s the leader leads until sent + 10 s, and the rival does not write
// before seen + 15 s. In between there are at least 5 s in which nobody leads, however slow the network and the API server
// are. A rival that has not seen that renewal decides on an older record, and its write meets a conflict. The margin is
// for clocks of different speed: it holds while the fastest runs at most 15/10 times as fast as the slowest. That clocks
// agree on the time of day is not needed.
//
// In a mix with client-go's leaderelection keep RenewDeadline at least 2 s below LeaseDuration, since its standbys compare
// records at whole seconds.
//
// # What is not guaranteed
//
// This package stops no work. Work that goes on after ValidFor can overlap with the next leader's; storage that remembers
// the largest fencing token can refuse it. The token does not survive the restore of a cluster from a backup. A pause that
// neither clock shows is not noticed until the next request. That somebody leads at all needs the API server.
//
// # The caller's duties
//
//   - Call [Elector.Run] once. To stop, end its context and wait for Run to return: the release of the lease happens in
//     between. A process that exits earlier leaves the lease to expire.
//   - Give each live process an Identity of its own.
//   - Set Config.Sandbox only to the name of a place that holds one live process of this Identity at most, as a pod's
//     network namespace does with a lock in it. It makes the difference between taking the lease of a predecessor back
//     at once and waiting for it to expire.
//   - Give it a client that does not retry a Create or an Update, and returns when its context ends. It should not be
//     rate-limited below the pace of the election: QPS of a rest.Config applies.
//   - Ask [Elector.Status] where the answer is needed, not ahead of it, and end the work before ValidFor is over.
//   - Put a logger into Run's context with klog.NewContext; decisions are logged there.
//
// # Usage
//
//	e, err := elector.New(elector.Config{
//		Client:        clientset.CoordinationV1().Leases("shop"),
//		Namespace:     "shop",
//		Name:          "web",
//		Identity:      podName + "_" + podUID,
//		LeaseDuration: 15 * time.Second,
//		RenewDeadline: 10 * time.Second,
//		RetryPeriod:   2 * time.Second,
//	})
//	if err != nil {
//		return err
//	}
//	ended := make(chan error, 1)
//	go func() { ended <- e.Run(ctx) }()
//
//	for ctx.Err() == nil {
//		status, err := e.Wait(ctx, func(s elector.Status) bool { return s.IsLeader })
//		if err != nil {
//			break
//		}
//		work(ctx, status.ValidFor, status.FencingToken) // ends before ValidFor is over
//	}
//	return <-ended
//
// # Inside
//
// machine.go decides, and does no I/O, starts no goroutine and reads no clock; elector.go carries out. observe.go lists and
// watches, lease.go knows the wire format, status.go is what readers see. Package electortest has an in-memory Lease API
// with faults to test against.
package elector
