// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Observer is told of what happens in an election, for metrics: what is the case at an instant is in Status. The
// elector's goroutines call its methods, several at once, and wait for them: they must be quick, must not block, and must
// not call the Elector.
type Observer interface {
	// Requested: a request with this verb (create, get, list, update or watch) was answered with this HTTP status code,
	// or with none: 0. A watch is answered when it begins.
	Requested(verb string, code int)
	// WatchEnded: a watch that had begun is over, and another has to begin.
	WatchEnded()
	// Renewed: a renewal of the lease succeeded, and took so long from before it was sent.
	Renewed(took time.Duration)
	// TookOver: this process leads now. Until then no leader had been known for so long.
	TookOver(leaderless time.Duration)
	// HandedOver: a handover by this process is over, which began so long ago when it stepped down: the lease is released
	// or taken, or cannot be released.
	HandedOver(took time.Duration)
}

// noObserver is for Config without one.
type noObserver struct{}

func (noObserver) Requested(string, int)    {}
func (noObserver) WatchEnded()              {}
func (noObserver) Renewed(time.Duration)    {}
func (noObserver) TookOver(time.Duration)   {}
func (noObserver) HandedOver(time.Duration) {}

// answered takes in how a request with this verb ended, and tells whether it was forbidden.
func (d *driver) answered(verb string, err error) bool {
	d.config.Observer.Requested(verb, statusCode(verb, err))
	return d.reach.note(verb, err)
}

// statusCode is the HTTP status code of an answer, 0 where there was none.
func statusCode(verb string, err error) int {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil && verb == "create":
		return http.StatusCreated
	case err == nil:
		return http.StatusOK
	case errors.As(err, &status):
		return int(status.Status().Code)
	}
	return 0
}

// watchEnded tells of the end of a watch, but not of the last one.
func (d *driver) watchEnded() {
	if d.ctx.Err() == nil {
		d.config.Observer.WatchEnded()
	}
}

// stepped tells what a step of the machine has come to, from the given state. No leader had been known before it for so
// long.
func (d *driver) stepped(now Instant, in input, from State, leaderless time.Duration) {
	if w, ok := in.(written); ok && w.write.purpose == renewing {
		d.config.Observer.Renewed(now.Boot - w.write.sent.Boot)
	}
	switch to := d.machine.state; {
	case from == to:
	case to == Leading:
		d.config.Observer.TookOver(leaderless)
	case from == Leading && to == HandingOver:
		d.steppedDown = &now
	case from == HandingOver && d.steppedDown != nil:
		d.config.Observer.HandedOver(now.Boot - d.steppedDown.Boot)
		d.steppedDown = nil
	}
}
