// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// startAPI starts etcd and the API server, and returns when it answers.
func (n *node) startAPI(ctx context.Context) error {
	_, err := n.startKube("etcd", "--data-dir="+work+"/etcd",
		"--listen-client-urls="+etcdServer, "--advertise-client-urls="+etcdServer,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	api, err := n.startKube("kube-apiserver",
		"--etcd-servers="+etcdServer,
		"--advertise-address="+nodeAddress, "--secure-port="+apiPort,
		"--service-cluster-ip-range="+serviceRange,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file="+pki+"/ca.crt",
		"--tls-cert-file="+pki+"/apiserver.crt", "--tls-private-key-file="+pki+"/apiserver.key",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+pki+"/accounts.key", "--service-account-signing-key-file="+pki+"/accounts.key",
		"--kubelet-certificate-authority="+pki+"/ca.crt", "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+pki+"/to-kubelet.crt", "--kubelet-client-key="+pki+"/to-kubelet.key",
	)
	if err != nil {
		return err
	}
	return api.await(ctx, "answer", func(ctx context.Context) error { return n.get(ctx, apiServer+"/readyz", nil) })
}

// startControllers starts the controllers and the scheduler, and returns when pods can be created and run. The node must be
// ready, or it would get taints that are taken away seconds later.
func (n *node) startControllers(ctx context.Context) error {
	controllers, err := n.startKube("kube-controller-manager",
		"--kubeconfig="+kubeconfig("system:kube-controller-manager"), "--leader-elect=false",
		"--use-service-account-credentials", "--service-account-private-key-file="+pki+"/accounts.key",
		"--root-ca-file="+pki+"/ca.crt", "--kube-api-qps=200", "--kube-api-burst=400")
	if err != nil {
		return err
	}
	_, err = n.startKube("kube-scheduler",
		"--kubeconfig="+kubeconfig("system:kube-scheduler"), "--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400")
	if err != nil {
		return err
	}
	return controllers.await(ctx, "make the cluster usable", func(ctx context.Context) error {
		const namespace = apiServer + "/api/v1/namespaces/default/"
		var node nodeObject
		if err := cmp.Or(
			n.get(ctx, nodeURL, &node),
			n.get(ctx, namespace+"serviceaccounts/default", nil),
			n.get(ctx, namespace+"configmaps/kube-root-ca.crt", nil),
		); err != nil {
			return err
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("the node has taints: %v", node.Spec.Taints)
		}
		return nil
	})
}

// get reads from the API server as an administrator. Into may be nil.
func (n *node) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := n.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
