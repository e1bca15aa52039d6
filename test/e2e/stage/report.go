// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// Row is one measured case in the table.
type Row struct {
	Case    string
	Setting string // timings and shape
	Seen    string // what happened
	Idle    string // how long nobody was at work
	Vacant  string // how long the Lease had no leader
	AtMost  string // what Idle may be
	Verdict string
}

// The verdicts.
const (
	passed = "ok"
	failed = "FAILED"
	notRun = "not run: needs the node"
)

var columns = []string{"case", "setting", "who leads next, or what is seen", "nobody at work for", "by the Lease", "at most", ""}

func (r *Row) cells() []string {
	return []string{r.Case, r.Setting, r.Seen, r.Idle, r.Vacant, r.AtMost, r.Verdict}
}

// report is the rows of this run.
type report struct {
	mu   sync.Mutex
	rows []*Row
}

var reported report

func (p *report) add(r *Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows = append(p.rows, r)
}

// sorted is the rows by case and setting.
func (p *report) sorted() []*Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(p.rows), func(a, b *Row) int {
		return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Setting, b.Setting))
	})
}

// NewRow begins a row. Its verdict is whether the test passes.
func NewRow(t testing.TB, name string, shape Shape, timings Timings) *Row {
	r := &Row{Case: name, Setting: setting(shape, timings), Verdict: failed}
	reported.add(r)
	t.Cleanup(func() {
		if !t.Failed() {
			r.Verdict = passed
		}
	})
	return r
}

// Fill enters what followed on a loss, and holds it to a limit: why says what that is made of.
func (r *Row) Fill(t testing.TB, x Succession, limit time.Duration, why string) {
	t.Helper()
	r.Seen, r.Idle = x.String(), seconds(x.Idle())
	if r.Vacant = "held all the time"; !x.SameTerm() {
		r.Vacant = seconds(x.Vacant())
	}
	r.AtMost = fmt.Sprintf("%s: %s", limit, why)
	t.Logf("%s (%s): %s; nobody at work for %s, by the Lease %s; at most %s", r.Case, r.Setting, r.Seen, r.Idle, r.Vacant, r.AtMost)
	if x.Idle() > limit {
		t.Errorf("nobody was at work for %s, longer than %s: %s", x.Idle(), limit, why)
	}
}

// Note enters what was seen where there is no succession to tell of.
func (r *Row) Note(seen string) { r.Seen = seen }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// printTable prints the rows with their columns aligned.
func printTable(out io.Writer, rows []*Row) {
	lines := [][]string{columns}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	widths := make([]int, len(columns))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}

// printMarkdown prints the rows as a page.
func printMarkdown(out io.Writer, h host, rows []*Row) {
	fmt.Fprintf(out, "# End-to-end cases, as measured\n\nWritten by `make e2e`.\n\n%s\n\n", h)
	for i, cells := range append([][]string{columns, slices.Repeat([]string{"---"}, len(columns))}, cellsOf(rows)...) {
		if i == 1 {
			fmt.Fprintf(out, "|%s|\n", strings.Join(cells, "|"))
			continue
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

func cellsOf(rows []*Row) (all [][]string) {
	for _, r := range rows {
		all = append(all, r.cells())
	}
	return all
}
