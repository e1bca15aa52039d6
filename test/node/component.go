// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// component is a process of the node that must not end.
type component struct {
	*node
	name string
	log  string // path
}

// start starts a component with its output in a log.
func (n *node) start(path string, args ...string) (*component, error) {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(n.Folder, "logs", name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "TMPDIR=" + temporary}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &component{node: n, name: name, log: log.Name()}
	go func() {
		_ = cmd.Wait()
		n.once.Do(func() {
			n.failure = fmt.Errorf("%s has ended (%v)\n%s", name, cmd.ProcessState, c.tail())
			close(n.failed)
		})
	}()
	return c, nil
}

// startKube starts a component of Kubernetes.
func (n *node) startKube(name string, args ...string) (*component, error) {
	return n.start(filepath.Join(n.Assets, name), args...)
}

// await tries until there is no error, as long as no component ends. What says what the component is waited for to do.
func (c *component) await(ctx context.Context, what string, try func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-c.failed:
			return c.failure
		case <-ctx.Done():
			return fmt.Errorf("%s does not %s: %w: %w\n%s", c.name, what, context.Cause(ctx), err, c.tail())
		case <-ticker.C:
		}
	}
}

// tail is the end of the component's log.
func (c *component) tail() string {
	const lines = 30
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimSpace(data)), "\n")
	return fmt.Sprintf("the end of its log:\n%s", strings.Join(all[max(0, len(all)-lines):], "\n"))
}
