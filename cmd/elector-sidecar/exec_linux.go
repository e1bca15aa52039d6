// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// slack is how long the watchdog may be late with what has no deadline but COMMAND's patience.
const slack = time.Second

// executor runs a command while this pod leads.
type executor struct {
	command  []string
	deadline time.Duration // renew deadline
	patience time.Duration // how long the command may take to end
	pace     time.Duration // at which the deadline is passed on
	warning  time.Duration // how long before it the command is told to end
	late     time.Duration // after it, when the watchdog is not waited for any more

	stop func(error) // ends the election

	mu       sync.Mutex // held while children are started or reaped
	current  *charge    // what runs now
	stopping os.Signal
	over     bool // nothing is started any more
	code     int
}

func newWork(cfg *config, command []string) (work, error) {
	lease, renew, retry := cfg.LeaseDuration.Duration, cfg.RenewDeadline.Duration, cfg.RetryPeriod.Duration
	x := &executor{
		command:  command,
		deadline: renew,
		patience: cfg.HandoverTimeout.Duration,
		pace:     max(min(retry, renew-retry)/4, time.Millisecond),
		warning:  (renew - retry) / 4,
		late:     (lease - renew) / 4,
	}
	return x, adopt()
}

func (x *executor) prepare(contest *elector.Config) {
	contest.Client = &gate{LeaseClient: contest.Client, executor: x}
}

// gate lets no release of the lease pass while the command lives, whatever the elector was told, and by whom.
type gate struct {
	elector.LeaseClient
	executor *executor
}

// Update holds a release up until the command is dead. It sends none that would come too late for the elector.
func (g *gate) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" {
		if err := g.executor.clear(ctx); err != nil {
			return nil, err
		}
	}
	return g.LeaseClient.Update(ctx, lease, opts)
}

// clear kills the command, if one runs, and waits for its end.
func (x *executor) clear(ctx context.Context) error {
	x.mu.Lock()
	c := x.current
	x.mu.Unlock()
	if c == nil {
		return nil // nor is one started now: this pod does not lead (start)
	}
	c.kill()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return errors.New("the lease is not released yet: the command does not die")
	}
}

func (x *executor) begin(ctx context.Context, e *elector.Elector, stop func(error)) (end func()) {
	x.stop = stop
	signals := make(chan os.Signal, 16)
	catch(signals, slices.Concat(stopSignals, passedOn)...)
	signal.Notify(signals, syscall.SIGCHLD)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				x.signal(ctx, s)
			case <-done:
				return
			}
		}
	}()
	go func() {
		defer close(done)
		x.work(context.WithoutCancel(ctx), e)
	}()
	return func() {
		<-done
		signal.Stop(signals)
	}
}

func (x *executor) exitCode() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.code
}

// signal takes in a signal to this process.
func (x *executor) signal(ctx context.Context, s os.Signal) {
	if s == syscall.SIGCHLD {
		x.mu.Lock() // none is being started
		defer x.mu.Unlock()
		reap(x.adopted)
		return
	}
	x.mu.Lock()
	c, again := x.current, x.stopping != nil
	stop := slices.Contains(stopSignals, s)
	if stop {
		x.stopping, x.over = s, true
	}
	x.mu.Unlock()
	switch {
	case !stop && c != nil:
		c.order(order{Signal: s.(syscall.Signal)})
	case !stop:
	default:
		klog.FromContext(ctx).Info("told to stop", "signal", s.String(), "again", again)
		if c != nil && again {
			c.kill()
		} else if c != nil {
			c.end(s.(syscall.Signal))
		}
		x.stop(nil)
	}
}

// adopted tells whether a child was left to this process by another. Those that client-go starts for credentials are in
// this process's own group, and waited for there. Called with the lock held.
func (x *executor) adopted(c child) bool {
	own := x.current != nil && !x.current.reaped && c.pid == x.current.cmd.Process.Pid
	return !own && c.group != syscall.Getpgrp()
}

// done tells whether no command is to be started any more.
func (x *executor) done() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.over
}

