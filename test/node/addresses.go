// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// The cluster's addresses. They exist in the node's network namespace alone, so clusters can be up side by side.
const (
	nodeName     = "node"
	nodeAddress  = "10.88.0.1" // of the pods' gateway, the kubelet and the API server
	podRange     = "10.88.0.0/16"
	serviceRange = "10.96.0.0/16"
	apiService   = "10.96.0.1" // the Service kubernetes.default
	apiPort      = "6443"
	apiServer    = "https://" + nodeAddress + ":" + apiPort
	etcdServer   = "http://127.0.0.1:2379"
)
