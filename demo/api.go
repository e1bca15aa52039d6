// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseserver"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// embeddedAPI serves the Lease API from this process, and writes the kubeconfig that leads to it into dir.
func embeddedAPI(dir string) (*cluster, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the embedded Lease API: %w", err)
	}
	url := "http://" + listener.Addr().String()
	server := &http.Server{Handler: leaseserver.New(electortest.NewStore()), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end := func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			return ended
		}
		return err
	}

	kubeconfig := filepath.Join(dir, "kubeconfig")
	const embedded = "embedded"
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{embedded: {Server: url}},
		Contexts:       map[string]*clientcmdapi.Context{embedded: {Cluster: embedded}},
		CurrentContext: embedded,
	}, kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing a kubeconfig: %w", err), end())
	}
	c, err := newCluster(&rest.Config{Host: url}, "default")
	if err != nil {
		return nil, errors.Join(err, end())
	}
	c.where = "in the Lease API that this program serves"
	c.env = []string{"KUBECONFIG=" + kubeconfig}
	c.close = end
	c.tryIt = []string{
		"curl -s " + c.leaseURL,
		"kubectl --server " + url + " get lease " + leaseName + " --watch",
		`curl -s -X PATCH -H 'Content-Type: application/merge-patch+json' \`,
		`     -d '{"spec":{"holderIdentity":"intruder","leaseDurationSeconds":2}}' \`,
		"     " + c.leaseURL,
	}
	return c, nil
}
