// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// rowRead is what the JSON says of a row.
type rowRead struct {
	What                  string
	Ours, ClientGo, Floor struct{ N int }
	Ratio                 float64
	Met                   string
}

// The figures of a quick run mean nothing; that each row is there and has values does.
func TestQuickBenchMeasuresEverything(t *testing.T) {
	binary, err := process.Build(t.Context(), "../..", t.TempDir(), "-ldflags", "-s -w")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-json", "-crowd", "3", "-binary", binary}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got struct {
		Host host
		Rows []rowRead
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	if got.Host.APIServer == "" || got.Host.Go == "" || got.Host.Timings == "" {
		t.Errorf("the host is %+v", got.Host)
	}
	for _, want := range []struct {
		what                    string
		beside, floor, contract bool
	}{
		{"graceful handover", true, true, true},
		{"  of which seen to acquisition decided", false, false, false},
		{"takeover after SIGKILL", true, false, true},
		{"leader whose Lease was rewritten", true, false, true},
		{"process start to leading", true, false, true},
		{"the same after SIGKILL, in the same pod", true, false, true},
		{"requests of a standby at rest", true, false, true},
		{"resident memory at rest, leader", true, false, true},
		{"resident memory at rest, standby", true, false, true},
		{"stripped static binary", true, false, true},
		{"GET /leader under load", false, true, true},
		{"the same at 1000 a second: p99", false, true, true},
		{"100 blocked requests all told", false, true, true},
		{"release among 3 standbys: how many write", false, false, false},
	} {
		i := slices.IndexFunc(got.Rows, func(r rowRead) bool { return strings.HasPrefix(r.What, want.what) })
		if i < 0 {
			t.Errorf("there is no row %q", want.what)
			continue
		}
		row := got.Rows[i]
		if row.Ours.N == 0 || want.beside && row.ClientGo.N == 0 || want.floor && (row.Floor.N == 0 || row.Ratio <= 0) || want.contract && row.Met == "" {
			t.Errorf("row %q lacks something: %+v", want.what, row)
		}
	}
}

func TestTableIsAligned(t *testing.T) {
	times := &sample{}
	for i := range 10 {
		times.add(time.Duration(i+1) * time.Millisecond)
	}
	var out strings.Builder
	printTable(&out, []row{
		{What: "a handover", Unit: ms, Ours: times, Floor: one(2), Limit: "≤ 1", Ratio: 2.75, Met: within(times, 7*time.Millisecond)},
		{What: "b", Unit: mib, Ours: one(1), ClientGo: one(1234), Met: verdict(true)},
	})
	want := `what        unit  ours: median (p90, max)  client-go  floor  contract  ratio  met
a handover  ms    5.5 (9.0, 10.0)                     2.0    ≤ 1       2.75   by the median
b           MiB   1.0                      1234                               yes
`
	if out.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", out.String(), want)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-crowd", "0"}, {"-crowd", "2,x"}, {"-only", "nothing"}, {"-n", "x"}} {
		if _, err := parse(args, os.NewFile(0, os.DevNull)); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	o, err := parse([]string{"-quick", "-n", "7", "-crowd", "2,20", "-only", "rest,size"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if o.effort.handovers != 7 || !slices.Equal(o.crowds, []int{2, 20}) || !slices.Equal(o.only, []string{"rest", "size"}) {
		t.Errorf("read %+v", o)
	}
}
