// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// FuzzLease lets a machine contend for a Lease that a stranger writes over and over: anything that decodes into one. What
// the API server accepts is stored, what it does not is shown to the machine all the same. The second argument says what
// happens, a byte a step. After each step ordeal.check has its say.
func FuzzLease(f *testing.F) {
	leases := []string{
		`{}`,
		`{"spec":{}}`,
		`{"spec":{"holderIdentity":""}}`,
		`{"spec":{"holderIdentity":"b_1"}}`,
		`{"spec":{"leaseTransitions":2147483647}}`,
		`{"spec":{"holderIdentity":"a_1"}}`,
		`{"spec":{"holderIdentity":"b_1","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:10.000000Z","leaseTransitions":3}}`,
		`{"spec":{"holderIdentity":"b_1","leaseDurationSeconds":2147483647,"renewTime":"9999-12-31T23:59:59.999999Z","leaseTransitions":2147483647}}`,
		`{"spec":{"holderIdentity":"b_1","leaseDurationSeconds":1,"acquireTime":"0001-01-01T00:00:00.000000Z","renewTime":"0000-01-01T00:00:00.000000+14:00"}}`,
		`{"spec":{"holderIdentity":"a_1","leaseDurationSeconds":0,"leaseTransitions":-2147483648}}`,
		`{"spec":{"holderIdentity":"a_1","leaseDurationSeconds":-1,"renewTime":null}}`,
		`{"metadata":{"annotations":{"elector-sidecar/sandbox":"here"}},"spec":{"holderIdentity":"a_1","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:10.000000Z"}}`,
		`{"metadata":{"annotations":{"elector-sidecar/sandbox":"here"}},"spec":{"holderIdentity":"a_1","renewTime":"9999-12-31T23:59:59.999999Z"}}`,
		`{"metadata":{"annotations":{"elector-sidecar/sandbox":"there","team":"x"},"labels":{"app":"web"},"finalizers":["x/y"]},"spec":{"holderIdentity":"a_1"}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-0","uid":"1"},{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"2"}]}}`,
		`{"metadata":{"resourceVersion":"18446744073709551615","uid":"x"},"spec":{"holderIdentity":"b_1"}}`,
		`{"metadata":{"resourceVersion":"007"},"spec":{"holderIdentity":"a_1","leaseDurationSeconds":-2147483648}}`,
		`{"metadata":{"resourceVersion":"0x10"}}`,
		`{"spec":{"holderIdentity":"b_1","leaseDurationSeconds":15,"strategy":"OldestEmulationVersion","preferredHolder":"c_1"}}`,
	}
	runs := []string{
		"", "watch", "\x02\x00\x05\x00", // sees it, takes it
		"\x02\x00\x05e\x04\x05e\x04\x05\x06e\x04e\x05",                             // leads, and lapses
		"\x02\x00\x05\x09\x02e\x05\x0a\x02\x0b\x02\x00\x05",                        // leads, and loses it to the stranger
		"\x02\x00\x05\x09\x01\x05\x04\x00\x05\x06\x04\x00\x07\x04\x00\x08\x00\x0e", // conflicts, losses and refusals
		"\x02\x00\x05\x24\x01\x0f\x05ee\x05\x13\x01\x05\x27\x05",                   // resigns; the app is unwell
		"\x02\x00\x05\xda\x01\x05\x0f\x07\x06\x04\x04",                             // stops
		"\x02\x01\x01\x01\x01\x01\x05\x01\x05\x01\x05", "\x09\x02\x11\x05\x06\x05\x0c", "\x0b\x02\x11\x06\x09\x02\x04\x05\x12\x05",
	}
	for _, lease := range leases {
		for _, run := range runs {
			f.Add([]byte(lease), []byte(run))
		}
	}
	f.Fuzz(func(t *testing.T, stranger, run []byte) {
		lease := &coordinationv1.Lease{}
		if json.Unmarshal(stranger, lease) != nil {
			return
		}
		if len(run) > 200 {
			run = run[:200]
		}
		o := newOrdeal(t, lease)
		for _, b := range run {
			o.happen(b)
		}
		o.end()
	})
}

