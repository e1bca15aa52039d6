// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// recorder keeps a journal for each name that is written to.
type recorder struct {
	id       string
	mu       sync.Mutex
	journals map[string]*journal.Keeper
}

func newRecorder() http.Handler {
	r := &recorder{id: fmt.Sprintf("%d-%d", os.Getpid(), journal.SinceBoot()), journals: map[string]*journal.Keeper{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /journals/{name}", r.add)
	mux.HandleFunc("GET /journals/{name}", r.get)
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func (r *recorder) keeper(name string) *journal.Keeper {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.journals[name]
	if k == nil {
		k = &journal.Keeper{}
		r.journals[name] = k
	}
	return k
}

// add answers 204, or 409 where the beat is of the past.
func (r *recorder) add(w http.ResponseWriter, req *http.Request) {
	var b journal.Beat
	if err := json.NewDecoder(req.Body).Decode(&b); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !r.keeper(req.PathValue("name")).Add(b) {
		http.Error(w, "a later leader has written", http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// get answers with the journal from the entry with the number in the parameter "from" on.
func (r *recorder) get(w http.ResponseWriter, req *http.Request) {
	from, _ := strconv.Atoi(req.FormValue("from"))
	reply(w, http.StatusOK, journal.Journal{Recorder: r.id, Boot: journal.Boot(), Entries: r.keeper(req.PathValue("name")).From(from)})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
