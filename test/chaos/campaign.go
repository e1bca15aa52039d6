// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const (
	account = "chaos"
	// calmTime is how long it may take after all faults are over until somebody leads: a lease, and some time for
	// connections that are not yet known to be dead.
	calmTime = leaseDuration + 10*time.Second
	// reportEvery is how often progress is told.
	reportEvery = 10 * time.Second
)

// campaign is one run.
type campaign struct {
	seed   uint64
	length time.Duration
	binary string // the sidecar
	self   string // this program
	dir    string
	stderr io.Writer
	lease  string // its name; an identity is guarded in the network namespace, in which another campaign may run

	stage  *stage
	plane  *plane
	leases coordinationclient.LeaseInterface
	seats  []*seat
	begun  time.Time
	ended  time.Duration
	storm  context.Context // in which faults happen
	calm   context.CancelFunc
	wg     sync.WaitGroup
	deaths atomic.Int32

	history  history
	register register
	healthy  condition
	apiBusy  sync.Mutex

	mu         sync.Mutex
	leader     int // the seat that was last seen to lead
	lastLed    answer
	faults     map[kind]int
	events     []event
	violations []violation
	sightings  []sighting
}

// event is a line of the story.
type event struct {
	at   time.Duration
	what string
}

// options are what a run can be told.
type options struct {
	seed   uint64
	length time.Duration
	binary string    // "": it is built
	stderr io.Writer // progress
}

