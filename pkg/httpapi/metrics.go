// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"math"
	"net/http"
	"path"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// The upper bounds of what is timed, in seconds: few, since each is a series of every pod.
var (
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	changeBuckets  = []float64{.01, .025, .05, .1, .5, 1, 5, 15, 60}
)

// noCode is the code of a request that was not answered: client-go's word for it.
const noCode = "<error>"

// Metrics counts what happens in an election: it is an elector.Observer. docs/metrics.md describes what is served.
type Metrics struct {
	requests      *prometheus.CounterVec
	watchRestarts prometheus.Counter
	renewals      prometheus.Histogram
	takeovers     prometheus.Histogram
	handovers     prometheus.Histogram
	buildInfo     prometheus.Gauge
}

var _ elector.Observer = (*Metrics)(nil)

// NewMetrics returns metrics of one election, to be given to elector.Config and to Config.
func NewMetrics(version string) *Metrics {
	timing := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "elector_api_requests_total",
			Help: "Requests for the Lease to the API server, by verb and status code, or " + noCode + " without an answer."},
			[]string{"verb", "code"}),
		watchRestarts: prometheus.NewCounter(prometheus.CounterOpts{Name: "elector_watch_restarts_total",
			Help: "Watches of the Lease that ended, so that another had to begin."}),
		renewals: timing("elector_renewal_duration_seconds",
			"Time from before a renewal of the lease was sent to its success.", requestBuckets),
		takeovers: timing("elector_takeover_duration_seconds",
			"Time for which no leader had been known when this pod began to lead.", changeBuckets),
		handovers: timing("elector_handover_duration_seconds",
			"Time from this pod's stepping down to the release of the lease, or to the end of the attempt.", changeBuckets),
		buildInfo: prometheus.NewGauge(prometheus.GaugeOpts{Name: "elector_build_info",
			Help:        "Always 1; the labels say what runs.",
			ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}}),
	}
	m.buildInfo.Set(1)
	return m
}

// Requested implements elector.Observer.
func (m *Metrics) Requested(verb string, code int) {
	label := noCode
	if code != 0 {
		label = strconv.Itoa(code)
	}
	m.requests.WithLabelValues(verb, label).Inc()
}

// WatchEnded implements elector.Observer.
func (m *Metrics) WatchEnded() { m.watchRestarts.Inc() }

// Renewed implements elector.Observer.
func (m *Metrics) Renewed(took time.Duration) { m.renewals.Observe(took.Seconds()) }

// TookOver implements elector.Observer.
func (m *Metrics) TookOver(leaderless time.Duration) { m.takeovers.Observe(leaderless.Seconds()) }

// HandedOver implements elector.Observer.
func (m *Metrics) HandedOver(took time.Duration) { m.handovers.Observe(took.Seconds()) }

// metrics serves the metrics from a registry of its own.
func (a *api) metrics(m *Metrics) http.HandlerFunc {
	if m == nil {
		m = NewMetrics("")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.watchRestarts, m.renewals, m.takeovers, m.handovers, m.buildInfo, a.collector())
	// A compressor takes a megabyte, which is more than it saves here.
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		handler.ServeHTTP(w, r)
	}
}

// collector tells how things are as it is asked, all from one status.
type collector struct {
	election Election
	readings []reading
	mu       sync.Mutex
	total    time.Duration // without a leader, as last told
}

// reading is one metric of a collector.
type reading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(elector.Status) float64 // NaN where there is nothing to tell
}

func (a *api) collector() *collector {
	c := &collector{election: a.election}
	add := func(kind prometheus.ValueType, name, help string, labels prometheus.Labels, value func(elector.Status) float64) {
		c.readings = append(c.readings, reading{prometheus.NewDesc(name, help, nil, labels), kind, value})
	}
	gauge := func(name, help string, value func(elector.Status) float64) {
		add(prometheus.GaugeValue, name, help, nil, value)
	}
	counter := func(name, help string, value func(elector.Status) float64) {
		add(prometheus.CounterValue, name, help, nil, value)
	}
	isLeader := func(s elector.Status) float64 { return oneIf(s.IsLeader) }

	gauge("elector_is_leader", "1 while this pod leads, else 0.", isLeader)
	add(prometheus.GaugeValue, "leader_election_master_status", "1 while this pod leads, else 0: the name that client-go's metric has.",
		prometheus.Labels{"name": path.Base(a.Lease)}, isLeader)
	gauge("elector_term", "leaseTransitions of the Lease as last seen.",
		func(s elector.Status) float64 { return float64(s.Term) })
	counter("elector_leader_transitions_total", "Leaders that this pod has seen after the first.",
		func(s elector.Status) float64 { return float64(s.Transitions) })
	gauge("elector_renewal_age_seconds", "Time since the lease was last renewed, as seen by this pod; absent while nobody holds it.",
		func(s elector.Status) float64 {
			if s.RenewalAge == 0 {
				return math.NaN()
			}
			return s.RenewalAge.Seconds()
		})
	gauge("elector_leaderless_current_seconds", "Time for which this pod has known no leader now, 0 while it knows one.",
		func(s elector.Status) float64 { return s.LeaderlessFor.Seconds() })
	counter("elector_leaderless_seconds_total", "Time for which this pod has known no leader, since it was started.",
		c.leaderless)
	gauge("elector_waiters", "Requests and streams that wait for a change.",
		func(elector.Status) float64 { return float64(a.waiters.Load()) })
	if a.AppHealth {
		gauge("elector_app_healthy", "1 while the app is healthy, else 0.",
			func(s elector.Status) float64 { return oneIf(!s.Unhealthy) })
	}
	return c
}

// leaderless never goes back, as a counter must not. LeaderlessTotal can, by an instant: the elector publishes a step as
// of when the step began, and a status that was read meanwhile counts further than that.
func (c *collector) leaderless(s elector.Status) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total = max(c.total, s.LeaderlessTotal)
	return c.total.Seconds()
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, r := range c.readings {
		to <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	status := c.election.Status()
	for _, r := range c.readings {
		if value := r.value(status); !math.IsNaN(value) {
			to <- prometheus.MustNewConstMetric(r.desc, r.kind, value)
		}
	}
}
