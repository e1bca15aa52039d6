// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a node may take to come up, and to be gone.
const patience = 2 * time.Minute

var program, image string // the built node, and an OCI tar for its pods

func TestMain(m *testing.M) {
	if role := os.Getenv(asHelper); role != "" {
		if err := help(role); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "node-test-")
	if err == nil {
		err = build(dir)
	}
	code := 1
	if err != nil {
		fmt.Println(err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir string) error {
	program, image = filepath.Join(dir, "node"), filepath.Join(dir, "e2e-app.tar")
	app := filepath.Join(dir, "app")
	for _, step := range []struct {
		in   string
		args []string
	}{
		{"..", []string{"build", "-o", program, "./node"}},
		{"..", []string{"build", "-o", app, "./e2e/app"}},
		{"../..", []string{"run", "./internal/image", "-name", "e2e-app:latest", "-binary", app, "-entrypoint", "/app", "-port", "0", "-o", image}},
	} {
		cmd := exec.Command("go", step.args...)
		cmd.Dir, cmd.Env = step.in, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
	}
	return nil
}

// cluster is a run of the node program.
type cluster struct {
	t      *testing.T
	dir    string // its -dir
	cmd    *exec.Cmd
	stdin  io.WriteCloser // of its command
	output *os.File       // of all its processes that are not the node's components
	lines  *bufio.Reader
	said   bytes.Buffer
}

// start runs a node with a helper in a role as its command.
func start(t *testing.T, role string) *cluster {
	t.Helper()
	return startIn(t, t.TempDir(), role)
}

func startIn(t *testing.T, dir, role string) *cluster {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	c := &cluster{t: t, dir: dir, output: output}
	c.cmd = exec.Command(program, "run", "-dir", dir, "-images", image, "--", own)
	c.cmd.Env = append(os.Environ(), asHelper+"="+role)
	c.cmd.Stdout, c.cmd.Stderr = write, write
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	c.lines = bufio.NewReader(io.TeeReader(output, &c.said))
	return c
}

// await reads until a line with a prefix, and returns the rest of the line.
func (c *cluster) await(prefix string) string {
	c.t.Helper()
	_ = c.output.SetDeadline(time.Now().Add(patience))
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.t.Fatalf("waiting for %q: %v; it said:\n%s", prefix, err, &c.said)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// end waits until no process holds the output any more, and returns the exit code, a shell's.
func (c *cluster) end() int {
	c.t.Helper()
	_ = c.output.SetDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c.lines); err != nil {
		c.t.Fatalf("some process of the node goes on: %v; it said:\n%s", err, &c.said)
	}
	return exitCode(c.cmd)
}
