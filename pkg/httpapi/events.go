// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// heartbeat is how often a stream with no news shows that it lives.
const heartbeat = 15 * time.Second

// events streams the answer of /leader as server-sent events: at once, and with each revision.
func (a *api) events(w http.ResponseWriter, r *http.Request) {
	a.stream(w, r, func(s elector.Status) []byte {
		return fmt.Appendf(nil, "event: leader\nid: %s\ndata: %s\n\n", s.Revision, encode(a.answer(s)))
	})
}

// stream sends what message makes of each revision, until the client goes or the election ends. Each client has a
// goroutine of its own, so one that does not read holds up nobody: its connection is closed when a write takes too long.
func (a *api) stream(w http.ResponseWriter, r *http.Request, message func(elector.Status) []byte) {
	if !noBody(w, r) || !a.admit(w) {
		return
	}
	defer a.waiters.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep the events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(ioTimeout))
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	status := a.election.Status()
	var last []byte
	for {
		if next := message(status); !bytes.Equal(next, last) {
			if !send(next) {
				return
			}
			last = next
		}
		if status.State == elector.Stopped {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), heartbeat)
		next, err := a.election.Wait(ctx, func(s elector.Status) bool { return s.Revision != status.Revision })
		cancel()
		switch {
		case r.Context().Err() != nil:
			return
		case err != nil && !send([]byte(": still here\n\n")):
			return
		case err == nil:
			status = next
		}
	}
}
