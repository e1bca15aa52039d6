// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
)

// crewSize is a leader and two standbys.
const crewSize = 3

// crew is some contenders of one kind for one Lease, the leader first.
type crew struct {
	start   starter
	kind    string
	lease   string
	timings timings
	members []*contender
	born    int
}

// newCrew starts a crew of the given size on a Lease of its own. The caller has to dismiss it, also after an error.
func newCrew(ctx context.Context, kind string, start starter, t timings, size int) (*crew, error) {
	w := &crew{start: start, kind: kind, lease: "bench-" + kind + "-" + rand.String(6), timings: t}
	for range size {
		if err := w.recruit(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// recruit starts one more member, and waits until that one leads, if it is the first, or follows.
func (w *crew) recruit(ctx context.Context) error {
	w.born++
	name := fmt.Sprintf("%s-%d", w.kind, w.born)
	c, err := w.start(ctx, w.lease, name, "uid-"+name, w.timings)
	if err != nil {
		return err
	}
	w.members = append(w.members, c)
	if len(w.members) == 1 {
		_, err = c.await(ctx, "leading", c.leads, patience)
		return err
	}
	return c.isReady(ctx)
}

// successor waits until a standby tells that it leads, and makes it the leader in place of the first member.
func (w *crew) successor(ctx context.Context, within time.Duration) (*contender, time.Time, error) {
	if len(w.members) != crewSize {
		return nil, time.Time{}, errors.New("a crew is a leader and two standbys")
	}
	a, b := w.members[1], w.members[2]
	select {
	case at := <-a.leads:
		w.members = []*contender{a, b}
		return a, at, nil
	case at := <-b.leads:
		w.members = []*contender{b, a}
		return b, at, nil
	case <-time.After(within):
		return nil, time.Time{}, fmt.Errorf("%s: no standby leads within %s:\n%s\n%s", w.kind, within, a.log(), b.log())
	case <-ctx.Done():
		return nil, time.Time{}, ctx.Err()
	}
}

// dismiss ends every member.
func (w *crew) dismiss() {
	if w == nil {
		return
	}
	for _, c := range w.members {
		c.kill()
	}
	w.members = nil
}
