// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
)

const nodeURL = apiServer + "/api/v1/nodes/" + nodeName

type fields = map[string]any

func (n *node) kubeletConfig() fields {
	return fields{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": fields{
			"x509":      fields{"clientCAFile": pki + "/ca.crt"},
			"webhook":   fields{"enabled": true},
			"anonymous": fields{"enabled": false},
		},
		"authorization":     fields{"mode": "Webhook"},
		"tlsCertFile":       pki + "/kubelet.crt",
		"tlsPrivateKeyFile": pki + "/kubelet.key",
		"cgroupDriver":      "cgroupfs",
		"cgroupRoot":        "/" + n.Cgroup,
		"failCgroupV1":      false,
		"failSwapOn":        false,
		"resolvConf":        "",                     // nothing to resolve
		"clusterDNS":        []string{"10.96.0.10"}, // there is none; without an address each pod gets a warning
		"clusterDomain":     "cluster.local",
		"volumePluginDir":   work + "/volume-plugins",
		"crashLoopBackOff":  fields{"maxContainerRestartPeriod": "1s"},
		// The machine's memory and disk are not the cluster's to judge.
		"evictionHard": fields{
			"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	}
}

// nodeObject is what of the cluster's Node is looked at.
type nodeObject struct {
	Spec   struct{ Taints []struct{ Key string } }
	Status struct {
		Conditions []struct{ Type, Status, Message string }
	}
}

// startKubelet starts the kubelet, and returns when the node is ready.
func (n *node) startKubelet(ctx context.Context) error {
	path, err := config("kubelet.json", n.kubeletConfig())
	if err != nil {
		return err
	}
	kubelet, err := n.startKube("kubelet", "--config="+path,
		"--kubeconfig="+kubeconfig("system:node:"+nodeName), "--hostname-override="+nodeName, "--node-ip="+nodeAddress)
	if err != nil {
		return err
	}
	return kubelet.await(ctx, "make the node ready", func(ctx context.Context) error {
		var node nodeObject
		if err := n.get(ctx, nodeURL, &node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("the node's conditions: %v", node.Status.Conditions)
	})
}
