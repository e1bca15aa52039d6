// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

const (
	readyLine = "ready\n"         // what boot reports
	work      = "/run/node"       // the node's own files, in memory
	pki       = work + "/pki"     // keys and certificates
	configs   = work + "/configs" // of the components
)

// plan is what boot is to bring up.
type plan struct {
	options
	Folder string // on the host's disk
	Cgroup string
}

// boot brings the node up from inside its namespaces, reports it on file 3, and returns when a component has ended.
func boot(argument string) error {
	var p plan
	if err := json.Unmarshal([]byte(argument), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.Timeout, fmt.Errorf("it took more than %v", p.Timeout))
	defer cancel()
	n := &node{plan: p, failed: make(chan struct{})}
	if err := n.bringUp(ctx); err != nil {
		return err
	}
	if _, err := os.NewFile(3, "report").WriteString(readyLine); err != nil {
		return err
	}
	<-n.failed
	return n.failure
}

// node is the node as boot brings it up.
type node struct {
	plan
	ca      *authority
	http    *http.Client  // as an administrator
	failed  chan struct{} // closed when the first component has ended
	failure error         // of that component; to be read after failed
	once    sync.Once
}

func (n *node) bringUp(ctx context.Context) error {
	images, err := openAll(n.Images) // where they are may soon be hidden
	if err != nil {
		return err
	}
	if err := mountAll(n.Assets, n.Folder); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := connect(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := n.writeKeys(); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	runtimeUp := make(chan error, 1)
	go func() { runtimeUp <- n.startContainerd(ctx, images) }()
	if err := n.startAPI(ctx); err != nil {
		return err
	}
	if err := <-runtimeUp; err != nil {
		return err
	}
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	if err := n.startControllers(ctx); err != nil {
		return err
	}
	return n.startProxy(ctx)
}

func openAll(paths []string) (files []*os.File, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// config writes a component's configuration and returns its path.
func config(name string, content any) (string, error) {
	path := filepath.Join(configs, name)
	text, ok := content.(string)
	if !ok {
		data, err := json.Marshal(content) // which is YAML
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}
