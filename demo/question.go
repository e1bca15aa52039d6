// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

func isLeader(l process.Leader) bool    { return l.IsLeader }
func isNotLeader(l process.Leader) bool { return !l.IsLeader }

// blocked is how long requests are given to get to where they block, before what they wait for is caused.
const blocked = 100 * time.Millisecond

// question is put to some pods by requests that block until there is something to tell.
type question struct {
	answers chan answer
	ctx     context.Context //nolint:containedctx // a question lives within one function call
	cancel  context.CancelFunc
	asking  sync.WaitGroup
}

type answer struct {
	process.Leader
	from *pod
	at   time.Time
	err  error
}

// ask asks the pods until the answer is as wanted, for as long as bound; tooLate is what is wrong after that.
func ask(ctx context.Context, pods []*pod, wanted func(process.Leader) bool, bound time.Duration, tooLate string) *question {
	q := &question{answers: make(chan answer, len(pods))}
	q.ctx, q.cancel = context.WithTimeoutCause(ctx, bound, fmt.Errorf("%s within %s", tooLate, bound))
	for _, p := range pods {
		sidecar := p.Sidecar
		q.asking.Go(func() {
			said, err := sidecar.Await(q.ctx, wanted)
			q.answers <- answer{Leader: said, from: p, at: time.Now(), err: err}
		})
	}
	return q
}

// next returns the next answer to come. A pod that cannot answer is an error.
func (q *question) next() (answer, error) {
	a := <-q.answers
	if how := a.from.HowEnded(); a.err != nil && how != "" {
		return a, fmt.Errorf("%s ended (%s)", a.from.Name, how)
	}
	if late := context.Cause(q.ctx); a.err != nil && late != nil {
		return a, late
	}
	return a, a.err
}

// all waits for every answer, and ends the question.
func (q *question) all() error {
	defer q.end()
	for range cap(q.answers) {
		if _, err := q.next(); err != nil {
			return err
		}
	}
	return nil
}

// end takes back what has not been answered.
func (q *question) end() {
	q.cancel()
	q.asking.Wait()
}
