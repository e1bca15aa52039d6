// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// startControlPlane starts etcd, the API server, the controllers and the scheduler.
func (n *node) startControlPlane(ctx context.Context) error {
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
	if err := api.await(ctx, "answer", func(ctx context.Context) error { return n.get(ctx, apiServer+"/readyz", nil) }); err != nil {
		return err
	}
	_, err = n.startKube("kube-controller-manager",
		"--kubeconfig="+kubeconfig("system:kube-controller-manager"), "--leader-elect=false",
		"--use-service-account-credentials", "--service-account-private-key-file="+pki+"/accounts.key",
		"--root-ca-file="+pki+"/ca.crt", "--kube-api-qps=200", "--kube-api-burst=400")
	if err != nil {
		return err
	}
	_, err = n.startKube("kube-scheduler",
		"--kubeconfig="+kubeconfig("system:kube-scheduler"), "--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400")
	return err
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
