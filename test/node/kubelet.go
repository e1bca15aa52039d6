// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
)

const nodeObject = apiServer + "/api/v1/nodes/" + nodeName

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

// startKubelet starts the kubelet, and returns when it has registered the node.
func (n *node) startKubelet(ctx context.Context) (*component, error) {
	path, err := config("kubelet.json", n.kubeletConfig())
	if err != nil {
		return nil, err
	}
	kubelet, err := n.startKube("kubelet", "--config="+path,
		"--kubeconfig="+kubeconfig("system:node:"+nodeName), "--hostname-override="+nodeName, "--node-ip="+nodeAddress)
	if err != nil {
		return nil, err
	}
	return kubelet, kubelet.await(ctx, "register the node", func(ctx context.Context) error { return n.get(ctx, nodeObject, nil) })
}

// usable returns when pods can be created and run.
func (n *node) usable(ctx context.Context, kubelet *component) error {
	if err := kubelet.await(ctx, "make the node ready", n.ready); err != nil {
		return err
	}
	return kubelet.await(ctx, "get a service account for its pods", func(ctx context.Context) error {
		const namespace = apiServer + "/api/v1/namespaces/default/"
		if err := n.get(ctx, namespace+"serviceaccounts/default", nil); err != nil {
			return err
		}
		return n.get(ctx, namespace+"configmaps/kube-root-ca.crt", nil)
	})
}

// ready is an error until pods can be scheduled to the node.
func (n *node) ready(ctx context.Context) error {
	var object struct {
		Spec   struct{ Taints []struct{ Key string } }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := n.get(ctx, nodeObject, &object); err != nil {
		return err
	}
	if len(object.Spec.Taints) > 0 {
		return fmt.Errorf("the node has taints: %v", object.Spec.Taints)
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("the node's conditions: %v", object.Status.Conditions)
}
