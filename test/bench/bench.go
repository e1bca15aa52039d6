// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// effort is how much is measured.
type effort struct {
	timings         timings // of an election, unless a row says otherwise
	brisk           timings // where a lease has to expire
	handovers       int
	deaths          int
	tamperings      int
	theirTamperings int // they take long
	starts          int
	window          time.Duration // in which requests at rest are counted
	warmUp          time.Duration // before that
	settle          time.Duration // from when everybody has seen the Lease to when something happens
	loads           int           // how often the API is put under load
	load            time.Duration // each time
	crowds          int           // how often a crowd waits for news
	held            int           // how large it is
}

// bench is where measurements are taken.
type bench struct {
	effort
	config    *rest.Config
	dir       string // for its files
	binary    string // the sidecar
	candidate string // the program with client-go's elector
	bare      string // the HTTP server with nothing around it
	direct    string // the kubeconfig without a detour
	ours      starter
	clientGo  starter
	stderr    io.Writer
}

func (b *bench) progress(format string, args ...any) { fmt.Fprintf(b.stderr, format+"\n", args...) }

// crews starts a crew of each kind. dismiss ends them, and has to be called also after an error.
func (b *bench) crews(ctx context.Context, t timings) (our, their *crew, dismiss func(), err error) {
	our, err = newCrew(ctx, "ours", b.ours, t, crewSize)
	if err == nil {
		their, err = newCrew(ctx, "client-go", b.clientGo, t, crewSize)
	}
	return our, their, func() { our.dismiss(); their.dismiss() }, err
}

// kubeconfig writes config to a file, for a process to use, and returns its path.
func (b *bench) kubeconfig(config *rest.Config) (string, error) {
	const name = "bench"
	file, err := os.CreateTemp(b.dir, "kubeconfig-")
	if err != nil {
		return "", err
	}
	path := file.Name()
	return path, errors.Join(file.Close(), clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
	}, path))
}

// sidecarBinary is the binary to measure: the given one, else what make has built.
func sidecarBinary(given string) (string, error) {
	if given == "" {
		given = filepath.Join("..", "bin", "elector-sidecar")
	}
	path, err := filepath.Abs(given)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the sidecar to measure: %w; `make build` makes it, and -binary names another", err)
	}
	return path, nil
}
