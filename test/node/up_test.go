// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A node that stays is up once, whatever is asked, and down takes all of it away.
func TestUpAndDown(t *testing.T) {
	before, dir := takeSnapshot(t), t.TempDir()
	run := func(verb string) string {
		t.Helper()
		cmd := exec.Command(program, verb, "-dir", dir, "-images", image)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() { run("down") })

	first := run("up")
	s, err := (&folder{path: filepath.Join(dir, upName)}).read()
	if err != nil {
		t.Fatal(err)
	}
	its, err := belongingsOf(s.Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	if again := run("up"); !strings.Contains(again, "up already") || !strings.HasSuffix(again, first) {
		t.Errorf("the second up says:\n%s\nThe first said:\n%s", again, first)
	}
	if still, err := belongingsOf(s.Supervisor); err != nil || still != its {
		t.Errorf("after the second up the node is another one: %v, %v, %v", its, still, err)
	}
	run("down")
	checkNothingIsLeft(t, dir, its, before)
	run("down")
}
