// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The test binary is also the command that nodes are brought up for. A variable says what it is to do there.
const (
	asHelper = "NODE_TEST_HELPER"
	endCode  = 7 // the exit code of a node's inhabitant, at the end of its input
)

// help is the command. It says what it has done in lines on standard output.
func help(role string) error {
	verb, argument, _ := strings.Cut(role, " ")
	switch verb {
	case "live":
		if err := inhabit(); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(endCode)
	case "dial":
		return dial(argument)
	case "listen":
		return listen(argument)
	case "watch":
		return watchConfigMaps()
	case "control":
		return testControl()
	}
	return fmt.Errorf("what is %q?", role)
}

// inhabit leaves what a test may leave: a pod that runs, and a process that nobody waits for.
func inhabit() error {
	client, err := newClient()
	if err != nil {
		return err
	}
	if _, err := runPod(client, "lodger"); err != nil {
		return err
	}
	stray := exec.Command("sleep", "1000")
	stray.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stray.Start(); err != nil {
		return err
	}
	fmt.Println("the pod runs")
	return nil
}

func newClient() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// runPod creates a pod and waits until it runs.
func runPod(client *kubernetes.Clientset, name string) (*corev1.Pod, error) {
	pods := client.CoreV1().Pods("default")
	pod, err := pods.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "e2e-app:latest", ImagePullPolicy: corev1.PullNever,
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pod, err = pods.Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
	return pod, err
}

// processOf returns a process of a pod, as this process sees it.
func processOf(pod *corev1.Pod) (int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		if cgroups, err := os.ReadFile(path); err == nil && strings.Contains(string(cgroups), "/pod"+string(pod.UID)+"/") {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, errors.New("the pod has no process")
}

// fromPod runs a helper in a pod's network namespace.
func fromPod(pod *corev1.Pod, role string) *exec.Cmd {
	pid, err := processOf(pod)
	if err != nil {
		pid = -1 // nsenter will say so
	}
	own, err := os.Executable()
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(pid), "-n", "--", own)
	cmd.Env, cmd.Err = append(os.Environ(), asHelper+"="+role), errors.Join(cmd.Err, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
