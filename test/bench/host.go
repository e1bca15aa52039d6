// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// host is where and with what it was measured.
type host struct {
	Date      string `json:"date"`
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	Load      string `json:"load"` // as it began, of 1, 5 and 15 minutes
	Go        string `json:"go"`
	APIServer string `json:"apiServer"`
	Timings   string `json:"timings"`
	Sidecar   string `json:"sidecar"`
}

func describeHost(config *rest.Config, t timings, binary string) (host, error) {
	h := host{Date: time.Now().UTC().Format("2006-01-02 15:04Z"), CPU: cpuModel(), Cores: runtime.NumCPU(), Load: load(),
		Go: runtime.Version(), Timings: t.String(), Sidecar: binary}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return h, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return h, err
	}
	h.APIServer = version.GitVersion
	return h, nil
}

func (h host) String() string {
	return fmt.Sprintf("%s | %s, %d cores, load %s | %s | kube-apiserver %s, etcd | lease %s unless stated | %s",
		h.Date, h.CPU, h.Cores, h.Load, h.Go, h.APIServer, h.Timings, h.Sidecar)
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // elsewhere than on Linux there is none
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func load() string {
	averages, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(averages)); len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}
