// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// Config says which lease is contended for, by whom and how.
type Config struct {
	// Client reaches the Leases of Namespace.
	Client    LeaseClient
	Namespace string
	Name      string

	// Identity is written as holderIdentity. No two live processes may share one.
	Identity string
	// Sandbox names the place of this process, if there is one that holds at most one live process of Identity: a pod's
	// network namespace, say. It is written beside the holder, as the annotation SandboxAnnotation. A lease that names
	// both when it is first read was left by a predecessor that is dead, as when a pod's container is restarted: it is
	// taken over at once. One that names Identity alone is another candidate's, and has to expire.
	Sandbox string
	// Address is where others reach this process while it leads. It is written beside the holder, as AddressAnnotation,
	// unless it is zero.
	Address netip.Addr

	// LeaseDuration is how long others respect the lease without a renewal: whole seconds, at least one.
	LeaseDuration time.Duration
	// RenewDeadline is how long a renewal lets this process lead, counted from before it was sent: below
	// LeaseDuration. The difference covers clocks of different speed.
	RenewDeadline time.Duration
	// RetryPeriod is the time between renewals, and the longest between retries: at least MinRetryPeriod, and
	// MinRequestTime below RenewDeadline.
	RetryPeriod time.Duration
	// HandoverTimeout is how long a leader that is stopped keeps the lease before it releases it, for the work that it
	// guards to end. 0 or more.
	HandoverTimeout time.Duration
	// Withdraw is called when a leader begins to step down, while it still holds the lease, to take back whatever shows it
	// as the leader to others. The release waits until it has returned, for at most WithdrawTimeout and half the renew
	// deadline, and while the lease is fresh. Nil: nothing shows it.
	Withdraw func(context.Context)
	// Unwell is what is wrong with the app at first, nil where nothing is: as told to SetHealth before the election begins.
	Unwell error

	// Clock is the system's where nil.
	Clock Clock
	// Observer is told of what happens. It may be nil.
	Observer Observer
}

// The limits of Config's times. What is left of the renew deadline after a retry period is for two requests.
const (
	MinRetryPeriod     = 10 * time.Millisecond
	MinRequestTime     = 20 * time.Millisecond
	MaxHandoverTimeout = 24 * time.Hour
)

// WithdrawTimeout is how long a release waits for Config.Withdraw: a kubelet leaves a native sidecar whose app has used up
// its time to stop about two seconds in all.
const WithdrawTimeout = time.Second

// Validate reports everything that is wrong, one error a problem.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Client == nil {
		wrong("elector: Client is missing")
	}
	if problems := validation.IsDNS1123Subdomain(c.Name); problems != nil {
		wrong("elector: Name of the lease is %q: %s", c.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(c.Namespace); problems != nil {
		wrong("elector: Namespace of the lease is %q: %s", c.Namespace, strings.Join(problems, "; "))
	}
	if c.Identity == "" || !utf8.ValidString(c.Identity) {
		wrong("elector: Identity is %q; it must be UTF-8 and not empty", c.Identity)
	}
	if c.LeaseDuration < time.Second || c.LeaseDuration%time.Second != 0 || c.LeaseDuration/time.Second > math.MaxInt32 {
		wrong("elector: LeaseDuration %s must be whole seconds from 1s to %ds", c.LeaseDuration, math.MaxInt32)
	}
	if c.RenewDeadline >= c.LeaseDuration {
		wrong("elector: RenewDeadline %s must be below LeaseDuration %s", c.RenewDeadline, c.LeaseDuration)
	}
	if c.RetryPeriod < MinRetryPeriod || c.RetryPeriod > c.RenewDeadline-MinRequestTime {
		wrong("elector: RetryPeriod %s must be at least %s, and %s below RenewDeadline %s", c.RetryPeriod, MinRetryPeriod, MinRequestTime, c.RenewDeadline)
	}
	if c.HandoverTimeout < 0 || c.HandoverTimeout > MaxHandoverTimeout {
		wrong("elector: HandoverTimeout %s must be from 0s to %s", c.HandoverTimeout, MaxHandoverTimeout)
	}
	return errors.Join(problems...)
}

// Elector contends for one lease. Its methods may be called by any number of goroutines.
type Elector struct {
	config   Config
	board    *board
	reach    reach
	commands chan command
	started  atomic.Bool
	ended    chan struct{}
}

// New returns an elector that does nothing yet.
func New(config Config) (*Elector, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = systemClock{}
	}
	if config.Observer == nil {
		config.Observer = noObserver{}
	}
	return &Elector{
		config:   config,
		board:    newBoard(config.Clock, config.Identity, config.RenewDeadline),
		commands: make(chan command),
		ended:    make(chan struct{}),
	}, nil
}

