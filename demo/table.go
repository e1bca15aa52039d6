// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"unicode/utf8"
)

// table is rows of cells.
type table [][]string

// lines are the table's, with its columns aligned.
func (t table) lines() []string {
	widths := t.widths()
	lines := make([]string, len(t))
	for i, row := range t {
		for column, cell := range row {
			lines[i] += cell + strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+2)
		}
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// headed is the table under a heading.
func (t table) headed(heading ...string) table {
	t = append(table{heading}, t...)
	var rule []string
	for _, width := range t.widths() {
		rule = append(rule, strings.Repeat("-", width))
	}
	return append(table{heading, rule}, t[1:]...)
}

func (t table) widths() []int {
	var widths []int
	for _, row := range t {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
