// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// patience is how long a test waits for what has to happen soon. The machine may be busy.
const patience = 30 * time.Second

// theirs is one run of client-go's elector, with ReleaseOnCancel.
type theirs struct {
	name    string
	t       *testing.T
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc
	started chan struct{} // closed when it leads
	stopped chan struct{} // closed when it has ended

	mu        sync.Mutex
	led       time.Time // when it was told that it leads
	renewed   time.Time // when the last write that succeeded was sent
	cancelled time.Time // when it was told to stop, or ended
}

func startTheirs(t *testing.T, lease *cluster.Lease, config *rest.Config, name string) *theirs {
	t.Helper()
	e := &theirs{name: name, t: t, started: make(chan struct{}), stopped: make(chan struct{})}
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2 // as resourcelock.NewFromKubeconfig has it
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{next, e} })
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: cluster.Namespace, Name: lease.Name},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.mu.Lock()
				e.led = time.Now()
				e.mu.Unlock()
				close(e.started)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	e.stop = func() {
		e.ends()
		cancel()
	}
	go func() {
		defer close(e.stopped)
		defer e.ends()
		e.elector.Run(ctx)
	}()
	t.Cleanup(func() {
		e.stop()
		<-e.stopped
	})
	return e
}

func (e *theirs) ends() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancelled.IsZero() {
		e.cancelled = time.Now()
	}
}

// leadership is the time in which it certainly believed that it leads, if it did: until its last renewal is too old,
// which its IsLeader does not take into account.
func (e *theirs) leadership() (from, until time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until = e.renewed.Add(renewDeadline)
	if !e.cancelled.IsZero() && e.cancelled.Before(until) {
		until = e.cancelled
	}
	return e.led, until, !e.led.IsZero()
}

// leads waits until it leads.
func (e *theirs) leads() {
	e.t.Helper()
	select {
	case <-e.started:
	case <-time.After(patience):
		e.t.Fatalf("%s never leads; it sees %q", e.name, e.elector.GetLeader())
	}
}

// follows waits until it sees another holder.
func (e *theirs) follows(identity string) {
	e.t.Helper()
	for deadline := time.After(patience); e.elector.GetLeader() != identity; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			e.t.Fatalf("%s sees %q; want %q", e.name, e.elector.GetLeader(), identity)
		}
	}
}

// ended waits until it has ended.
func (e *theirs) ended() {
	e.t.Helper()
	select {
	case <-e.stopped:
	case <-time.After(patience):
		e.t.Fatalf("%s never ends", e.name)
	}
}

// recorder notes when the writes that succeed were sent.
type recorder struct {
	next http.RoundTripper
	of   *theirs
}

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := time.Now()
	response, err := r.next.RoundTrip(request)
	if err == nil && request.Method != http.MethodGet && response.StatusCode < 300 {
		r.of.mu.Lock()
		r.of.renewed = sent
		r.of.mu.Unlock()
	}
	return response, err
}
