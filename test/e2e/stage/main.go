// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// Main runs the cases on the cluster of KUBECONFIG, and prints what they have measured. Where E2E_REPORT names a file it is
// written there too, as Markdown. It returns the exit code.
func Main(m *testing.M) int {
	began := time.Now()
	klog.SetLogger(logr.Discard()) // client-go tells of each stream that ends
	c, err := open()
	if err == nil {
		shared = c
		c.closeOnSignal()
		err = errors.Join(c.sweep(context.Background()), c.startRecorder(context.Background()))
	}
	code := 1
	if err == nil {
		code = m.Run()
		err = c.report(time.Since(began))
	}
	if c != nil {
		if closing := c.close(); closing != nil {
			fmt.Fprintln(os.Stderr, "e2e:", closing)
			code = 1
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	return code
}

// closeOnSignal leaves nothing behind when the run is told to stop.
func (c *cluster) closeOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		fmt.Fprintln(os.Stderr, "e2e: told to stop:", <-signals)
		if err := c.close(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		os.Exit(1)
	}()
}

func (c *cluster) report(took time.Duration) error {
	h, err := c.describe(context.Background(), took)
	if err != nil {
		return err
	}
	rows := reported.sorted()
	fmt.Println(h)
	printTable(os.Stdout, rows)
	path := os.Getenv("E2E_REPORT")
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	printMarkdown(file, h, rows)
	return file.Close()
}

// OwnNode is the node that the cases may do something to. On somebody else's cluster there is none, and the case is reported
// as not run.
func OwnNode(t testing.TB, name string, shape Shape, timings Timings) (node control.Node, ok bool) {
	t.Helper()
	if shared.existing {
		reported.add(&Row{Case: name, Setting: setting(shape, timings), Verdict: notRun})
		return 0, false
	}
	node, err := control.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return node, true
}
