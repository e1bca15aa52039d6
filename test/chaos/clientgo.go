// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

// asTheirs makes this program client-go's candidate, where it is set in the environment.
const asTheirs = "CHAOS_CLIENT_GO"

// theirs is a program with client-go's elector that answers /leader as a sidecar does. It claims no more than client-go
// promises: it leads from its first write, and for the renew deadline after the last one that succeeded was sent.
// Its fencing token is the resourceVersion of the first write with an acquireTime.
type theirs struct {
	podName string

	mu       sync.Mutex
	elector  *leaderelection.LeaderElector
	identity string
	stopped  bool
	acquired time.Time // acquireTime of the term
	token    uint64
	renewed  time.Time // when the last write that succeeded was sent
}

func runTheirs() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Timeout = renewDeadline / 2 // as resourcelock.NewFromKubeconfig has it
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return err
	}
	t := &theirs{podName: os.Getenv("POD_NAME")}
	server := &http.Server{Addr: os.Getenv("ELECTOR_HTTP_ADDRESS"), Handler: t, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-told
		t.stop() // before the release
		cancel()
	}()
	for run := 1; ctx.Err() == nil; run++ { // an elector that lost cannot be used again
		if err := t.begin(client, fmt.Sprintf("%s_%s-%d", t.podName, os.Getenv("POD_UID"), run)); err != nil {
			return err
		}
		t.elector.Run(ctx)
		t.stop()
		select {
		case err := <-failed:
			return err
		case <-time.After(retryPeriod):
		case <-ctx.Done():
		}
	}
	return nil
}

func (t *theirs) begin(client *coordinationclient.CoordinationV1Client, identity string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped, t.token, t.acquired, t.renewed, t.identity = false, 0, time.Time{}, time.Time{}, identity
	var err error
	t.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: cluster.Namespace, Name: os.Getenv("ELECTOR_LEASE_NAME")},
			Client:     noted{client, t},
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     theirRetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	return err
}

func (t *theirs) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// noted notes the writes that succeed.
type noted struct {
	coordinationclient.LeasesGetter
	of *theirs
}

func (n noted) Leases(namespace string) coordinationclient.LeaseInterface {
	return notedLeases{n.LeasesGetter.Leases(namespace), n.of}
}

type notedLeases struct {
	coordinationclient.LeaseInterface
	of *theirs
}

func (n notedLeases) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	sent := time.Now()
	lease, err := n.LeaseInterface.Create(ctx, lease, opts)
	return lease, n.of.note(sent, lease, err)
}

func (n notedLeases) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	sent := time.Now()
	lease, err := n.LeaseInterface.Update(ctx, lease, opts)
	return lease, n.of.note(sent, lease, err)
}

func (t *theirs) note(sent time.Time, lease *coordinationv1.Lease, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || cluster.Holder(lease) != t.identity {
		return err
	}
	if t.token == 0 || !lease.Spec.AcquireTime.Time.Equal(t.acquired) {
		t.acquired = lease.Spec.AcquireTime.Time
		if _, err := fmt.Sscan(lease.ResourceVersion, &t.token); err != nil {
			return err
		}
	}
	t.renewed = sent
	return nil
}

func (t *theirs) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	answer := process.Leader{PodName: t.podName, State: "following"}
	t.mu.Lock()
	answer.Identity = t.identity
	valid := renewDeadline - time.Since(t.renewed)
	if t.token != 0 && !t.stopped && t.elector.IsLeader() && valid > 0 {
		answer.IsLeader, answer.State, answer.FencingToken, answer.ValidForMs = true, "leading", t.token, valid.Milliseconds()
	}
	t.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // whoever asked may be gone
}