// ordeal is a machine, and all that can happen to it.
type ordeal struct {
	*testing.T
	*machine
	now      Instant
	store    *electortest.Store
	api      *electortest.Client
	stranger *coordinationv1.Lease
	asked    bool // a read is under way
	base     *record

	led      bool // as of the last step
	tokens   uint64
	stored   map[*write]bool   // by the API server
	wrote    map[[2]int64]bool // the acquireTime and renewTime of all that the machine wrote
	deadline time.Duration     // on the boot clock, of the last renewal that was answered
}

func newOrdeal(t *testing.T, stranger *coordinationv1.Lease) *ordeal {
	m := newMachine(settings{
		lease: types.NamespacedName{Namespace: "shop", Name: "web"}, identity: "a_1", sandbox: "here",
		leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second, handoverTimeout: 5 * time.Second,
		random: func() float64 { return 0.5 },
	})
	store := electortest.NewStore()
	return &ordeal{T: t, machine: m, store: store, api: store.Leases("shop"), stranger: stranger, stored: map[*write]bool{}, wrote: map[[2]int64]bool{},
		now: Instant{Boot: time.Hour, Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
}

// happen lets one thing happen: b says what, and how much.
func (o *ordeal) happen(b byte) {
	much := time.Duration(b/20 + 1)
	switch b % 20 {
	case 0:
		o.pass(much * 5 * time.Millisecond)
	case 1:
		o.pass(much * 2 * time.Second)
	case 2:
		o.see(byWatch)
	case 3:
		o.see(byList)
	case 4:
		o.answerRead()
	case 5:
		o.answerWrite(nil)
	case 6:
		o.loseAnswer()
	case 7: // it never arrived
		o.answerWrite(errors.New("timeout"))
	case 8:
		o.answerWrite(apierrors.NewForbidden(coordinationv1.Resource("leases"), "web", nil))
	case 9:
		o.write(o.stranger)
	case 10: // the same again, with one difference
		other := o.stranger.DeepCopy()
		other.Spec.RenewTime = &metav1.MicroTime{Time: onTheWire(o.now.Wall)}
		o.write(other)
	case 11:
		_ = o.store.Delete("shop", "web") // there may be none
	case 12: // what no API server would show
		if r, err := readLease(o.stranger); err == nil {
			o.step(observed{from: source(much % 2), record: r, version: r.version})
		}
	case 13:
		o.now.Wall = o.now.Wall.Add((much - 7) * time.Hour)
		o.step(tick{})
	case 14:
		if o.asked {
			o.asked = false
			o.step(readFailed{err: errors.New("timeout")})
		}
	case 15:
		o.step(release{})
	case 16:
		o.step(resign{cooldown: much * time.Second})
	case 17:
		o.step(tick{})
	case 18:
		if much > 10 {
			o.step(stop{})
		}
	case 19:
		o.step(health{err: []error{nil, errors.New("unwell")}[much%2]})
	}
}

func (o *ordeal) pass(d time.Duration) {
	o.now = o.now.Add(d)
	o.step(tick{})
}

// step steps the machine, and does with its output what the driver does.
func (o *ordeal) step(in input) {
	o.Helper()
	before, busy := o.machine.state, o.inFlight
	out := o.machine.step(o.now, in)
	if w := out.write; w != nil {
		if busy != nil && !out.abandon && !answers(in, busy) { // rule S1
			o.Fatal("a write is sent while another is in flight")
		}
		o.checkWrite(w)
	}
	if out.read {
		if o.asked {
			o.Fatal("a read is sent while another is under way")
		}
		o.asked = true
	}
	if out.write != nil && out.read {
		o.Fatal("a read and a write are sent at once")
	}
	o.check(before, in, out)
}

// answers tells whether an input is the answer to a write.
func answers(in input, w *write) bool {
	switch in := in.(type) {
	case written:
		return in.write == w
	case writeFailed:
		return in.write == w
	}
	return false
}

func (o *ordeal) check(before State, in input, out output) {
	o.Helper()
	leads := o.machine.leading(o.now)
	if w, ok := in.(written); ok && o.ours {
		o.deadline = w.write.sent.Boot + o.renewDeadline
	}
	if leads && !o.led { // rule S2
		if w, ok := in.(written); !ok || !o.stored[w.write] || w.write.purpose == releasing {
			o.Fatalf("it leads after %T %+v", in, in)
		}
		if o.token <= o.tokens { // rule S7
			o.Fatalf("the token %d follows %d", o.token, o.tokens)
		}
		o.tokens = o.token
	}
	o.led = leads
	if leads && (o.seen == nil || o.seen.holder != o.identity || !o.ours || o.seen.uid != o.last.uid) { // rule S5
		o.Fatalf("it leads, although it has seen %+v", o.seen)
	}
	if leads && !o.wrote[times(o.seen)] {
		o.Fatalf("it leads, although another wrote %+v", o.seen)
	}
	if leads && o.now.Boot >= o.deadline { // rule S3
		o.Fatalf("it leads at %s, although its deadline was %s", o.now.Boot, o.deadline)
	}
	if o.unwell != nil && o.machine.state == Leading {
		o.Fatal("it leads, although its app is unwell")
	}
	if o.machine.state != before && !slices.Contains(legal[before], o.machine.state) && !o.reachable(before, o.machine.state) {
		o.Fatalf("from %s to %s", before, o.machine.state)
	}
	if o.failure != nil && o.machine.state == Stopped && !o.stopping {
		o.Fatal(o.failure)
	}
	if out.wake <= 0 && o.machine.state != Stopped {
		o.Fatalf("it is never woken: %+v", out)
	}
	status := snapshotStatus(o.machine, o.now)
	if status.IsLeader != leads || status.IsLeader != (status.FencingToken != 0) || status.IsLeader != (status.ValidFor > 0) || leads && status.Leader != o.identity {
		o.Fatalf("it leads: %t, and says %+v", leads, status)
	}
	if !leads && status.Leader == o.identity {
		o.Fatalf("it does not lead, and says %+v", status)
	}
}

func times(r *record) [2]int64 { return [2]int64{r.acquired.UnixMicro(), r.renewed.UnixMicro()} }

// reachable tells whether two transitions of one step lead there.
func (o *ordeal) reachable(from, to State) bool {
	return slices.ContainsFunc(legal[from], func(via State) bool { return slices.Contains(legal[via], to) })
}

func snapshotStatus(m *machine, now Instant) Status {
	s := m.snapshot(now)
	return s.at(now, m.identity, s.over(now))
}

// checkWrite checks what is about to be written.
func (o *ordeal) checkWrite(w *write) {
	o.Helper()
	o.base = o.seen
	o.wrote[times(w.record)] = true
	lease := w.record.lease
	if o.seen == nil {
		if w.record.version != 0 || lease.ResourceVersion != "" {
			o.Fatalf("it creates %+v", lease)
		}
	} else if w.record.version != o.seen.version || lease.ResourceVersion != o.seen.lease.ResourceVersion || lease.UID != o.seen.uid { // rule S1
		o.Fatalf("it decided on version %d and writes %+v", o.seen.version, lease)
	} else if was, is := foreign(o.seen.lease), foreign(lease); !reflect.DeepEqual(was, is) {
		o.Fatalf("it changes what is not its own: from %+v to %+v", was, is)
	}
	wire, err := json.Marshal(lease)
	back := &coordinationv1.Lease{}
	if err == nil {
		err = json.Unmarshal(wire, back)
	}
	if err != nil {
		o.Fatalf("the API server cannot read what it writes: %v\n%s", err, wire)
	}
	back.ResourceVersion = "1"
	if r, err := readLease(back); err != nil || !r.writtenBy(w.record) || !(r.uid != "" || w.record.uid == "") {
		o.Fatalf("it would not know again what it writes: %+v, %v", r, err)
	}
}

// foreign is what of a Lease is not the election's.
func foreign(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	lease.OwnerReferences = withoutPods(lease.OwnerReferences)
	maps.DeleteFunc(lease.Annotations, func(name, _ string) bool { return name == SandboxAnnotation })
	if len(lease.Annotations) == 0 {
		lease.Annotations = nil
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.LeaseTransitions = nil, nil, nil
	lease.Spec.AcquireTime, lease.Spec.RenewTime = nil, nil
	return lease
}

// ---- The API server -------------------------------------------------------------------------------------------------

// write is the stranger's: the Lease becomes what it has, or is created so.
func (o *ordeal) write(lease *coordinationv1.Lease) {
	err := o.store.Edit("shop", "web", func(stored *coordinationv1.Lease) {
		stored.Labels, stored.Annotations, stored.OwnerReferences = lease.Labels, lease.Annotations, lease.OwnerReferences
		lease.Spec.DeepCopyInto(&stored.Spec)
	})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{Spec: *lease.Spec.DeepCopy(), ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop",
			Labels: lease.Labels, Annotations: lease.Annotations, OwnerReferences: lease.OwnerReferences}}
		_, _ = o.api.Create(context.Background(), lease, metav1.CreateOptions{}) // it may be invalid
	}
}

func (o *ordeal) look() *record {
	lease := o.store.Peek("shop", "web")
	if lease == nil {
		return nil
	}
	r, err := readLease(lease)
	if err != nil {
		o.Fatal(err)
	}
	return r
}

// see shows the machine the Lease as it is.
func (o *ordeal) see(from source) {
	r := o.look()
	version := uint64(0)
	if r != nil {
		version = r.version
	} else if writes := o.store.Writes(); from != byRead {
		version = 1000
		if len(writes) > 0 {
			version, _ = parseVersion(writes[len(writes)-1].ResourceVersion)
		}
	}
	o.step(observed{from: from, record: r, version: version})
}

func (o *ordeal) answerRead() {
	if o.asked {
		o.asked = false
		o.see(byRead)
	}
}

// answerWrite answers the write in flight: with err, or with what the API server says.
func (o *ordeal) answerWrite(err error) {
	w := o.inFlight
	if w == nil {
		return
	}
	if err == nil {
		var record *record
		if record, err = o.arrive(w); err == nil {
			o.step(written{write: w, record: record})
			return
		}
	}
	o.step(writeFailed{write: w, outcome: outcomeOf("update", err), err: err})
}

// loseAnswer lets the write in flight arrive, and its answer not.
func (o *ordeal) loseAnswer() {
	if w := o.inFlight; w != nil {
		_, _ = o.arrive(w)
		o.step(writeFailed{write: w, outcome: unknown, err: errors.New("timeout")})
	}
}

// arrive lets a write arrive at the API server.
func (o *ordeal) arrive(w *write) (*record, error) {
	o.Helper()
	lease, err := (*coordinationv1.Lease)(nil), error(nil)
	if w.record.version == 0 {
		lease, err = o.api.Create(context.Background(), w.record.lease, metav1.CreateOptions{})
	} else {
		lease, err = o.api.Update(context.Background(), w.record.lease, metav1.UpdateOptions{})
	}
	if apierrors.IsInvalid(err) {
		if o.base == nil || sameAsStored(o.base.lease, o.store) {
			o.Fatalf("it wrote what the API server refuses: %v", err)
		}
		return nil, err
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil {
		o.Fatal(fmt.Errorf("the API server: %w", err))
	}
	o.stored[w] = true
	return readLease(lease)
}

// sameAsStored tells whether the API server ever had a Lease.
func sameAsStored(lease *coordinationv1.Lease, store *electortest.Store) bool {
	return slices.ContainsFunc(store.Writes(), func(w electortest.Write) bool {
		return w.Lease != nil && w.Lease.ResourceVersion == lease.ResourceVersion && reflect.DeepEqual(w.Lease.Spec, lease.Spec)
	})
}

// end stops the machine, with no API server any more: it has to come to an end.
func (o *ordeal) end() {
	o.step(stop{})
	for range 200 {
		if o.machine.state == Stopped {
			return
		}
		o.pass(200 * time.Millisecond)
		if o.machine.leading(o.now) {
			o.Fatal("it leads after its end")
		}
		if o.inFlight != nil {
			o.answerWrite(errors.New("timeout"))
		}
		if o.asked {
			o.asked = false
			o.step(readFailed{err: errors.New("timeout")})
		}
	}
	o.Fatalf("it does not end: %+v", o.machine)
}
