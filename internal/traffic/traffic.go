// SPDX-License-Identifier: Apache-2.0

// Package traffic shows in the cluster which pod leads, so that requests find it: by the EndpointSlice of a Service, by a
// label of the pod, or by a condition of the pod.
//
// Each of these is a sign. A leader raises its signs as soon as it leads, and lowers them before it releases the lease.
// One that cannot, because it is dead or cut off, leaves them raised: so each carries the fencing token of the term that
// it belongs to, the next leader takes over what it finds, and a leader of the past finds that it has been. A write that
// was sent in the past and arrives late meets a resourceVersion that has changed.
package traffic

import (
	"context"
	"net/netip"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// The annotations of what carries a sign.
const (
	// LeaseAnnotation names the Lease whose leader is shown, as namespace/name.
	LeaseAnnotation = "elector-sidecar/lease"
	// TokenAnnotation is the fencing token of the last term that was shown.
	TokenAnnotation = "elector-sidecar/fencing-token"
)

// Pod is the pod that this process speaks for.
type Pod struct {
	Namespace, Name string
	UID             types.UID    // "" where it is not known
	Addresses       []netip.Addr // at most one of each family counts
	Node            string       // "" where it is not known
}

// Sign is something in the cluster that shows which pod leads. Its methods are not called at the same time.
type Sign interface {
	// Raise makes the sign show this pod, which leads with that fencing token. It does nothing where a later leader has
	// been shown.
	Raise(ctx context.Context, token uint64) error
	// Lower makes the sign not show this pod any more, which led last with that fencing token; 0: it has not led since
	// this process began.
	Lower(ctx context.Context, token uint64) error
	// Role is the RBAC Role, as JSON, that the sign needs.
	Role() string
	// String names the sign to people.
	String() string
}

// Election is the part of elector.Elector that signs follow.
type Election interface {
	Status() elector.Status
	Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error)
}

// Signs are all that show this pod as the leader.
type Signs struct {
	posts []*post
	retry time.Duration
	check time.Duration
}

// New returns signs that are raised and lowered by Run: after a failure again after a time of retry, and while they are
// raised looked after once in a time of check.
func New(retry, check time.Duration, signs ...Sign) *Signs {
	s := &Signs{retry: retry, check: check}
	for _, sign := range signs {
		s.posts = append(s.posts, &post{sign: sign, free: make(chan struct{}, 1)})
	}
	return s
}

// Run lets the signs follow the election until ctx ends.
func (s *Signs) Run(ctx context.Context, election Election) {
	var posts sync.WaitGroup
	for _, p := range s.posts {
		posts.Go(func() { p.follow(ctx, election, s.retry, s.check) })
	}
	posts.Wait()
}

// withdrawRetry is the pause after a try to lower a sign that failed, while a release waits for it.
const withdrawRetry = 100 * time.Millisecond

// Withdraw lowers the signs that are raised, all at once, and returns when they are lowered or may not be, or ctx ends.
func (s *Signs) Withdraw(ctx context.Context) {
	var posts sync.WaitGroup
	for _, p := range s.posts {
		posts.Go(func() {
			if !p.take(ctx) {
				return
			}
			defer p.leave()
			err := p.lower(ctx)
			for mayPass(err) && pause(ctx, withdrawRetry) {
				err = p.lower(ctx)
			}
			p.report(ctx, err)
		})
	}
	posts.Wait()
}

// mayPass tells whether another try may succeed soon.
func mayPass(err error) bool {
	return err != nil && (!refused(err) || apierrors.IsTooManyRequests(err))
}

// pause waits; false where ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Troubles are what is wrong with each sign, nil where nothing is, by its name.
func (s *Signs) Troubles() map[string]error {
	troubles := map[string]error{}
	for _, p := range s.posts {
		p.mu.Lock()
		troubles[p.sign.String()] = p.trouble
		p.mu.Unlock()
	}
	return troubles
}

// requestTime is how long raising or lowering a sign may take.
const requestTime = 3 * time.Second

// post holds one sign.
type post struct {
	sign    Sign
	free    chan struct{} // holds one while the sign is raised or lowered
	token   uint64        // of the last term for which it was raised, or may have been
	lowered bool

	mu      sync.Mutex
	trouble error
}

// take waits until nobody else raises or lowers the sign; false where ctx ends first.
func (p *post) take(ctx context.Context) bool {
	select {
	case p.free <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *post) leave() { <-p.free }

func (p *post) follow(ctx context.Context, election Election, retry, check time.Duration) {
	// A predecessor in this pod may have raised the sign, and this process may be about to lead in its place.
	resuming, cancel := context.WithTimeout(ctx, retry)
	_, _ = election.Wait(resuming, func(s elector.Status) bool { return s.Leader != "" })
	cancel()
	for ctx.Err() == nil {
		token := election.Status().FencingToken
		err := p.show(ctx, election, token)
		wait, cancel := ctx, context.CancelFunc(func() {})
		switch {
		case err != nil:
			wait, cancel = context.WithTimeout(ctx, retry)
		case token != 0:
			wait, cancel = context.WithTimeout(ctx, check)
		}
		_, _ = election.Wait(wait, func(s elector.Status) bool { return s.FencingToken != token })
		cancel()
	}
}

// show makes the sign say that this pod leads with that token, or that it does not lead (0).
func (p *post) show(ctx context.Context, election Election, token uint64) error {
	if !p.take(ctx) {
		return ctx.Err()
	}
	defer p.leave()
	if token == 0 {
		err := p.lower(ctx)
		p.report(ctx, err)
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { // what is on its way for a term that has ended is of no use any more
		defer cancel()
		_, _ = election.Wait(ctx, func(s elector.Status) bool { return s.FencingToken != token })
	})
	defer watching.Wait()
	defer cancel()
	if election.Status().FencingToken != token {
		return nil
	}
	p.token, p.lowered = token, false
	request, done := context.WithTimeout(ctx, requestTime)
	defer done()
	err := p.sign.Raise(request, token)
	p.report(ctx, err)
	return err
}

func (p *post) lower(ctx context.Context) error {
	if p.lowered {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := p.sign.Lower(ctx, p.token)
	p.lowered = err == nil
	return err
}

// report keeps what is wrong and logs it when it is something else than before, unless it comes of ctx's end.
func (p *post) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	before := p.trouble
	p.trouble = err
	p.mu.Unlock()
	log := klog.FromContext(ctx)
	switch {
	case err == nil && before != nil:
		log.Info("the sign can be changed again", "sign", p.sign.String())
	case err == nil || before != nil && before.Error() == err.Error():
	case apierrors.IsForbidden(err):
		log.Info("permission missing: the API server forbids what shows the leader", "sign", p.sign.String(), "err", err.Error(), "roleNeeded", p.sign.Role())
	default:
		log.Info("cannot show who leads; trying again", "sign", p.sign.String(), "err", err.Error())
	}
}