// run runs a campaign. The report is valid where the error is nil, and may tell of violations.
func run(ctx context.Context, o options) (r *report, err error) {
	c := &campaign{seed: o.seed, length: o.length, binary: o.binary, stderr: o.stderr,
		lease: fmt.Sprintf("chaos-%d", os.Getpid()), faults: map[kind]int{}}
	if c.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
		return nil, err
	}
	c.stage = &stage{dir: c.dir}
	defer func() {
		if c.begun.IsZero() || err == nil && len(r.violations) == 0 {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	if c.binary == "" {
		root, err := moduleRoot(ctx)
		if err != nil {
			return nil, err
		}
		if c.binary, err = sidecar.Build(root, c.dir); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(c.dir, "controlplane.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if c.plane, err = startPlane(log); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.plane.stop()) }()
	defer c.stage.end()
	if err := c.campaign(ctx); err != nil {
		return nil, err
	}
	return c.report(), nil
}

// campaign runs everything but the control plane.
func (c *campaign) campaign(ctx context.Context) error {
	c.leases = c.plane.client.CoordinationV1().Leases(cluster.Namespace)
	if err := c.admit(ctx); err != nil {
		return err
	}
	c.begun = time.Now()
	c.storm, c.calm = context.WithCancel(ctx)
	defer c.calm()
	defer c.wg.Wait()
	defer func() { // before that
		c.calm()
		for _, s := range c.seats {
			s.kill()
		}
	}()
	observed, unobserve := context.WithCancel(ctx)
	defer unobserve()
	c.wg.Go(func() { c.observe(observed) })
	c.healthy.set(c.now(), true)
	for i := range seats {
		s, err := newSeat(c, i)
		if err != nil {
			return err
		}
		c.seats = append(c.seats, s)
		s.hurts("down")
		s.start(true)
	}
	if !c.awaitLeader(ctx, 0, time.Minute) {
		return fmt.Errorf("nobody leads at the beginning; see %s", c.dir)
	}
	c.rage()
	c.settle()
	if len(c.wrongs()) == 0 {
		begun := c.now()
		c.note("all faults are over")
		if !c.awaitLeader(ctx, begun, calmTime) && ctx.Err() == nil {
			c.violate("nobody leads within %s of the end of all faults", calmTime)
		}
	}
	c.ended = c.now()
	if ctx.Err() != nil {
		return fmt.Errorf("ended early, at %s", stamp(c.now()))
	}
	return nil
}

// rage lets faults happen until the time is over, or something is wrong.
func (c *campaign) rage() {
	c.wg.Go(c.tell)
	faults := newSchedule(c.seed)
	over := time.AfterFunc(c.length-c.now(), c.calm)
	defer over.Stop()
	for f := faults.next(); c.sleep(c.storm, f.after); f = faults.next() {
		c.strike(f)
	}
}

// settle waits for all faults to end.
func (c *campaign) settle() {
	c.apiBusy.Lock()
	defer c.apiBusy.Unlock()
	for busy := true; busy; time.Sleep(20 * time.Millisecond) {
		busy = false
		c.mu.Lock()
		for _, s := range c.seats {
			busy = busy || s.busy[ofProcess] || s.busy[ofNetwork]
		}
		c.mu.Unlock()
	}
}

// awaitLeader waits until somebody is asked, after an instant, and says that it leads.
func (c *campaign) awaitLeader(ctx context.Context, since, patience time.Duration) bool {
	for deadline := c.now() + patience; c.now() < deadline; {
		c.mu.Lock()
		last := c.lastLed
		c.mu.Unlock()
		if last.token != 0 && last.sent > since {
			return true
		}
		if !c.sleep(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return false
}

// tell tells the progress, and ends the storm where something is wrong.
func (c *campaign) tell() {
	for c.sleep(c.storm, reportEvery) {
		h := c.history.clone()
		v := judge(h)
		accepted, refused := 0, 0
		for _, w := range h.writes {
			if w.accepted {
				accepted++
			} else {
				refused++
			}
		}
		c.mu.Lock()
		faults := 0
		for _, n := range c.faults {
			faults += n
		}
		leader := c.seats[c.leader].name
		c.mu.Unlock()
		fmt.Fprintf(c.stderr, "%4.0fs of %.0fs: %d faults, %d leaderships, last %s, %d asked, %d tokens accepted, %d refused, %d overlaps, %d excused\n",
			c.now().Seconds(), c.length.Seconds(), faults, len(v.leaderships), leader, h.asked, accepted, refused, len(v.overlaps)+len(v.brokenPromises), len(v.excused))
		if len(v.violations) > 0 {
			c.calm()
		}
	}
}

// admit makes a service account that may do what the documentation asks for, and no more.
func (c *campaign) admit(ctx context.Context) error {
	opts := metav1.CreateOptions{}
	meta := metav1.ObjectMeta{Name: account, Namespace: cluster.Namespace}
	role := cluster.LeaseRole(c.lease, "create", "get", "list", "watch", "update")
	role.ObjectMeta = meta
	_, err1 := c.plane.client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, opts)
	_, err2 := c.plane.client.RbacV1().Roles(meta.Namespace).Create(ctx, role, opts)
	_, err3 := c.plane.client.RbacV1().RoleBindings(meta.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: meta.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}, opts)
	return errors.Join(err1, err2, err3)
}

// observe follows the Lease.
func (c *campaign) observe(ctx context.Context) {
	for ; ctx.Err() == nil; c.sleep(ctx, 50*time.Millisecond) {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		lease, err := c.leases.Get(short, c.lease, metav1.GetOptions{})
		cancel()
		version := ""
		switch {
		case apierrors.IsNotFound(err):
			c.saw(nil)
		case err != nil:
			continue
		default:
			c.saw(lease)
			version = lease.ResourceVersion
		}
		watcher, err := c.leases.Watch(ctx, metav1.ListOptions{ResourceVersion: version,
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, c.lease).String()})
		if err != nil {
			continue
		}
		for event := range watcher.ResultChan() {
			lease, _ := event.Object.(*coordinationv1.Lease)
			if event.Type == watch.Deleted {
				lease = nil
			} else if lease == nil {
				break
			}
			c.saw(lease)
		}
		watcher.Stop()
	}
}

func (c *campaign) saw(lease *coordinationv1.Lease) {
	s := sighting{at: c.now()}
	if lease != nil && cluster.Holder(lease) != "" {
		s.held, s.good = true, leaseDuration
		if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
			s.good = time.Duration(*seconds) * time.Second
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sightings = append(c.sightings, s)
}

// led notes who led last.
func (c *campaign) led(seat int, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.token != c.lastLed.token {
		c.events = append(c.events, event{a.received, fmt.Sprintf("%s leads with token %d, asked at %s, valid for %s", a.who, a.token, stamp(a.sent), a.valid)})
	}
	c.leader, c.lastLed = seat, a
}

func (c *campaign) now() time.Duration { return time.Since(c.begun) }

// sleep returns false where ctx ends first.
func (c *campaign) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (c *campaign) count(k kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[k]++
}

func (c *campaign) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event{c.now(), fmt.Sprintf(format, args...)})
}

// violate says that something happened that must not, and ends the storm.
func (c *campaign) violate(format string, args ...any) {
	v := violation{c.now(), fmt.Sprintf(format, args...)}
	c.note("wrong: %s", v.what)
	c.mu.Lock()
	c.violations = append(c.violations, v)
	c.mu.Unlock()
	c.calm()
}

func (c *campaign) wrongs() []violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]violation(nil), c.violations...)
}

// moduleRoot is where the sidecar's source is.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := command(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/elector-sidecar/elector-sidecar")
	return strings.TrimSpace(out), err
}
