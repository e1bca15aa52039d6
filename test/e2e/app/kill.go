// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// sidecar is the command name of the sidecar's process.
const sidecar = "elector-sidecar"

// killer ends processes among those of a /proc.
type killer struct{ proc string }

// serve sends SIGKILL, or the signal whose number is in the parameter "signal", to the sidecar's process, to the app's own,
// or to both. The containers share one PID namespace and run as one user. It answers 202 first, since it may not live to do
// so later.
func (k killer) serve(w http.ResponseWriter, req *http.Request) {
	signal := syscall.SIGKILL
	if number := req.FormValue("signal"); number != "" {
		n, err := strconv.Atoi(number)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		signal = syscall.Signal(n)
	}
	var victims []int
	who := req.PathValue("who")
	if who == "sidecar" || who == "both" {
		victims = processes(k.proc, sidecar)
		if len(victims) == 0 {
			http.Error(w, "there is no process "+sidecar, http.StatusNotFound)
			return
		}
	}
	if who == "app" || who == "both" {
		victims = append(victims, os.Getpid())
	}
	if len(victims) == 0 {
		http.Error(w, fmt.Sprintf("%q: it can be sidecar, app or both", who), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush()
	for _, pid := range victims {
		log.Printf("%s to process %d: %v", signal, pid, syscall.Kill(pid, signal))
	}
}

// processes is the processes with that command name.
func processes(proc, name string) (pids []int) {
	comms, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	for _, path := range comms {
		comm, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
