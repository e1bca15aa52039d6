// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

const (
	// slack is what a step may take beyond what it is made of, on a busy machine.
	slack = 2 * time.Second
	// startBound is how long the three may take to start and to elect.
	startBound = 15 * time.Second
	// noticeBound is how long a leader may take to see that its Lease is another's.
	noticeBound = time.Second

	intruder         = "intruder"
	intruderDuration = 2 * time.Second
)

// tour is the walk through what can happen to a leader.
type tour struct {
	options
	*crew
	cluster *cluster
	out     *printer

	leader *pod
	token  uint64 // the largest fencing token so far
	result table
}

// walk lets the three elect, and then takes the leader away in each of four ways.
func walk(ctx context.Context, o options, crew *crew, cluster *cluster, out *printer) error {
	t := &tour{options: o, crew: crew, cluster: cluster, out: out}
	for i, step := range []struct {
		title string
		take  func(context.Context) error
	}{
		{"Start: web-0, web-1 and web-2 contend for a free Lease.", t.begin},
		{"The leader is stopped in good order (SIGTERM): it releases the Lease.", t.stop},
		{"The leader is killed (SIGKILL): it has no chance to release the Lease.", t.crash},
		{"The leader is frozen (SIGSTOP), and wakes (SIGCONT) when another leads.", t.freeze},
		{"An intruder writes its own name over the leader's on the Lease, and never renews it.", t.rob},
	} {
		out.line("")
		out.line("%d. %s", i+1, step.title)
		if err := step.take(ctx); err != nil {
			return fmt.Errorf("step %d did not come true: %w", i+1, err)
		}
	}
	out.line("")
	for _, line := range t.result.headed("what happened", "from → to", "took", "what that is made of").lines() {
		out.line("%s", line)
	}
	out.line("")
	out.line("Checked at each step: just one of the pods said that it leads, the others named it, and its fencing token was")
	out.line("larger than every leader's before it.")
	printHints(out)
	return nil
}

func (t *tour) begin(ctx context.Context) error {
	begun := time.Now()
	if err := t.start(); err != nil {
		return err
	}
	next, after, err := t.await(ctx, begun, "waiting for a leader", startBound)
	if err != nil {
		return err
	}
	t.out.line("   %s leads, %s after the start.", next.Name, took(after))
	t.record("start, on a free Lease", "nobody", next.Name, after, "start of the processes + one write")
	return t.lookAround(ctx, next)
}

func (t *tour) stop(ctx context.Context) error {
	old := t.leader
	next, after, err := t.takeOver(ctx, syscall.SIGTERM, "waiting for the next leader", t.lease/2)
	if err != nil {
		return err
	}
	t.out.line("   %s leads, %s after the signal to %s.", next.Name, took(after), old.Name)
	t.record("stopped in good order", old.Name, next.Name, after, "release + watch event + one write")
	return t.bringBack(ctx, old, next, "exit status 0")
}

func (t *tour) crash(ctx context.Context) error {
	old := t.leader
	next, after, err := t.takeOver(ctx, syscall.SIGKILL, "waiting for the lease to expire", t.lease+slack)
	if err != nil {
		return err
	}
	t.out.line("   %s leads, %s after the signal to %s. The lease lasts %s from its last renewal.",
		next.Name, took(after), old.Name, t.lease)
	t.record("killed", old.Name, next.Name, after, t.expiry())
	return t.bringBack(ctx, old, next, "signal: killed")
}

func (t *tour) freeze(ctx context.Context) error {
	old := t.leader
	next, after, err := t.takeOver(ctx, syscall.SIGSTOP, "waiting for the lease to expire", t.lease+slack)
	if err != nil {
		return err
	}
	t.out.line("   %s leads, %s after %s was frozen.", next.Name, took(after), old.Name)
	t.record("frozen", old.Name, next.Name, after, t.expiry())

	said, after, err := t.wake(ctx, old)
	if err != nil {
		return err
	}
	t.out.line("   %s wakes. Its first answer, %s later: isLeader=%t, state=%s.", old.Name, took(after), said.IsLeader, said.State)
	if said.IsLeader {
		return fmt.Errorf("%s still says that it leads, and so does %s", old.Name, next.Name)
	}
	t.record("  and woken: first answer", old.Name, "not leader", after, "worked out as it is asked, not remembered")
	return t.lookAround(ctx, next)
}

// wake lets a frozen sidecar go on, and returns its answer to a request that has been waiting for that.
func (t *tour) wake(ctx context.Context, p *pod) (process.Leader, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, blocked+slack)
	defer cancel()
	first := make(chan answer, 1)
	go func() {
		said, err := p.Leader(ctx, "")
		first <- answer{Leader: said, at: time.Now(), err: err}
	}()
	time.Sleep(blocked)
	woken := time.Now()
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return process.Leader{}, 0, fmt.Errorf("waking %s: %w", p.Name, err)
	}
	a := <-first
	if a.err != nil {
		return a.Leader, 0, fmt.Errorf("%s woke and did not answer: %w", p.Name, a.err)
	}
	return a.Leader, a.at.Sub(woken), nil
}

