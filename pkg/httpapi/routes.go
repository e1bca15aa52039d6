// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// leaderAnswer is the body of /leader. Its times are written as on the Lease.
type leaderAnswer struct {
	Name         string `json:"name"`
	Identity     string `json:"identity"`
	Address      string `json:"address,omitempty"`
	IsLeader     bool   `json:"isLeader"`
	State        string `json:"state"`
	PodName      string `json:"podName"`
	PodUID       string `json:"podUID"`
	Lease        string `json:"lease"`
	Term         int32  `json:"term"`
	FencingToken uint64 `json:"fencingToken"`
	ValidForMs   int64  `json:"validForMs"`
	AcquireTime  string `json:"acquireTime,omitempty"`
	RenewTime    string `json:"renewTime,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Revision     string `json:"revision"`
}

func (c *Config) answer(s elector.Status) leaderAnswer {
	address := ""
	if s.Address.IsValid() {
		address = s.Address.String()
	}
	return leaderAnswer{
		Address:      address,
		Name:         podOf(s.Leader),
		Identity:     s.Leader,
		IsLeader:     s.IsLeader,
		State:        s.State.String(),
		PodName:      c.PodName,
		PodUID:       c.PodUID,
		Lease:        c.Lease,
		Term:         s.Term,
		FencingToken: s.FencingToken,
		ValidForMs:   s.ValidFor.Milliseconds(),
		AcquireTime:  leaseTime(s.AcquireTime),
		RenewTime:    leaseTime(s.RenewTime),
		Reason:       s.Reason,
		Revision:     s.Revision,
	}
}

// Leader is what /leader answers while the status is s.
func (c *Config) Leader(s elector.Status) []byte { return encode(c.answer(s)) }

func leaseTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

func (a *api) leader(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "revision", "wait")
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	status := a.election.Status()
	if !q.has("revision") && !q.has("wait") {
		writeJSON(w, http.StatusOK, a.answer(status))
		return
	}
	wait, err := q.duration("wait", defaultWait, maxWait)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	known := status.Revision
	if q.has("revision") {
		known = q.get("revision")
	}
	status, ok := a.block(w, r, wait, func(s elector.Status) bool {
		return s.Revision != known || s.State == elector.Stopped
	})
	if ok {
		writeJSON(w, http.StatusOK, a.answer(status))
	}
}

func (a *api) isLeader(w http.ResponseWriter, _ *http.Request) {
	if a.election.Status().IsLeader {
		writeText(w, http.StatusOK, "leading\n")
	} else {
		writeText(w, http.StatusServiceUnavailable, "not leading\n")
	}
}

func (a *api) wait(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "for", "timeout")
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	wanted := q.get("for")
	if wanted != "leading" && wanted != "not-leading" {
		problem(w, http.StatusBadRequest, fmt.Sprintf("for is %q; it must be leading or not-leading", wanted))
		return
	}
	timeout, err := q.duration("timeout", defaultWait, maxWait)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	met := func(s elector.Status) bool { return s.IsLeader == (wanted == "leading") }
	status, ok := a.block(w, r, timeout, func(s elector.Status) bool { return met(s) || s.Stopping })
	switch {
	case !ok:
	case met(status):
		writeJSON(w, http.StatusOK, a.answer(status))
	case status.Stopping:
		problem(w, http.StatusServiceUnavailable, "the sidecar is stopping; this pod will not lead")
	default:
		problem(w, http.StatusGatewayTimeout, fmt.Sprintf("%s did not come true within %s", wanted, timeout))
	}
}

// resign makes this pod's leader step down.
func (a *api) resign(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r, "cooldown", "wait")
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	cooldown, err := q.duration("cooldown", a.Cooldown, maxCooldown)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	wait, err := q.duration("wait", 0, maxWait)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	status := a.election.Status()
	if !status.IsLeader {
		problem(w, http.StatusConflict, fmt.Sprintf("this pod does not lead; its state is %s", status.State))
		return
	}
	token := status.FencingToken
	if err := a.election.Resign(r.Context(), cooldown); err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	if !q.has("wait") {
		writeJSON(w, http.StatusAccepted, a.answer(a.election.Status()))
		return
	}
	followed := func(s elector.Status) bool { return s.Leader != "" && s.FencingToken != token }
	status, ok := a.block(w, r, wait, func(s elector.Status) bool { return followed(s) || s.Stopping })
	switch {
	case !ok:
	case followed(status) && !status.IsLeader:
		writeJSON(w, http.StatusOK, a.answer(status))
	default:
		problem(w, http.StatusGatewayTimeout, fmt.Sprintf("no other pod leads %s after the resignation", wait))
	}
}

// release is the app saying that its work as the leader has stopped.
func (a *api) release(w http.ResponseWriter, r *http.Request) {
	status := a.election.Status()
	if status.State != elector.HandingOver {
		problem(w, http.StatusConflict, fmt.Sprintf("nothing is handed over; the state is %s", status.State))
		return
	}
	if err := a.election.Release(r.Context()); err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	writeJSON(w, http.StatusAccepted, a.answer(status))
}

// block waits until enough is true of the status or the time is over, and returns the status of then. The result is
// false where there is nothing left to answer: the request was one too many, or its client has gone.
func (a *api) block(w http.ResponseWriter, r *http.Request, wait time.Duration, enough func(elector.Status) bool) (elector.Status, bool) {
	status := a.election.Status()
	if enough(status) || wait == 0 {
		return status, true
	}
	if !noBody(w, r) || !a.admit(w) {
		return status, false
	}
	defer a.waiters.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	status, _ = a.election.Wait(ctx, enough)
	return status, r.Context().Err() == nil
}

// noBody reads the body that a waiting request should not have: net/http notices that a client has gone only once
// there is nothing left to read. It is false where that was answered as an error.
func noBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	const most = 64 << 10
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, most)); err != nil {
		problem(w, http.StatusBadRequest, fmt.Sprintf("the body cannot be read: %v; send none", err))
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it was for the body
	return true
}

// admit counts a request among those that wait, or refuses it. Who is admitted has to be counted out again.
func (a *api) admit(w http.ResponseWriter) bool {
	if a.waiters.Add(1) <= int64(a.MaxWaiters) {
		return true
	}
	a.waiters.Add(-1)
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests are waiting already; ELECTOR_MAX_WAITERS allows no more", a.MaxWaiters))
	return false
}

func (a *api) healthz(w http.ResponseWriter, r *http.Request) {
	err := a.election.Health()
	if r.URL.Query().Has("verbose") {
		a.verbose(w, err)
		return
	}
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

// verbose lists the checks as Kubernetes components do. Only the first decides about the status code: the others are
// about the API server, and restarting a sidecar does not mend that.
func (a *api) verbose(w http.ResponseWriter, health error) {
	var out strings.Builder
	line := func(name string, err error) {
		if err != nil {
			fmt.Fprintf(&out, "[-]%s: %v\n", name, err)
		} else {
			fmt.Fprintf(&out, "[+]%s ok\n", name)
		}
	}
	line("election", health)
	line("api-server", a.election.Trouble())
	var denied error
	if verbs := a.election.Denied(); len(verbs) > 0 {
		denied = fmt.Errorf("the Role lacks %s on leases for %s", strings.Join(verbs, ", "), a.Lease)
	}
	line("permissions", denied)
	if a.Signs != nil {
		signs := a.Signs()
		for _, name := range slices.Sorted(maps.Keys(signs)) {
			line(name, signs[name])
		}
	}
	code := http.StatusOK
	if health != nil {
		code = http.StatusServiceUnavailable
	}
	writeText(w, code, out.String())
}

func (a *api) readyz(w http.ResponseWriter, _ *http.Request) {
	switch status := a.election.Status(); {
	case status.Stopping:
		problem(w, http.StatusServiceUnavailable, "the sidecar is stopping")
	case status.Known:
		writeText(w, http.StatusOK, "ok\n")
	default:
		detail := "lease " + a.Lease + " has not been read yet"
		if err := a.election.Trouble(); err != nil {
			detail += ": " + err.Error()
		}
		problem(w, http.StatusServiceUnavailable, detail)
	}
}
