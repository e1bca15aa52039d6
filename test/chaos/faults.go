// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

const (
	// reread is how long client-go goes by a token before it reads the file again, and some time more.
	reread = 65 * time.Second
	// lingering is how long dead connections may go unnoticed.
	lingering = 3 * time.Second
	// stopTime is how long a process may take that is told to stop: its renew deadline, for the release, the time to drain,
	// and some more for a busy machine.
	stopTime = renewDeadline + time.Second + 4*time.Second
	// mostHurt is how many candidates may suffer at once.
	mostHurt = 4
)

// strike lets a fault happen. It waits until there is something that it can hit; the end of the fault is not waited for.
func (c *campaign) strike(f fault) {
	switch targets[f.kind] {
	case ofProcess:
		c.hit(f, ofProcess, c.strikeProcess)
	case ofNetwork:
		c.hit(f, ofNetwork, c.strikeNetwork)
	case ofToken:
		c.hit(f, ofToken, c.strikeToken)
	case ofAPI:
		c.strikeAPI(f)
	case ofLease:
		c.count(f.kind)
		c.wg.Go(func() { c.tamper(f) })
	}
}

// hit finds a seat that no fault of the sort has now, and runs the fault in it.
func (c *campaign) hit(f fault, t target, run func(*seat, fault)) {
	for c.storm.Err() == nil {
		if s := c.victim(f, t); s != nil {
			c.count(f.kind)
			c.note("%s: %s for %s", s.name, f.kind, f.length.Round(time.Millisecond))
			c.wg.Go(func() {
				run(s, f)
				c.mu.Lock()
				s.busy[t] = false
				c.mu.Unlock()
			})
			return
		}
		c.sleep(c.storm, 20*time.Millisecond)
	}
}