func (t *tour) rob(ctx context.Context) error {
	old := t.leader
	q := ask(ctx, []*pod{old}, isNotLeader, blocked+requestTimeout+noticeBound, old.Name+" did not stop to lead")
	defer q.end()
	time.Sleep(blocked)
	sent, err := t.cluster.intrude(ctx, intruder, intruderDuration)
	if err != nil {
		return err
	}
	lost, err := q.next()
	if err != nil {
		return err
	}
	after := lost.at.Sub(sent)
	t.out.line("   %s says that it does not lead, %s after the intruder's write was sent.", old.Name, took(after))
	if after > noticeBound {
		return fmt.Errorf("%s was to notice within %s", old.Name, noticeBound)
	}
	t.record("Lease taken by an intruder", old.Name, intruder, after, "the intruder's write + watch event")
	if err := t.agree(ctx, intruder); err != nil {
		return err
	}

	next, after, err := t.await(ctx, sent, "waiting for the intruder's lease to expire", intruderDuration+slack)
	if err != nil {
		return err
	}
	t.out.line("   %s leads, %s after that write.", next.Name, took(after))
	t.record("  which is never renewed", intruder, next.Name, after,
		fmt.Sprintf("the intruder's own lease (%s) + one write", intruderDuration))
	return t.lookAround(ctx, next)
}

// expiry is what a takeover from a leader that cannot release is made of.
func (t *tour) expiry() string {
	return fmt.Sprintf("the lease (%s, renewed at most %s before) + one write", t.lease, t.retry)
}

// takeOver sends the leader a signal, and returns who leads next and how long after the signal.
func (t *tour) takeOver(ctx context.Context, signal syscall.Signal, waiting string, bound time.Duration) (*pod, time.Duration, error) {
	q := ask(ctx, t.without(t.leader), isLeader, blocked+bound, "no other pod came to lead")
	defer q.end()
	time.Sleep(blocked)
	sent := time.Now()
	if err := t.leader.Signal(signal); err != nil {
		return nil, 0, fmt.Errorf("signalling %s: %w", t.leader.Name, err)
	}
	defer t.out.counting(waiting)()
	first, err := q.next()
	return first.from, first.at.Sub(sent), err
}

// await returns who of the three leads next, and how long after an instant.
func (t *tour) await(ctx context.Context, since time.Time, waiting string, bound time.Duration) (*pod, time.Duration, error) {
	defer t.out.counting(waiting)()
	q := ask(ctx, t.pods, isLeader, bound, "no pod came to lead")
	defer q.end()
	first, err := q.next()
	return first.from, first.at.Sub(since), err
}

// bringBack starts the old leader's sidecar again, which has to have ended as it should.
func (t *tour) bringBack(ctx context.Context, old, next *pod, end string) error {
	soon, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	if _, err := old.Wait(soon); err != nil {
		return err
	}
	if how := old.HowEnded(); how != end {
		return fmt.Errorf("%s was to end with %q, and ended with %q", old.Name, end, how)
	}
	if err := t.restart(old); err != nil {
		return err
	}
	t.out.line("   %s has ended (%s) and is started again.", old.Name, end)
	return t.lookAround(ctx, next)
}

// lookAround makes sure that all agree on the new leader, and that its fencing token is larger than any before.
func (t *tour) lookAround(ctx context.Context, leader *pod) error {
	if err := t.agree(ctx, leader.Name); err != nil {
		return err
	}
	said, err := leader.Leader(ctx, "")
	if err != nil {
		return err
	}
	if said.FencingToken <= t.token {
		return fmt.Errorf("the fencing token of %s is %d, and an earlier leader had %d", leader.Name, said.FencingToken, t.token)
	}
	t.leader, t.token = leader, said.FencingToken
	return nil
}

// agree waits until all three name the leader, and then makes sure that it alone says that it leads; none of them does
// while the leader is the intruder.
func (t *tour) agree(ctx context.Context, leader string) error {
	q := ask(ctx, t.pods, func(l process.Leader) bool { return l.Name == leader }, slack, "not all three came to name "+leader)
	if err := q.all(); err != nil {
		return err
	}
	var wrong error
	for _, p := range t.pods {
		said, err := p.Leader(ctx, "")
		if err != nil {
			return err
		}
		t.out.line("   %s", described(said))
		if said.Name != leader || said.IsLeader != (p.Name == leader) {
			wrong = fmt.Errorf("%s says isLeader=%t and names %q, while %s is the leader", p.Name, said.IsLeader, said.Name, leader)
		}
	}
	return wrong
}

// described is an answer of /leader in one line.
func described(l process.Leader) string {
	line := fmt.Sprintf("  %s  leader=%s  isLeader=%-5t", l.PodName, l.Name, l.IsLeader)
	if l.IsLeader {
		line += fmt.Sprintf("  fencingToken=%d  validForMs=%d", l.FencingToken, l.ValidForMs)
	}
	return line
}

func (t *tour) record(what, from, to string, after time.Duration, madeOf string) {
	t.result = append(t.result, []string{what, from + " → " + to, took(after), madeOf})
}
