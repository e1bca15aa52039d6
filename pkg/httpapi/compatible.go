// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// compatibleAnswer is the body of /, as clients of the retired leader-elector image read it. Those of nais/elector find
// last_update in it, too.
type compatibleAnswer struct {
	Name       string `json:"name"`
	LastUpdate string `json:"last_update,omitempty"`
}

func (a *api) compatibleAnswer(s elector.Status) compatibleAnswer {
	answer := compatibleAnswer{Name: podOf(s.Leader)}
	if a.Nais {
		answer.LastUpdate = lastUpdate(s).UTC().Format(time.RFC3339)
	}
	return answer
}

// lastUpdate is since when it is as it is, as the Lease tells: since when the leader leads, or the lease is free.
func lastUpdate(s elector.Status) time.Time {
	if s.Leader == "" {
		return s.RenewTime
	}
	return s.AcquireTime
}

func (a *api) compatible(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, a.compatibleAnswer(a.election.Status()))
}

// naisEvents streams the body of / at once and when it changes.
func (a *api) naisEvents(w http.ResponseWriter, r *http.Request) {
	a.stream(w, r, func(s elector.Status) []byte {
		return fmt.Appendf(nil, "data: %s\n\n", encode(a.compatibleAnswer(s)))
	})
}
