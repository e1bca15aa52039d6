// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// host is where, when and with what the cases ran.
type host struct {
	date, machine, kubernetes string
	took                      time.Duration
}

func (h host) String() string {
	return fmt.Sprintf("%s | %s | %s | sidecar %s | took %s", h.date, h.machine, h.kubernetes, sidecarVersion(), h.took.Round(time.Second))
}

func (c *cluster) describe(ctx context.Context, took time.Duration) (host, error) {
	h := host{date: time.Now().UTC().Format("2006-01-02 15:04Z"), took: took}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		return h, fmt.Errorf("the nodes: %d, %w", len(nodes.Items), err)
	}
	node := nodes.Items[0]
	info, capacity := node.Status.NodeInfo, node.Status.Capacity
	memory := capacity.Memory().Value() >> 30
	h.machine = fmt.Sprintf("%d node, %s cores, %d GiB, Linux %s", len(nodes.Items), capacity.Cpu(), memory, info.KernelVersion)
	if !c.existing {
		h.machine = cpuModel() + ", " + h.machine
	}
	h.kubernetes = fmt.Sprintf("Kubernetes %s, %s", info.KubeletVersion, strings.ReplaceAll(info.ContainerRuntimeVersion, "://", " "))
	return h, nil
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	if match := regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`).FindSubmatch(info); match != nil {
		return string(match[1])
	}
	return "unknown CPU"
}

// version is what the sidecars say that they are.
var version struct {
	once sync.Once
	text string
}

var buildInfo = regexp.MustCompile(`elector_build_info\{[^}]*version="([^"]*)"\}`)

// noteVersion asks a sidecar for its version, once in a run.
func noteVersion(s *Stage, pod string) {
	version.once.Do(func() {
		metrics, err := s.raw(pod, api, "metrics")
		if match := buildInfo.FindSubmatch(metrics); err == nil && match != nil {
			version.text = string(match[1])
		}
	})
}

func sidecarVersion() string {
	version.once.Do(func() {})
	if version.text == "" {
		return "of unknown version"
	}
	return version.text
}