// Status is the state of the election now, worked out at this instant.
func (e *Elector) Status() Status {
	status, _ := e.board.read()
	return status
}

// Wait returns the status as soon as enough is true of it. Where ctx ends first it returns the status of that instant
// and the cause of ctx's end.
func (e *Elector) Wait(ctx context.Context, enough func(Status) bool) (Status, error) {
	return e.board.wait(ctx, enough)
}

// Health returns what is wrong with the election loop: it has stalled, it has ended other than in good order, or a
// leader outlived its deadline. An API server that is out of reach is no illness: nil, as for a follower.
func (e *Elector) Health() error { return e.board.health() }

// Denied returns the verbs on the Lease that the API server forbade when they were last tried, sorted.
func (e *Elector) Denied() []string { return e.reach.denied() }

// Trouble returns why the Lease could not be followed when it was last tried, nil where it could.
func (e *Elector) Trouble() error { return e.reach.trouble() }

// command is an input from outside. done is closed once the step has been taken and its status published.
type command struct {
	input
	done chan struct{}
}

// Resign makes a leader step down, which it has done when Resign returns: it keeps the lease for HandoverTimeout, releases it, and does not contend for the
// cooldown after that. Where nobody else takes the lease meanwhile, it takes it back then. It does nothing for others.
func (e *Elector) Resign(ctx context.Context, cooldown time.Duration) error {
	return e.command(ctx, resign{cooldown: cooldown})
}

// Release ends a handover before its timeout: the work that the lease guards has stopped. Else it does nothing.
func (e *Elector) Release(ctx context.Context) error { return e.command(ctx, release{}) }

// SetHealth tells how the app is that the lease is held for. While there is an error this process does not contend, and
// a leader steps down as by Resign.
func (e *Elector) SetHealth(ctx context.Context, err error) error {
	return e.command(ctx, health{err: err})
}

// command hands an input to the loop and waits for the step. The error is the cause of ctx's end, or that the loop has ended.
func (e *Elector) command(ctx context.Context, in input) error {
	c := command{input: in, done: make(chan struct{})}
	commands := e.commands
	for {
		select {
		case commands <- c:
			commands = nil
		case <-c.done:
			return nil
		case <-e.ended:
			return errors.New("elector: the election has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Run contends for the lease until ctx ends. It then stops leading, keeps the lease for HandoverTimeout, releases it
// where it may name this process, and returns nil; or an error when it could not release, or broke. Whatever the way it
// returns, the status says "not leader" from then on. It must be called once.
func (e *Elector) Run(ctx context.Context) error {
	if e.started.Swap(true) {
		return errors.New("elector: Run was called twice")
	}
	return e.run(ctx)
}

func (e *Elector) run(ctx context.Context) (err error) {
	c := &e.config
	log := klog.FromContext(ctx).WithValues("lease", c.Namespace+"/"+c.Name)
	m := newMachine(settings{
		lease:           types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
		identity:        c.Identity,
		leaseDuration:   c.LeaseDuration,
		renewDeadline:   c.RenewDeadline,
		retryPeriod:     c.RetryPeriod,
		handoverTimeout: c.HandoverTimeout,
		sandbox:         c.Sandbox,
		address:         c.Address,
	})
	if c.Withdraw != nil {
		m.withdrawTimeout = WithdrawTimeout
	}
	m.unwell = c.Unwell
	// Requests outlive ctx: the release needs them.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &driver{Elector: e, machine: m, log: log, inputs: make(chan input), ctx: requests,
		timeout: m.requestTimeout(), rewatch: make(chan struct{}, 1)}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("lease %s/%s: the election loop panicked: %v\n%s", c.Namespace, c.Name, r, debug.Stack())
		}
		e.board.end(err)
		close(e.ended)
		cancel()
		d.wg.Wait()
	}()
	d.wg.Go(func() { d.observe() })
	return d.loop(ctx)
}

// driver feeds the machine and carries out what it decides. The machine belongs to the goroutine of loop.
type driver struct {
	*Elector
	machine *machine
	log     klog.Logger
	inputs  chan input
	timeout time.Duration // of one request
	wg      sync.WaitGroup

	ctx     context.Context    // of all requests; it ends with the loop
	abandon context.CancelFunc // of the write in flight
	rewatch chan struct{}      // asks observe to begin anew

	steppedDown *Instant // when the handover that goes on began
}

func (d *driver) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stopped := ctx.Done()
	var carriedOut chan struct{} // of the command that in is, nil where it is none
	for in := input(tick{}); ; {
		now := d.config.Clock.Now()
		from := d.machine.state
		out := d.machine.step(now, in)
		leaderless := d.board.publish(now, d.machine.snapshot(now))
		if carriedOut != nil {
			close(carriedOut)
		}
		d.stepped(now, in, from, leaderless)
		for _, event := range out.events {
			d.log.Info(event.msg, event.kv...)
		}
		if d.machine.state == Stopped {
			return d.machine.failure
		}
		d.perform(out)
		timer.Reset(out.wake)
		carriedOut = nil
		select {
		case in = <-d.inputs:
		case <-timer.C:
			in = tick{}
		case c := <-d.commands:
			in, carriedOut = c.input, c.done
		case <-stopped:
			stopped = nil
			in = stop{}
		}
	}
}

