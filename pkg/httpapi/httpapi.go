// SPDX-License-Identifier: Apache-2.0

// Package httpapi tells over HTTP what an elector knows. docs/http-api.md describes the routes.
package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// Election is the part of elector.Elector that the API needs.
type Election interface {
	Status() elector.Status
	Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error)
	Health() error
	Trouble() error
	Denied() []string
	Release(ctx context.Context) error
	Resign(ctx context.Context, cooldown time.Duration) error
}

// Config says for whom the API speaks.
type Config struct {
	PodName string
	PodUID  string
	// Lease is namespace/name.
	Lease string
	// Cooldown is how long a leader stays out after it resigned, where the request does not say.
	Cooldown time.Duration
	// MaxWaiters is how many requests may block at once; one more is answered with 503.
	MaxWaiters int
	// Nais adds last_update to the answer of / and serves /sse, as nais/elector does.
	Nais bool
	// Metrics are what /metrics serves beside the state of the election. It may be nil.
	Metrics *Metrics
	// AppHealth is whether the election depends on the app's health.
	AppHealth bool
	// Signs are what shows the leader in the cluster, by name, and what is wrong with each. It may be nil.
	Signs func() map[string]error
}

type api struct {
	Config
	election Election
	waiters  atomic.Int64
}

// New returns the handler of all routes.
func New(election Election, config Config) http.Handler {
	a := &api{Config: config, election: election}
	router := mux.NewRouter().SkipClean(true)
	get := func(path string, handler http.HandlerFunc) {
		router.Handle(path, only(handler, http.MethodGet, http.MethodHead))
	}
	get("/", a.compatible)
	get("/leader", a.leader)
	get("/is-leader", a.isLeader)
	get("/wait", a.wait)
	get("/events", a.events)
	if config.Nais {
		get("/sse", a.naisEvents)
	}
	get("/healthz", a.healthz)
	get("/readyz", a.readyz)
	get("/metrics", a.metrics(config.Metrics))
	router.Handle("/resign", only(fromThisPod(a.resign), http.MethodPost))
	router.Handle("/release", only(fromThisPod(a.release), http.MethodPost))
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no %s; see docs/http-api.md for the routes", r.URL.Path))
	})
	return router
}

// only answers the given methods alone.
func only(next http.HandlerFunc, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			problem(w, http.StatusMethodNotAllowed,
				fmt.Sprintf("%s answers %s, not %s", r.URL.Path, strings.Join(methods, " and "), r.Method))
			return
		}
		next(w, r)
	})
}

// fromThisPod answers callers on the loopback interface alone: what it guards is not for other pods to decide.
func fromThisPod(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !caller.Addr().Unmap().IsLoopback() {
			problem(w, http.StatusForbidden, fmt.Sprintf("%s answers callers on the loopback interface, not %s", r.URL.Path, r.RemoteAddr))
			return
		}
		next(w, r)
	}
}

// NewServer returns a server whose clients, slow or stalled, cost a connection for a bounded time. A blocked request
// lives as long as it waits: only the reading of its header and the writing of its answer are timed.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           timed(handler),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// ioTimeout is how long a client may take to send a body, or to take an answer.
const ioTimeout = 10 * time.Second

// timed gives each request its own deadlines: those of a whole server would cut blocked requests short.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ioTimeout))
		}
		next.ServeHTTP(&timedWriter{ResponseWriter: w}, r)
	})
}

// timedWriter starts the write deadline when the answer begins.
type timedWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *timedWriter) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

func (w *timedWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *timedWriter) begin() {
	if !w.begun {
		w.begun = true
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(ioTimeout))
	}
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// podOf is the pod's name in a holderIdentity: what stands before the first "_".
func podOf(identity string) string {
	name, _, _ := strings.Cut(identity, "_")
	return name
}