// work runs the command whenever this pod leads, until the election has ended. The lease is released only while no
// command runs.
func (x *executor) work(ctx context.Context, e *elector.Elector) {
	for {
		s, _ := e.Wait(ctx, func(s elector.Status) bool {
			return s.State == elector.Stopped || s.State == elector.HandingOver || s.IsLeader && !x.done()
		})
		switch s.State {
		case elector.Stopped:
			return
		case elector.HandingOver:
			_ = e.Release(ctx) // the election may have ended meanwhile
			_, _ = e.Wait(ctx, func(s elector.Status) bool { return s.State != elector.HandingOver })
		default:
			x.term(ctx, e, s)
		}
	}
}

// term runs the command once, from a status in which this pod leads.
func (x *executor) term(ctx context.Context, e *elector.Elector, s elector.Status) {
	log := klog.FromContext(ctx).WithValues("fencingToken", s.FencingToken)
	if s.ValidFor <= x.warning { // not renewed for long: there is no time to begin
		time.Sleep(x.pace)
		return
	}
	c, err := x.start(e, s.FencingToken)
	if err != nil {
		log.Error(err, "exec: the watchdog cannot be started")
		x.finish(exitFailed)
	}
	if c == nil {
		return
	}
	log.Info("exec: running the command", "watchdog", c.cmd.Process.Pid)
	x.attend(c, e, s.FencingToken)
	x.mu.Lock()
	x.current = nil
	stopping := x.stopping != nil
	x.mu.Unlock()

	switch r := c.last; {
	case !r.Ended && c.givenUp:
		log.Info("exec: the command is dead, and so is its watchdog, which did not answer")
		if stopping {
			x.finish(exitSignalled + int(syscall.SIGKILL))
		}
	case !r.Ended:
		log.Error(errors.New("the watchdog was killed"), "exec: the command is dead")
		x.finish(exitFailed)
	case r.Failure != "":
		log.Error(errors.New(r.Failure), "exec: the command cannot be run")
		x.finish(r.Code)
	case r.Told && !stopping:
		log.Info("exec: the command has ended, and runs again when this pod leads", "code", r.Code)
	default:
		log.Info("exec: the command has ended", "code", r.Code)
		x.finish(r.Code)
	}
}

// finish ends the election, and this process with that exit code.
func (x *executor) finish(code int) {
	x.mu.Lock()
	x.over, x.code = true, code
	x.mu.Unlock()
	x.stop(nil)
}

// attend passes the deadline on to the watchdog, and tells the command when it has to end, until it has.
func (x *executor) attend(c *charge, e *elector.Elector, token uint64) {
	ended, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-c.ended
		cancel()
	}()
	deadline := c.deadline
	for ended.Err() == nil {
		now := rightNow() // before the status, of which it counts
		s := e.Status()
		until, held := x.until(now, s, token)
		if held {
			deadline = until
			c.order(order{Deadline: &deadline})
		} else {
			c.kill()
		}
		if s.State == elector.HandingOver {
			c.end(x.stopSignal())
		}
		if now.before(x.overdue(c, deadline)) <= 0 {
			c.giveUp()
		}
		tick, cancel := context.WithTimeout(ended, x.pace)
		_, _ = e.Wait(tick, func(later elector.Status) bool { return later.Revision != s.Revision })
		cancel()
	}
}

// overdue is when the watchdog should have made an end, and is not waited for any longer.
func (x *executor) overdue(c *charge, deadline instant) instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := deadline.add(x.late)
	if c.told != nil {
		at = at.earlier(c.told.add(x.patience + slack))
	}
	if c.killed != nil {
		at = at.earlier(c.killed.add(x.late))
	}
	return at
}

// until is until when the command may live, going by a status that was asked for at the given instant or later: as long as
// this pod leads, and while it hands over as long as the lease is certain to be held.
func (x *executor) until(now instant, s elector.Status, token uint64) (deadline instant, held bool) {
	switch {
	case s.IsLeader && s.FencingToken == token:
		return now.add(s.ValidFor), true
	case s.State == elector.HandingOver && s.Leader == "" && s.RenewalAge > 0:
		left := x.deadline - s.RenewalAge
		return now.add(left), left > 0
	}
	return instant{}, false
}

