// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTable(t *testing.T) {
	got := table{{"killed", "a → b", "4.31 s"}, {"frozen", "nobody → b", "1 ms"}}.headed("what", "from → to", "took").lines()
	want := []string{
		"what    from → to   took",
		"------  ----------  ------",
		"killed  a → b       4.31 s",
		"frozen  nobody → b  1 ms",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCounting(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		want     string
	}{
		"on a terminal": {true, "   waiting… 0.1s\r\x1b[Khello\n   waiting… 0.1s\r\x1b[K   waiting… 0.2s\r\x1b[K"},
		"elsewhere":     {false, "hello\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var shown bytes.Buffer
				p := &printer{out: &shown, terminal: test.terminal}
				end := p.counting("waiting")
				time.Sleep(150 * time.Millisecond)
				p.line("hello")
				time.Sleep(100 * time.Millisecond)
				end()
				if shown.String() != test.want {
					t.Errorf("got %q, want %q", shown.String(), test.want)
				}
			})
		})
	}
}

func TestCountingElsewhereIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		p := &printer{out: &shown}
		end := p.counting("waiting")
		time.Sleep(2500 * time.Millisecond)
		end()
		if want := "   waiting… 1s\n   waiting… 2s\n"; shown.String() != want {
			t.Errorf("got %q, want %q", shown.String(), want)
		}
	})
}

func TestLineWriter(t *testing.T) {
	var shown bytes.Buffer
	w := &lineWriter{out: &printer{out: &shown}, prefix: "> "}
	for _, part := range []string{"on", "e\ntwo\n", "thr"} {
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if want := "> one\n> two\n"; shown.String() != want {
		t.Errorf("got %q, want %q", shown.String(), want)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		650 * time.Microsecond:  "0.7 ms",
		42 * time.Millisecond:   "42 ms",
		4312 * time.Millisecond: "4.31 s",
	} {
		if got := took(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