func (c *campaign) victim(f fault, t target) *seat {
	var isHurt [seats]bool // looked up first: a seat's lock comes before the campaign's
	hurt := 0
	for i, s := range c.seats {
		if isHurt[i] = s.isHurt(); isHurt[i] {
			hurt++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := f.seat
	if first == theLeader {
		first = c.leader
	}
	for i := range c.seats {
		s := c.seats[(first+i)%len(c.seats)]
		if !s.busy[t] && (hurt < mostHurt || isHurt[s.index]) {
			s.busy[t] = true
			return s
		}
	}
	return nil
}

func (c *campaign) strikeProcess(s *seat, f fault) {
	switch f.kind {
	case freeze:
		s.hurts("frozen")
		s.signal(syscall.SIGSTOP)
		c.sleep(c.storm, f.length)
		s.signal(syscall.SIGCONT)
		s.heals("frozen")
	case term:
		s.stop()
		c.sleep(c.storm, f.rest)
		s.start(f.die%2 == 0)
	case kill, replace:
		s.hurts("down")
		s.kill()
		c.sleep(c.storm, f.rest)
		s.start(f.kind == replace)
	}
}

// stop tells the process to stop and sees that it does, in good order where nothing hinders it.
func (s *seat) stop() {
	l := s.current()
	was := s.now()
	listens := l.answered.Load()
	l.due.Store(true)
	l.life.stops.add(was)
	s.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	code, err := l.Wait(ctx)
	calm := s.able.throughout(max(0, was-lingering), s.now()) && s.healthy.throughout(max(0, was-lingering), s.now())
	s.hurts("down")
	switch {
	case err != nil:
		s.violate("%s was told to stop, and runs after %s", l.life, stopTime)
		s.kill()
	case code == -1 && !listens: // it could not catch the signal yet, and so did not contend either
	case code != 0 && (calm || code != 1):
		s.violate("%s was told to stop and exits with %d", l.life, code)
	}
	s.note("%s stops with code %d after %s", l.life, code, stamp(s.now()-was))
}

func (c *campaign) strikeNetwork(s *seat, f fault) {
	s.hurts("network")
	defer s.heals("network")
	switch f.kind {
	case drop:
		s.network.Cut()
		s.network.Heal()
		c.sleep(c.storm, lingering)
		return
	case deaden:
		s.network.Deaden()
		c.sleep(c.storm, lingering)
		return
	case noRequests:
		s.network.HoldRequests()
	case noReplies:
		s.network.HoldReplies()
	case blackHole:
		s.network.BlackHole()
	case cut:
		s.network.Cut()
	case slow:
		s.network.Delay(50*time.Millisecond + time.Duration(f.die)*70*time.Millisecond)
	}
	c.sleep(c.storm, f.length)
	if f.die%3 > 0 {
		s.network.Cut() // what was held is lost; else it arrives now, late
	}
	s.network.Heal()
}

func (c *campaign) strikeAPI(f fault) {
	c.apiBusy.Lock() // one at a time
	if c.storm.Err() != nil {
		c.apiBusy.Unlock()
		return
	}
	c.count(f.kind)
	servers := map[kind][]*server{
		apiRestart:  {c.plane.api},
		etcdRestart: {c.plane.etcd},
		bothRestart: {c.plane.api, c.plane.etcd},
	}[f.kind]
	signal := syscall.SIGKILL
	if f.die%3 == 0 {
		signal = syscall.SIGTERM
	}
	c.note("%s, %v, down for %s", f.kind, signal, f.rest.Round(time.Millisecond))
	c.healthy.set(c.now(), false)
	c.wg.Go(func() {
		defer c.apiBusy.Unlock()
		if err := c.plane.restart(signal, f.rest, servers...); err != nil {
			c.violate("%v", err)
			return
		}
		c.healthy.set(c.now(), true)
		c.note("the API server is ready")
	})
}

// awaitHealthy waits until the API server answers; false where the storm ends first.
func (c *campaign) awaitHealthy() bool {
	for {
		if healthy, _ := c.healthy.at(c.now()); healthy {
			return true
		}
		if !c.sleep(c.storm, 50*time.Millisecond) {
			return false
		}
	}
}

// tamper changes the Lease as somebody with kubectl would.
func (c *campaign) tamper(f fault) {
	if !c.awaitHealthy() {
		return
	}
	spec, meta := map[string]any{}, map[string]any{}
	switch f.kind {
	case otherHolder:
		spec["holderIdentity"] = fmt.Sprintf("intruder-%d", f.die)
		if f.die%2 == 0 {
			now := metav1.NowMicro()
			spec["renewTime"], spec["acquireTime"] = now, now
		}
	case noHolder:
		spec["holderIdentity"] = ""
		if f.die%2 == 0 {
			spec["holderIdentity"] = nil
		}
	case editDuration:
		spec["leaseDurationSeconds"] = []int{1, 2, 9}[f.die%3]
	case annotate:
		meta["annotations"] = map[string]any{"example.com/number": fmt.Sprint(f.die, c.now())}
	}
	patch, err := json.Marshal(map[string]any{"spec": spec, "metadata": meta})
	if err != nil {
		c.violate("%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	t := tampering{what: f.kind, invoked: c.now()}
	if f.kind == deletion {
		err = c.leases.Delete(ctx, c.lease, metav1.DeleteOptions{})
	} else {
		_, err = c.leases.Patch(ctx, c.lease, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	t.answered = c.now()
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		t.answered += 5 * time.Second // it may be stored yet
	}
	c.note("%s, asked at %s: %s%v", f.kind, stamp(t.invoked), patch, or(err, ""))
	if f.kind != annotate {
		c.history.mu.Lock()
		c.history.tamperings = append(c.history.tamperings, t)
		c.history.mu.Unlock()
	}
}

func or(err error, none string) string {
	if err == nil {
		return none
	}
	return ": " + err.Error()
}

func (c *campaign) strikeToken(s *seat, f fault) {
	if !c.awaitHealthy() {
		return
	}
	old := s.secret
	if err := s.rotate(c.storm); err != nil {
		c.note("%s: no new token: %v", s.name, err) // the API server went away
		return
	}
	if f.kind == rotate {
		c.sleep(c.storm, reread)
	} else {
		s.hurts("token")
		defer s.heals("token")
	}
	if err := c.plane.client.CoreV1().Secrets(cluster.Namespace).Delete(c.storm, old, metav1.DeleteOptions{}); err != nil {
		c.note("%s: the old token is not revoked: %v", s.name, err)
	}
	if f.kind == revoke {
		c.sleep(c.storm, reread)
	}
}

// rotate puts a new token into the seat's file. It is bound to a Secret, with the deletion of which it is revoked.
func (s *seat) rotate(ctx context.Context) error {
	core := s.plane.client.CoreV1()
	secret, err := core.Secrets(cluster.Namespace).Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: s.name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
	}}
	request, err = core.ServiceAccounts(cluster.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.token+".new", []byte(request.Status.Token), 0o600); err != nil {
		return err
	}
	s.secret = secret.Name
	return os.Rename(s.token+".new", s.token)
}
