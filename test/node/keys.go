// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
)

// writeKeys writes what the components, and the test, authenticate with.
func (n *node) writeKeys() (err error) {
	if n.ca, err = newAuthority(); err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountKey, err := keyPEM(accounts)
	if err != nil {
		return err
	}
	api, err := n.ca.server("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	kubelet, err := n.ca.server("kubelet", nodeName)
	if err != nil {
		return err
	}
	toKubelet, err := n.ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	err = errors.Join(
		secret("ca.crt", n.ca.pem()),
		secret("accounts.key", accountKey),
		secret("apiserver.crt", api.certificate), secret("apiserver.key", api.key),
		secret("kubelet.crt", kubelet.certificate), secret("kubelet.key", kubelet.key),
		secret("to-kubelet.crt", toKubelet.certificate), secret("to-kubelet.key", toKubelet.key),
	)
	for user, groups := range map[string][]string{
		"system:kube-controller-manager": nil,
		"system:kube-scheduler":          nil,
		"system:kube-proxy":              nil,
		"system:node:" + nodeName:        {"system:nodes"},
	} {
		certificate, errUser := n.ca.client(user, groups...)
		err = errors.Join(err, errUser, n.writeKubeconfig(kubeconfig(user), certificate))
	}
	admin, errAdmin := n.ca.client("admin", "system:masters")
	if err = errors.Join(err, errAdmin); err != nil {
		return err
	}
	config, err := n.ca.tls(admin)
	if err != nil {
		return err
	}
	n.http = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return n.writeKubeconfig((&folder{path: n.Folder}).kubeconfig(), admin)
}

func secret(name string, content []byte) error {
	return os.WriteFile(filepath.Join(pki, name), content, 0o600)
}

// kubeconfig is where a component's is.
func kubeconfig(user string) string { return filepath.Join(configs, user+".kubeconfig") }

func (n *node) writeKubeconfig(path string, user pair) error {
	const name = "e2e"
	type object = map[string]any
	data, err := json.Marshal(object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"contexts":        []object{{"name": name, "context": object{"cluster": name, "user": name}}},
		"clusters":        []object{{"name": name, "cluster": object{"server": apiServer, "certificate-authority-data": n.ca.pem()}}},
		"users":           []object{{"name": name, "user": object{"client-certificate-data": user.certificate, "client-key-data": user.key}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
