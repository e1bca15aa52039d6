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
	"time"
)

const (
	readyLine = "ready\n"         // what boot reports
	bootLimit = 3 * time.Minute   // on a busy machine
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
	ctx, cancel := context.WithTimeoutCause(context.Background(), bootLimit, fmt.Errorf("it took more than %v", bootLimit))
	defer cancel()
	n := &node{plan: p, ended: make(chan *component, 16)}
	if err := n.bringUp(ctx); err != nil {
		return err
	}
	if _, err := os.NewFile(3, "report").WriteString(readyLine); err != nil {
		return err
	}
	return (<-n.ended).failure()
}

// node is the node as boot brings it up.
type node struct {
	plan
	ca    *authority
	http  *http.Client // as an administrator
	ended chan *component
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
	if err := n.startControlPlane(ctx); err != nil {
		return err
	}
	if err := <-runtimeUp; err != nil {
		return err
	}
	kubelet, err := n.startKubelet(ctx)
	if err != nil {
		return err
	}
	if err := n.startProxy(ctx); err != nil {
		return err
	}
	return n.usable(ctx, kubelet)
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
