// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

const (
	retry = 2 * time.Second
	check = 15 * time.Second
)

// election is one that the test decides.
type election struct {
	mu      sync.Mutex
	status  elector.Status
	changed chan struct{}
}

func newElection() *election { return &election{changed: make(chan struct{})} }

// is makes this process lead with a token, or follow (0) a leader ("" for none).
func (e *election) is(token uint64, leader string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = elector.Status{FencingToken: token, IsLeader: token > 0, Leader: leader}
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *election) read() (elector.Status, chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status, e.changed
}

func (e *election) Status() elector.Status {
	status, _ := e.read()
	return status
}

func (e *election) Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error) {
	for {
		status, changed := e.read()
		if enough(status) {
			return status, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status, ctx.Err()
		}
	}
}

// board is a sign that keeps what was done with it. Whatever is done takes a while, or hangs.
type board struct {
	mu    sync.Mutex
	done  []string
	err   error
	takes time.Duration
}

func (b *board) act(ctx context.Context, what string, token uint64) error {
	b.mu.Lock()
	err, takes := b.err, b.takes
	b.mu.Unlock()
	what = fmt.Sprint(what, " ", token)
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		what, err = what+" cut off", ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, what)
	return err
}

func (b *board) Raise(ctx context.Context, token uint64) error { return b.act(ctx, "raise", token) }
func (b *board) Lower(ctx context.Context, token uint64) error { return b.act(ctx, "lower", token) }
func (b *board) Role() string                                  { return "{}" }
func (b *board) String() string                                { return "board" }

func (b *board) set(err error, takes time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.takes = err, takes
}

// stage is one sign that follows one election, in virtual time.
type stage struct {
	t *testing.T
	*election
	*board
	signs *Signs
	ctx   context.Context
	log   []string
}

// with runs a story; before is what is so when the sign begins to follow.
func with(t *testing.T, before func(*stage), story func(*stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, election: newElection(), board: &board{}}
		s.signs = New(retry, check, s.board)
		var logs sync.Mutex
		s.ctx = klog.NewContext(t.Context(), funcr.New(func(_, args string) {
			logs.Lock()
			defer logs.Unlock()
			s.log = append(s.log, args)
		}, funcr.Options{}))
		before(s)
		ctx, cancel := context.WithCancel(s.ctx)
		var running sync.WaitGroup
		running.Go(func() { s.signs.Run(ctx, s.election) })
		synctest.Wait()
		story(s)
		cancel()
		running.Wait()
	})
}

// did checks what was done since the last time.
func (s *stage) did(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if !slices.Equal(s.done, want) {
		s.t.Errorf("after %s of all it did %q; want %q", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), s.done, want)
	}
	s.done = nil
}

func nothing(*stage) {}

func TestSignFollowsTheElection(t *testing.T) {
	with(t, func(s *stage) { s.is(0, "other") }, func(s *stage) {
		s.did("lower 0")
		time.Sleep(10 * check)
		s.did() // a follower at rest
		s.is(5, "self")
		s.did("raise 5")
		time.Sleep(2*check + check/2)
		s.did("raise 5", "raise 5")
		s.is(0, "")
		s.did("lower 5")
		s.is(0, "other")
		time.Sleep(10 * check)
		s.did()
		s.is(7, "self")
		s.is(9, "self") // before anything could be done for 7
		s.did("raise 9")
	})
}

// A process that starts may be about to lead in the place of its predecessor, whose sign is up.
func TestSignAtTheStart(t *testing.T) {
	t.Run("resumes", func(t *testing.T) {
		with(t, nothing, func(s *stage) {
			s.did()
			time.Sleep(retry / 2)
			s.is(5, "self")
			s.did("raise 5")
		})
	})
	t.Run("does not", func(t *testing.T) {
		with(t, nothing, func(s *stage) {
			time.Sleep(retry - 1)
			s.did()
			time.Sleep(time.Nanosecond)
			s.did("lower 0")
		})
	})
}

