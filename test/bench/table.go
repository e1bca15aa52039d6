// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// The units of a row.
const (
	ms        = "ms"
	perMinute = "/min"
	mib       = "MiB"
	requests  = "requests"
)

// row is one thing that was measured.
type row struct {
	What     string  `json:"what"`
	Unit     string  `json:"unit"`
	Ours     *sample `json:"ours,omitempty"`
	ClientGo *sample `json:"clientGo,omitempty"`
	Floor    *sample `json:"floor,omitempty"`
	Limit    string  `json:"limit,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"` // of the medians, ours to the floor
	Met      string  `json:"met,omitempty"`   // whether the contract is met
}

func limit(d time.Duration) string { return fmt.Sprintf("≤ %d", d.Milliseconds()) }

func verdict(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

// within tells whether every value is within a limit, or half of them.
func within(s *sample, limit time.Duration) string {
	most := float64(limit.Milliseconds())
	if s.max() > most && s.median() <= most {
		return "by the median"
	}
	return verdict(s.max() <= most)
}

func (r *row) cells() []string {
	ratio := ""
	if r.Ratio != 0 {
		ratio = fmt.Sprintf("%.2f", r.Ratio)
	}
	return []string{r.What, r.Unit, figures(r.Ours), figures(r.ClientGo), figures(r.Floor), r.Limit, ratio, r.Met}
}

// figures is a sample in a table: median (p90, max).
func figures(s *sample) string {
	switch {
	case s == nil || len(s.values) == 0:
		return ""
	case len(s.values) == 1:
		return number(s.values[0])
	}
	return fmt.Sprintf("%s (%s, %s)", number(s.median()), number(s.p90()), number(s.max()))
}

func number(v float64) string {
	if v >= 100 || v <= -100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// printTable prints the rows with their columns aligned.
func printTable(out io.Writer, rows []row) {
	lines := [][]string{{"what", "unit", "ours: median (p90, max)", "client-go", "floor", "contract", "ratio", "met"}}
	for i := range rows {
		lines = append(lines, rows[i].cells())
	}
	widths := make([]int, len(lines[0]))
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

// report is everything that is printed.
type report struct {
	Host host  `json:"host"`
	Rows []row `json:"rows"`
}

func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	fmt.Fprintln(out, r.Host)
	printTable(out, r.Rows)
	return nil
}
