// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// settings are how the app is to behave, from the environment.
type settings struct {
	startDelay, exitAfter time.Duration // exitAfter: 0 is never
	ignoreTerm            bool
}

// runApp runs the app until it is told to stop and has done its work.
//
//	SIDECAR_URL         where the sidecar is (http://localhost:4040)
//	RECORDER_URL        where beats are written
//	POD_NAME, POD_UID   of this pod
//	APP_BEAT            time between two beats (20ms)
//	APP_DRAIN           for how long it goes on working once told to stop (0s)
//	APP_HANDOVER        for how long its sidecar keeps the lease for it to finish: ELECTOR_HANDOVER_TIMEOUT (0s)
//	APP_RESIGN          where not empty it resigns as soon as it is told to stop
//	APP_IGNORE_SIGTERM  where not empty it is not told by SIGTERM
//	APP_START_DELAY     time from its start until it serves and asks for the leader (0s)
//	APP_EXIT_AFTER      time from its start until it exits with an error (0s: never)
func runApp() error {
	var s settings
	w := &worker{leadership: newLeadership(cmp.Or(os.Getenv("SIDECAR_URL"), "http://localhost:4040")), journal: os.Getenv("RECORDER_URL"),
		pod: os.Getenv("POD_NAME"), uid: os.Getenv("POD_UID"), process: int64(journal.SinceBoot())}
	w.resign = os.Getenv("APP_RESIGN") != ""
	s.ignoreTerm = os.Getenv("APP_IGNORE_SIGTERM") != ""
	var problems error
	for name, d := range map[string]*time.Duration{
		"APP_BEAT": &w.period, "APP_DRAIN": &w.drain, "APP_HANDOVER": &w.handover, "APP_START_DELAY": &s.startDelay, "APP_EXIT_AFTER": &s.exitAfter,
	} {
		var err error
		*d, err = duration(name, *d)
		problems = errors.Join(problems, err)
	}
	if problems != nil {
		return problems
	}
	w.period = cmp.Or(w.period, 20*time.Millisecond)

	ctx, stop := untilTold()
	defer stop()
	if s.ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
		ctx = context.Background()
	}
	if s.exitAfter > 0 {
		time.AfterFunc(s.exitAfter, func() { log.Fatalf("exits, as APP_EXIT_AFTER=%s asks", s.exitAfter) })
	}
	started := time.Now()
	if sleep(ctx, s.startDelay); ctx.Err() != nil {
		return nil
	}
	server, err := listen(":8080", newPort(w, started, killer{"/proc"}))
	if err != nil {
		return err
	}
	following, end := context.WithCancel(context.Background()) // also while the app drains
	defer end()
	go w.leadership.follow(following)
	w.run(ctx)
	return server.Close()
}

// newPort is what the app answers: its service, its probes, and what the tests ask of it.
func newPort(w *worker, started time.Time, k killer) http.Handler {
	serving, sick := time.Now(), atomic.Bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		token, code := w.leads(), http.StatusOK
		if token == 0 {
			code = http.StatusServiceUnavailable
		}
		reply(rw, code, journal.Answer{Pod: w.pod, Token: token, Leading: token != 0})
	})
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /status", func(rw http.ResponseWriter, _ *http.Request) {
		reply(rw, http.StatusOK, journal.Status{Process: w.process, Started: started, Serving: serving})
	})
	mux.HandleFunc("POST /sick", func(http.ResponseWriter, *http.Request) { sick.Store(true) })
	mux.HandleFunc("POST /well", func(http.ResponseWriter, *http.Request) { sick.Store(false) })
	mux.HandleFunc("POST /kill/{who}", k.serve)
	mux.HandleFunc("POST /resign", func(rw http.ResponseWriter, req *http.Request) {
		response, err := w.leadership.post(req.Context(), "resign", req.URL.RawQuery)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		rw.WriteHeader(response.StatusCode)
		_, _ = io.Copy(rw, response.Body)
	})
	return mux
}