func TestSignIsTriedAgain(t *testing.T) {
	broken := errors.New("broken")
	with(t, func(s *stage) {
		s.set(broken, 0)
		s.is(5, "self")
	}, func(s *stage) {
		s.did("raise 5")
		if trouble := s.signs.Troubles(); !errors.Is(trouble["board"], broken) || len(trouble) != 1 {
			t.Errorf("the troubles are %v", trouble)
		}
		time.Sleep(2 * retry)
		s.did("raise 5", "raise 5")
		s.is(0, "")
		s.did("lower 5")
		s.set(nil, 0)
		time.Sleep(retry)
		s.did("lower 5")
		if trouble := s.signs.Troubles(); trouble["board"] != nil {
			t.Errorf("the trouble stays: %v", trouble)
		}
		if len(s.log) != 2 || !strings.Contains(s.log[0], "broken") || !strings.Contains(s.log[1], "again") {
			t.Errorf("the log says %q", s.log)
		}
	})
}

// What is under way for a term that has ended is cut off, and is no trouble.
func TestRaisingIsCutOff(t *testing.T) {
	with(t, func(s *stage) {
		s.set(nil, time.Second)
		s.is(5, "self")
	}, func(s *stage) {
		time.Sleep(time.Second / 2)
		s.is(0, "")
		s.did("raise 5 cut off")
		time.Sleep(time.Second)
		s.did("lower 5")
		if trouble := s.signs.Troubles(); trouble["board"] != nil || len(s.log) > 0 {
			t.Errorf("the trouble is %v; the log says %q", trouble, s.log)
		}
	})
}

func TestARequestThatHangsIsGivenUp(t *testing.T) {
	with(t, func(s *stage) {
		s.set(nil, time.Hour)
		s.is(5, "self")
	}, func(s *stage) {
		time.Sleep(requestTime)
		s.did("raise 5 cut off")
		s.is(0, "")
		time.Sleep(requestTime)
		s.did("lower 5 cut off")
		if trouble := s.signs.Troubles(); trouble["board"] == nil {
			t.Error("it is no trouble")
		}
	})
}

func TestWithdraw(t *testing.T) {
	with(t, func(s *stage) { s.is(5, "self") }, func(s *stage) {
		s.did("raise 5")
		s.signs.Withdraw(s.ctx) // before the sign learns of it
		s.did("lower 5")
		s.is(0, "")
		s.did() // again
	})
}

// A failure that may pass is tried again while there is time, and one that will not is not.
func TestWithdrawIsTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"an outage":  {errors.New("connection refused"), []string{"lower 5", "lower 5", "lower 5"}},
		"500":        {apierrors.NewInternalError(errors.New("broken")), []string{"lower 5", "lower 5", "lower 5"}},
		"429":        {apierrors.NewTooManyRequests("busy", 1), []string{"lower 5", "lower 5", "lower 5"}},
		"forbidden":  {apierrors.NewForbidden(pods.GroupResource(), "web-0", nil), []string{"lower 5"}},
		"impossible": {apierrors.NewBadRequest("no"), []string{"lower 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(s *stage) { s.is(5, "self") }, func(s *stage) {
				s.did("raise 5")
				s.set(test.err, 0)
				ctx, cancel := context.WithTimeout(s.ctx, 5*withdrawRetry/2)
				defer cancel()
				s.signs.Withdraw(ctx)
				s.did(test.want...)
			})
		})
	}
}

// Withdraw ends with its context, whatever hangs: its own request, or one of the sign that it waits for.
func TestWithdrawIsNotHeldUp(t *testing.T) {
	for name, learned := range map[string]bool{"its own": false, "the sign's": true} {
		t.Run(name, func(t *testing.T) {
			with(t, func(s *stage) { s.is(5, "self") }, func(s *stage) {
				s.set(nil, time.Hour)
				if learned {
					s.is(0, "")
					synctest.Wait()
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(s.ctx, time.Second)
				defer cancel()
				s.signs.Withdraw(ctx)
				if took := time.Since(began); took != time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// The sign has seen that this process leads, and it does not any more when its turn comes: nothing is raised.
func TestNothingIsRaisedForATermThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := &board{}, newElection()
		p := New(retry, check, b).posts[0]
		e.is(7, "self")
		if err := p.show(t.Context(), e, 5); err != nil || len(b.done) > 0 {
			t.Errorf("it did %q, %v", b.done, err)
		}
	})
}