func (d *driver) perform(out output) {
	if out.abandon {
		d.abandon()
	}
	if w := out.write; w != nil {
		ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
		d.abandon = cancel
		d.wg.Go(func() {
			defer cancel()
			d.tell(d.write(ctx, w))
		})
	}
	if number := out.retract; number > 0 {
		d.wg.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, d.machine.withdrawTimeout)
			defer cancel()
			d.config.Withdraw(ctx)
			d.tell(withdrawn{retraction: number})
		})
	}
	if out.read {
		d.wg.Go(func() { d.tell(d.read()) })
	}
	if out.rewatch {
		select {
		case d.rewatch <- struct{}{}:
		default:
		}
	}
}

// tell hands an input to the loop, unless that has ended.
func (d *driver) tell(in input) {
	select {
	case d.inputs <- in:
	case <-d.ctx.Done():
	}
}

func (d *driver) write(ctx context.Context, w *write) input {
	verb := "update"
	lease, err := (*coordinationv1.Lease)(nil), error(nil)
	if w.record.version == 0 {
		verb = "create"
		lease, err = d.config.Client.Create(ctx, w.record.lease, metav1.CreateOptions{})
	} else {
		lease, err = d.config.Client.Update(ctx, w.record.lease, metav1.UpdateOptions{})
	}
	if d.answered(verb, err) {
		d.reportDenied()
	}
	if err != nil {
		return writeFailed{write: w, outcome: outcomeOf(verb, err), err: fmt.Errorf("%s: %w", verb, err)}
	}
	record, err := readLease(lease)
	if err != nil {
		return writeFailed{write: w, outcome: unknown, err: err}
	}
	return written{write: w, record: record}
}

// outcomeOf tells what an error of a write says about its effect. Only an answer in the 400s says that there is none, but
// not 408: that is a proxy's, which may have passed the request on.
func outcomeOf(verb string, err error) outcome {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		switch {
		case code == 404 && verb == "create": // the namespace
			return refused
		case code == 404 || code == 409:
			return conflicted
		case 400 <= code && code < 500 && code != 408:
			return refused
		}
	}
	return unknown
}

// read reads the Lease for the machine: by list where get is forbidden.
func (d *driver) read() input {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	seen, err := d.get(ctx)
	if refusedForGood(err) {
		seen, _, err = d.list(ctx)
	}
	d.reportDenied()
	if err != nil {
		return readFailed{err: err}
	}
	seen.from = byRead
	return seen
}
