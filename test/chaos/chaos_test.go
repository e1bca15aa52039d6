// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(asTheirs) != "" {
		exit(runTheirs())
	}
	os.Exit(m.Run())
}

// TestChaos runs a short campaign. CHAOS_DURATION and CHAOS_SEED make it another one.
func TestChaos(t *testing.T) {
	length, seed := 2*time.Minute, rand.Uint64N(1_000_000)+1
	if testing.Short() {
		length = 20 * time.Second
	}
	var err error
	if text := os.Getenv("CHAOS_DURATION"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("CHAOS_DURATION is %q: %v", text, err)
		}
	}
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED is %q: %v", text, err)
		}
	}
	t.Logf("CHAOS_SEED=%d", seed)
	r, err := run(t.Context(), options{seed: seed, length: length, stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.String())
	if len(r.violations) > 0 {
		t.Fatal(r.story())
	}

	// A campaign in which little happens proves little.
	seconds := int(length / time.Second)
	faults := 0
	for _, n := range r.faults {
		faults += n
	}
	for _, least := range []struct {
		what       string
		got, least int
	}{
		{"faults", faults, seconds / 4},
		{"leaderships", r.leaderships, seconds / 10},
		{"requests", r.asked, seconds * 20},
		{`answers "leader"`, r.answers, seconds * 2},
		{"tokens accepted", r.accepted, seconds},
		{"tokens refused", r.refused, seconds / 60},
	} {
		if least.got < least.least {
			t.Errorf("%d %s; fewer than %d prove too little", least.got, least.what, least.least)
		}
	}
	for _, k := range kinds {
		if length >= 2*time.Minute && r.faults[k.kind] == 0 {
			t.Errorf("there was no fault %q, which proves too little", k.kind)
		}
	}
}