func (x *executor) stopSignal() syscall.Signal {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, ok := x.stopping.(syscall.Signal); ok {
		return s
	}
	return syscall.SIGTERM
}

// charge is a command that runs under its watchdog, as the sidecar sees it.
type charge struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when nothing of it is left
	last  report        // valid then

	deadline instant // the first

	mu      sync.Mutex
	orders  *os.File
	told    *instant // when it was told to end
	killed  *instant // when it was to be killed
	givenUp bool     // by killing the watchdog
	reaped  bool     // the watchdog; guarded by executor.mu
}

// start starts the watchdog, which starts the command; or nothing where this pod does not lead with that token any more.
func (x *executor) start(e *elector.Elector, token uint64) (*charge, error) {
	self, err := ownBinary()
	if err != nil {
		return nil, err
	}
	ordersOut, ordersIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersOut.Close()
	reportsOut, reportsIn, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ordersIn.Close())
	}
	defer reportsIn.Close()
	cmd := exec.Command(self) //nolint:noctx // it outlives every context: it ends when the command has
	cmd.Args = append([]string{"elector-sidecar", watchdogArg}, x.command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{ordersOut, reportsIn}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is meant for the sidecar's group does not reach it

	x.mu.Lock()
	defer x.mu.Unlock()
	now := rightNow() // before the status, of which it counts
	s := e.Status()   // with the lock held (clear)
	deadline, _ := x.until(now, s, token)
	if !s.IsLeader || s.FencingToken != token {
		return nil, errors.Join(ordersIn.Close(), reportsOut.Close())
	}
	cmd.Env = append(os.Environ(),
		"ELECTOR_FENCING_TOKEN="+strconv.FormatUint(token, 10), "ELECTOR_TERM="+strconv.Itoa(int(s.Term)))
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, ordersIn.Close(), reportsOut.Close())
	}
	c := &charge{cmd: cmd, deadline: deadline, orders: ordersIn, ended: make(chan struct{})}
	x.current = c
	c.order(order{Deadline: &deadline, Warning: x.warning, Patience: x.patience})
	go func() {
		defer close(c.ended)
		c.last = lastReport(reportsOut)
		_ = cmd.Wait() // the report says all
		_, _ = ordersIn.Close(), reportsOut.Close()
		x.mu.Lock()
		c.reaped = true
		x.mu.Unlock()
		wipeOut(&x.mu, x.adopted, func(int, syscall.WaitStatus) {}) // there is something where the watchdog was killed
	}()
	return c, nil
}

// lastReport reads reports until the watchdog has ended.
func lastReport(from *os.File) (last report) {
	for decoder := json.NewDecoder(from); ; {
		var r report
		if decoder.Decode(&r) != nil {
			return last
		}
		last = r
	}
}

// order tells the watchdog something, without ever waiting for it. The pipe holds the orders of minutes; a watchdog
// that has not read for so long is of no use.
func (c *charge) order(o order) {
	line, err := json.Marshal(o)
	if err != nil {
		panic(err) // it has nothing that cannot be written
	}
	wire, err := c.orders.SyscallConn()
	if err != nil {
		return // the watchdog has ended
	}
	var failed error
	err = wire.Write(func(fd uintptr) bool {
		_, failed = syscall.Write(int(fd), append(line, '\n')) // all of it, or nothing: it is short
		return true
	})
	if err == nil && errors.Is(failed, syscall.EAGAIN) {
		c.giveUp()
	}
}

// end tells the command to end.
func (c *charge) end(s syscall.Signal) {
	if c.first(&c.told) {
		c.order(order{Signal: s, Stop: true})
	}
}

// kill ends the command at once.
func (c *charge) kill() {
	if c.first(&c.killed) {
		c.order(order{Kill: true})
	}
}

// first notes that something happens now, and tells whether it is the first time.
func (c *charge) first(at **instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *at != nil {
		return false
	}
	*at = new(rightNow())
	return true
}

// giveUp makes an end without the watchdog's help: the command dies with it.
func (c *charge) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.givenUp = true
	_ = c.cmd.Process.Kill() // it may have ended
}
