// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// metrics serves the state of the election, read as it is scraped, from a registry of its own.
func metrics(election Election, config Config) http.Handler {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, labels prometheus.Labels, value func(elector.Status) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return value(election.Status()) }))
	}
	isLeader := func(s elector.Status) float64 {
		if s.IsLeader {
			return 1
		}
		return 0
	}
	gauge("elector_is_leader", "1 while this pod leads, else 0.", nil, isLeader)
	gauge("elector_term", "leaseTransitions of the Lease as last seen.", nil,
		func(s elector.Status) float64 { return float64(s.Term) })
	gauge("leader_election_master_status", "1 while this pod leads, else 0: the name that client-go's metric has.",
		prometheus.Labels{"name": path.Base(config.Lease)}, isLeader)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
