// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/elector-sidecar/elector-sidecar/test/node/control"
)

// The faults do what they say, and no more.
func TestControl(t *testing.T) {
	c := start(t, "control")
	if code := c.end(); code != 0 {
		t.Errorf("the exit code is %d; it said:\n%s", code, &c.said)
	}
}

// testControl is the command of TestControl.
func testControl() error {
	node, err := control.FromEnvironment()
	if err != nil {
		return err
	}
	client, err := newClient()
	if err != nil {
		return err
	}
	victim, err := runPod(client, "victim")
	if err != nil {
		return err
	}
	other, err := runPod(client, "other")
	if err != nil {
		return err
	}
	return cmp.Or(testCut(node, client, victim, other), testKubelet(node))
}

const (
	api  = apiService + ":443"
	port = "7000"
)

func testCut(node control.Node, client *kubernetes.Clientset, victim, other *corev1.Pod) error {
	ip, err := netip.ParseAddr(victim.Status.PodIP)
	if err != nil {
		return err
	}
	listener := fromPod(victim, "listen :"+port)
	if _, err := follow(listener, "listening"); err != nil {
		return err
	}
	inhabitant := fromPod(victim, "watch")
	orders, err := inhabitant.StdinPipe()
	if err != nil {
		return err
	}
	events, err := follow(inhabitant, "watching")
	if err != nil {
		return err
	}
	aliveAnyway := func() error {
		return cmp.Or(
			wrap("the node asks the pod", dial(victim.Status.PodIP+":"+port)),
			wrap("another pod asks the pod", fromPod(other, "dial "+victim.Status.PodIP+":"+port).Run()),
			wrap("another pod asks the API server", fromPod(other, "dial "+api).Run()),
		)
	}
	_, _ = fmt.Fprintln(orders, "written-before")
	if err := cmp.Or(
		hear(events, "written-before", patience),
		aliveAnyway(),
		wrap("the pod asks the API server", fromPod(victim, "dial "+api).Run()),
		wrap("cut", node.Cut(ip)),
		aliveAnyway(),
	); err != nil {
		return err
	}

	_, _ = fmt.Fprintln(orders, "written-meanwhile")
	if err := create(client, "told-meanwhile"); err != nil {
		return err
	}
	if fromPod(victim, "dial "+api).Run() == nil {
		return errors.New("a pod that is cut off connects to the API server")
	}
	if hear(events, "told-meanwhile", 2*time.Second) == nil {
		return errors.New("a pod that is cut off hears from the API server, on an old connection")
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(context.Background(), "written-meanwhile", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a pod that is cut off writes to the API server, on an old connection: %v", err)
	}

	return cmp.Or(
		wrap("mend", node.Mend(ip)),
		wrap("the pod asks the API server again", fromPod(victim, "dial "+api).Run()),
		hear(events, "told-meanwhile", patience),
	)
}

func testKubelet(node control.Node) error {
	answers := func() error {
		insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer insecure.CloseIdleConnections()
		client := http.Client{Transport: insecure, Timeout: 2 * time.Second}
		response, err := client.Get("https://" + nodeAddress + ":10250/healthz")
		if err == nil {
			err = response.Body.Close()
		}
		return wrap("the kubelet answers", err)
	}
	if err := cmp.Or(answers(), node.StopKubelet()); err != nil {
		return err
	}
	if answers() == nil {
		return errors.New("a kubelet that is stopped answers")
	}
	return cmp.Or(node.StartKubelet(), answers())
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// follow starts a command, waits for its first line, and passes on those after it.
func follow(cmd *exec.Cmd, first string) (<-chan string, error) {
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines, hear(lines, first, patience)
}

// hear waits for a line.
func hear(lines <-chan string, wanted string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			if line == wanted {
				return nil
			}
			if !ok {
				return fmt.Errorf("the output has ended before %q", wanted)
			}
			fmt.Println(line)
		case <-timer.C:
			return fmt.Errorf("there is no %q within %v", wanted, limit)
		}
	}
}

func create(client *kubernetes.Clientset, name string) error {
	_, err := client.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// watchConfigMaps says the names of those that are created, and creates those whose names come in.
func watchConfigMaps() error {
	client, err := newClient()
	if err != nil {
		return err
	}
	watcher, err := client.CoreV1().ConfigMaps("default").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Println("watching")
	go func() {
		for names := bufio.NewScanner(os.Stdin); names.Scan(); {
			_ = create(client, names.Text())
		}
	}()
	for event := range watcher.ResultChan() {
		if created, ok := event.Object.(*corev1.ConfigMap); ok {
			fmt.Println(created.Name)
		}
	}
	return errors.New("the watch has ended")
}

func listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		_ = connection.Close()
	}
}

// dial connects to an address.
func dial(address string) error {
	connection, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}
