// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/proxy"
)

const (
	// askEvery is how often the app beside a candidate asks whether that leads.
	askEvery = 25 * time.Millisecond
	// askTimeout is longer than a process is ever frozen: its first answer after that counts.
	askTimeout = 30 * time.Second
	// dawdle is one in how many writes of an app comes late, as of an app that is frozen after it asked.
	dawdle = 40
)

// seat is a place for a candidate: a pod's network and credentials, with a process that comes and goes.
type seat struct {
	*campaign
	index      int
	name       string
	address    string // of its API
	network    *proxy.Proxy
	token      string // file
	secret     string // what the token is bound to
	kubeconfig string
	log        *os.File
	busy       map[target]bool // faults that have not ended; of the campaign's one goroutine that strikes, under its lock

	able  condition
	mu    sync.Mutex
	hurt  map[string]bool // why it is not able
	pod   int             // counts its pods
	stops *stops          // of this pod
	live  *living
	born  int
}

// living is a life while it lasts.
type living struct {
	*process.Sidecar
	life     *life
	answered atomic.Bool // it has answered a request
	due      atomic.Bool // its end is expected
}

func newSeat(c *campaign, index int) (*seat, error) {
	host := loopback()
	s := &seat{campaign: c, index: index, name: fmt.Sprintf("sidecar-%d", index), address: fmt.Sprint(host, ":", 11000+index),
		network: proxy.Start(c.stage, c.plane.Address()), busy: map[target]bool{}, hurt: map[string]bool{}}
	s.network.Cut() // it moves
	s.network.Address = fmt.Sprint(host, ":", 11100+index)
	s.network.Heal()
	if s.theirs() {
		s.name = "client-go"
	}
	var err error
	if s.log, err = os.Create(filepath.Join(c.dir, s.name+".log")); err != nil {
		return nil, err
	}
	c.stage.Cleanup(func() { _ = s.log.Close() })
	s.token = filepath.Join(c.dir, s.name+".token")
	if err := s.rotate(context.Background()); err != nil {
		return nil, err
	}
	admin := c.plane.Config()
	s.kubeconfig = cluster.Kubeconfig(c.stage, cluster.Via(&rest.Config{
		Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}, BearerTokenFile: s.token,
	}, s.network.Address))
	return s, nil
}

// loopback is an address that is this campaign's alone. Its ports are let go and taken again, and on 127.0.0.1 other
// tests could take them in between.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 100+pid>>16&63, pid>>8&255, pid&255)
}

func (s *seat) theirs() bool { return s.index == sidecars }

// start starts a process in the seat, of the same pod as the last one or of a new one.
func (s *seat) start(newPod bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if newPod || s.stops == nil || s.theirs() { // client-go has a new identity each time
		s.stops = &stops{}
	}
	if newPod {
		s.pod++
	}
	s.born++
	l := &life{seat: s.index, pod: fmt.Sprintf("%s_%d", s.name, s.pod), number: s.born, theirs: s.theirs(), began: s.now(), stops: s.stops}
	env := []string{
		fmt.Sprintf("POD_UID=%d", s.pod),
		"POD_NAMESPACE=" + cluster.Namespace,
		"KUBECONFIG=" + s.kubeconfig,
		"ELECTOR_HTTP_ADDRESS=" + s.address,
		"ELECTOR_LEASE_NAME=" + s.lease,
		"ELECTOR_LEASE_DURATION=" + leaseDuration.String(),
		"ELECTOR_RENEW_DEADLINE=" + renewDeadline.String(),
		"ELECTOR_RETRY_PERIOD=" + retryPeriod.String(),
	}
	binary := s.binary
	if s.theirs() {
		binary = s.self
		env = append(env, asTheirs+"=1")
		l.pod = fmt.Sprintf("%s_%d", s.name, s.born)
	}
	fmt.Fprintf(s.log, "--- %s at %s\n", l, stamp(s.now()))
	p, err := process.Start(binary, s.name, env, s.log)
	if err != nil {
		s.violate("%v", err)
		return
	}
	s.live = &living{Sidecar: p, life: l}
	s.note("%s starts", l)
	live := s.live
	s.wg.Go(func() { s.watchOver(live) })
	s.wg.Go(func() { s.act(live, rand.New(rand.NewPCG(s.seed, uint64(s.index)<<32+uint64(l.number)))) })
}

func (s *seat) current() *living {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// watchOver notices an end that nobody caused.
func (s *seat) watchOver(l *living) {
	<-l.Ended()
	if !l.due.Load() {
		s.deaths.Add(1)
		s.violate("%s died: %s", l.life, l.HowEnded())
	}
}

// kill ends the process, if there is one that runs.
func (s *seat) kill() {
	if l := s.current(); l != nil {
		l.due.Store(true)
		l.Kill()
	}
}

// signal sends a signal to the process.
func (s *seat) signal(signal syscall.Signal) {
	if err := s.current().Signal(signal); err != nil {
		s.violate("%s: %v: %v", s.name, signal, err)
	}
}

// hurts says that the candidate cannot be expected to lead, for the reason, until it heals.
func (s *seat) hurts(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurt[why] = true
	s.able.set(s.now(), false)
}

func (s *seat) heals(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hurt, why)
	if len(s.hurt) == 0 {
		s.able.set(s.now(), true)
	}
}

func (s *seat) isHurt() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hurt) > 0
}

// act is the app beside the candidate: it asks, and where the answer is that it leads it writes its token, within the time
// that the answer is good for. Now and then it dawdles before it writes.
func (s *seat) act(l *living, random *rand.Rand) {
	for l.HowEnded() == "" {
		a, ok := s.ask(l)
		if ok && !l.answered.Swap(true) && !l.due.Load() {
			s.heals("down")
		}
		if ok && a.token != 0 {
			late := random.IntN(dawdle) == 0
			wait := time.Duration(random.Int64N(int64(2 * leaseDuration)))
			switch {
			case late:
				s.wg.Go(func() {
					if s.sleep(s.storm, wait) {
						s.write(a)
					}
				})
			case s.now() < a.sent+a.valid:
				s.write(a)
			}
		}
		time.Sleep(askEvery)
	}
}

// ask asks the candidate once. The token is 0 where it does not lead.
func (s *seat) ask(l *living) (a answer, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	a = answer{who: l.life, sent: s.now()}
	leader, err := l.Leader(ctx, "")
	a.received = s.now()
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if err != nil {
		h.unanswered++
		return a, false
	}
	if leader.IsLeader {
		a.token = leader.FencingToken
		a.valid = time.Duration(leader.ValidForMs) * time.Millisecond
		h.answers = append(h.answers, a)
		s.led(s.index, a)
	}
	return a, true
}

// write shows the token to the register.
func (s *seat) write(a answer) {
	w := write{seat: s.index, token: a.token, invoked: s.now()}
	w.accepted = s.register.write(a.token)
	w.answered = s.now()
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	s.history.writes = append(s.history.writes, w)
}
