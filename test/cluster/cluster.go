// SPDX-License-Identifier: Apache-2.0

// Package cluster gives tests a real control plane, kube-apiserver and etcd, with RBAC in force.
package cluster

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Namespace is where the tests' Leases are.
const Namespace = "default"

// Cluster is a running control plane. A test package starts one, in TestMain.
type Cluster struct {
	environment *envtest.Environment
	config      *rest.Config
	wrappers    string
	users       sync.Mutex
}

// Start starts a control plane of the binaries in the folder KUBEBUILDER_ASSETS. flags are more of kube-apiserver, as in
// "service-cluster-ip-range=10.0.0.0/24".
func Start(flags ...string) (*Cluster, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: it must be the folder with kube-apiserver and etcd; " +
			"`make test` sets it, and test/controlplane/build.sh builds them and prints it as its last line")
	}
	ctrllog.SetLogger(logr.Discard()) // else it complains that nobody did
	wrappers, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{wrappers: wrappers, environment: &envtest.Environment{
		ControlPlaneStartTimeout: time.Minute, // other packages may be compiling
		ControlPlaneStopTimeout:  time.Minute,
	}}
	etcd, apiServer := &envtest.Etcd{}, c.environment.ControlPlane.GetAPIServer()
	c.environment.ControlPlane.Etcd = etcd
	for name, path := range map[string]*string{"etcd": &etcd.Path, "kube-apiserver": &apiServer.Path} {
		if *path, err = wrap(wrappers, assets, name); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		apiServer.Configure().Set(name, value)
	}
	if c.config, err = c.environment.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane of %s: %w", assets, err), c.Stop())
	}
	return c, nil
}

// wrap writes a script that runs a binary so that it ends with the tests, however they end: a test that times out has
// no cleanup.
func wrap(dir, assets, name string) (string, error) {
	binary := filepath.Join(assets, name)
	if _, err := exec.LookPath(binary); err != nil {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS is %q: it must hold %s: %w", assets, name, err)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return binary, nil
	}
	script := filepath.Join(dir, name)
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' --pdeathsig KILL -- '%s' \"$@\"\n", setpriv, binary)
	return script, os.WriteFile(script, []byte(text), 0o700)
}

// Stop ends the control plane.
func (c *Cluster) Stop() error {
	return errors.Join(c.environment.Stop(), os.RemoveAll(c.wrappers))
}

// Config is an administrator's way to the API server. It must not be changed.
func (c *Cluster) Config() *rest.Config { return c.config }

// Address is the API server's host and port.
func (c *Cluster) Address() string {
	return c.environment.ControlPlane.APIServer.SecureServing.HostPort()
}

// Via is config by way of a TCP proxy. The certificate that is asked for stays the API server's.
func Via(config *rest.Config, address string) *rest.Config {
	via := rest.CopyConfig(config)
	if server, err := url.Parse(config.Host); err == nil {
		via.ServerName = server.Hostname()
	}
	via.Host = "https://" + address
	return via
}

// Kubeconfig writes config to a file, for a process to use, and returns its path.
func Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	const name = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			TLSServerName:            config.ServerName,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			TokenFile:             config.BearerTokenFile,
		}},
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
