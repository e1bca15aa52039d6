// SPDX-License-Identifier: Apache-2.0

// Package electortest is an in-memory Lease API for tests.
//
// A [Store] keeps Leases with the semantics of a kube-apiserver 1.37: one resourceVersion for all writes,
// compare-and-swap on update, and watches that replay what a client has missed. The conformance suite of this
// module (internal/leaseserver/conformance) holds it and a real kube-apiserver to the same answers.
//
// Each [Client] is one candidate's own connection to the store, and can be made to fail in the ways that
// networks and servers do: see [Client.Intercept], [Client.Cut], [Client.Deafen] and [Client.BreakWatches].
//
// A Store works inside a testing/synctest bubble when it is created there. Every goroutine of this package
// belongs to one watch and ends with it.
//
// What it leaves out: namespaces need not exist, managedFields are dropped, lists are never paged, list at an
// exact resourceVersion is answered for the newest one only, and deletion knows no propagation policy.
package electortest
