// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// FuzzConfig reads any environment: lines of NAME=value, of which the names that the configuration does not know are
// ignored, on top of one that is good. It is refused, with a line that begins with the variable's name for each problem,
// or it is one that an election can run with.
func FuzzConfig(f *testing.F) {
	for _, test := range badValues {
		f.Add(test.env)
	}
	f.Add("")
	f.Add("POD_UID=3f0c9f1e")
	f.Add("ELECTOR_IDENTITY=me_1\nPOD_UID=$(x)")
	f.Add("ELECTOR_LEASE_DURATION=1s\nELECTOR_RENEW_DEADLINE=999ms\nELECTOR_RETRY_PERIOD=150ms\nELECTOR_HANDOVER_TIMEOUT=1h\nELECTOR_MAX_WAITERS=+7")
	f.Add("ELECTOR_LEASE_DURATION=2147483647s\nELECTOR_RENEW_DEADLINE=2147483646s\nELECTOR_RETRY_PERIOD=1ns")
	f.Add("ELECTOR_HTTP_ADDRESS=[::1%lo]:0\nELECTOR_LOG_FORMAT=json\nKUBECONFIG=\x01")
	known := map[string]bool{}
	for _, name := range variables() {
		known[name] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		var env []string
		for line := range strings.SplitSeq(text, "\n") {
			if name, value, ok := strings.Cut(line, "="); ok && known[name] && !strings.Contains(value, "\x00") {
				env = append(env, line)
			}
		}
		setEnv(t, env...)
		c, err := loadConfig()
		if err != nil {
			checkProblems(t, err)
			return
		}
		if !utf8.ValidString(c.Identity) {
			t.Errorf("the identity %q comes back from the API as another: the process would take the lease and never lead", c.Identity)
		}
		if problem := unfit(c); problem != "" {
			t.Errorf("%q is taken as %+v, but %s", env, c, problem)
		}
	})
}

// checkProblems checks that each line names a variable first, and that none has two.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	told := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if !slices.Contains(variables(), name) || told[name] {
			t.Errorf("a line that names no variable, or one for the second time: %q", line)
		}
		told[name] = true
	}
}

// unfit says why an election cannot run with a configuration.
func unfit(c *config) string {
	contest := c.elector(electortest.NewStore().Leases("shop"), "here")
	if _, err := elector.New(contest); err != nil {
		return err.Error()
	}
	var back string
	if wire, err := json.Marshal(contest.Identity); err != nil || json.Unmarshal(wire, &back) != nil || back != contest.Identity {
		return "the Lease would name it as " + back
	}
	if strings.ContainsAny(contest.Identity+c.PodName, "\n\r \t") {
		return "a name has white space"
	}
	if c.MaxWaiters.int < 1 || c.LeaseDuration.Duration < time.Second {
		return "a number is out of bounds"
	}
	return ""
}
