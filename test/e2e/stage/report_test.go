// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

// reign is the work of a pod with that name and UID, from one second to another.
func reign(pod string, token, from, to int) journal.Reign {
	at := func(s int) journal.Entry {
		return journal.Entry{Beat: journal.Beat{Pod: pod, UID: pod, Token: int64(token)}, Arrived: time.Duration(s) * time.Second}
	}
	return journal.Reign{First: at(from), Last: at(to)}
}

func record(holder, version string, second int64) Record {
	return Record{Seen: time.Unix(second, 0), Lease: &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}}
}

func TestSuccession(t *testing.T) {
	released, renewed, renewedByB := record("", "6", 1), record("a_1", "6", 1), record("b_1", "6", 1)
	a, b := reign("a", 5, 1, 4), reign("b", 7, 6, 8)
	for _, c := range []struct {
		x    Succession
		want string
	}{
		{Succession{Old: a, New: b, Before: &released, Began: record("b_1", "7", 3)}, "another pod, after a release"},
		{Succession{Old: a, New: b, Before: &renewed, Began: record("b_1", "7", 3)}, "another pod, on expiry"},
		{Succession{Old: a, New: reign("a", 7, 6, 8), Before: &renewed, Began: record("a_1", "7", 3)}, "the same pod, which takes its lease back"},
		{Succession{Old: a, New: reign("a", 7, 6, 8), Before: &released, Began: record("a_1", "7", 3)}, "the same pod, after a release"},
		{Succession{Old: a, New: reign("a", 7, 6, 8), Before: &renewedByB, Began: record("a_1", "7", 3)}, "the same pod, on expiry"},
		{Succession{Old: a, New: reign("a", 5, 6, 8)}, "the same pod, in the same term"},
	} {
		if got := c.x.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if c.x.Idle() != 2*time.Second {
			t.Errorf("%s: idle for %s", c.want, c.x.Idle())
		}
		if vacant := c.x.Vacant(); c.x.Before != nil && vacant != 2*time.Second || c.x.Before == nil && vacant != 0 {
			t.Errorf("%s: vacant for %s", c.want, vacant)
		}
	}
}

// probe is a test whose failure is looked at, not reported.
type probe struct {
	testing.TB
	failed  bool
	cleanup []func()
}

func (p *probe) Helper()               {}
func (p *probe) Logf(string, ...any)   {}
func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Failed() bool          { return p.failed }
func (p *probe) Cleanup(f func())      { p.cleanup = append(p.cleanup, f) }

func (p *probe) end() {
	for _, f := range p.cleanup {
		f()
	}
}

func TestRows(t *testing.T) {
	reported.rows = nil
	t.Cleanup(func() { reported.rows = nil })
	before := record("", "6", 1)
	x := Succession{Old: reign("a", 5, 1, 4), New: reign("b", 7, 6, 8), Before: &before, Began: record("b_1", "7", 3)}
	for name, limit := range map[string]time.Duration{"slow": time.Second, "fast": 2 * time.Second} {
		p := &probe{TB: t}
		NewRow(p, name, Native, Default).Fill(p, x, limit, "why")
		p.end()
		if p.failed != (name == "slow") {
			t.Errorf("%s: it fails: %t", name, p.failed)
		}
	}
	NewRow(&probe{TB: t}, "begun", Ordinary, Short).Note("something") // the test has died
	var text, page strings.Builder
	printTable(&text, reported.sorted())
	printMarkdown(&page, host{date: "2026-01-02"}, reported.sorted())
	for _, want := range []string{
		"begun  5s/3s/1s, ordinary  something                                                                   FAILED\n" +
			"fast   15s/10s/2s, native  another pod, after a release     2.000 s             2.000 s       2s: why  ok\n" +
			"slow   15s/10s/2s, native  another pod, after a release     2.000 s             2.000 s       1s: why  FAILED\n",
	} {
		if !strings.HasSuffix(text.String(), want) {
			t.Errorf("the table is\n%s\nwant at its end\n%s", text.String(), want)
		}
	}
	for _, want := range []string{"2026-01-02", "| fast | 15s/10s/2s, native | another pod, after a release | 2.000 s | 2.000 s | 2s: why | ok |\n"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
}
