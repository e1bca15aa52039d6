// SPDX-License-Identifier: Apache-2.0

// Package httpapi tells over HTTP what an elector knows. docs/http-api.md describes the routes.
package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// Election is the part of elector.Elector that the API reads.
type Election interface {
	Status() elector.Status
	Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error)
	Health() error
	Trouble() error
	Denied() []string
}

// Config says for whom the API speaks.
type Config struct {
	PodName string
	PodUID  string
	// Lease is namespace/name.
	Lease string
	// MaxWaiters is how many requests may block at once; one more is answered with 503.
	MaxWaiters int
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
	get := func(path string, handler http.HandlerFunc) { router.Handle(path, readOnly(handler)) }
	get("/", a.compatible)
	get("/leader", a.leader)
	get("/is-leader", a.isLeader)
	get("/wait", a.wait)
	get("/healthz", a.healthz)
	get("/readyz", a.readyz)
	get("/metrics", metrics(election, config).ServeHTTP)
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no %s; see docs/http-api.md for the routes", r.URL.Path))
	})
	return router
}

// readOnly answers GET and HEAD alone.
func readOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s answers GET and HEAD, not %s", r.URL.Path, r.Method))
			return
		}
		next(w, r)
	})
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
