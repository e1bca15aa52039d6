// SPDX-License-Identifier: Apache-2.0

// Command mutants shows that the simulation bites: it takes one guard of the election away at a time, in a copy of the
// source that is laid over it, and sees whether the simulation's short run notices. It exits with 1 if one survives.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one guard taken away.
type mutant struct {
	name     string
	file     string // in pkg/elector
	old, new string // old occurs once
}

var mutants = []mutant{
	{"S1: writes twice at once", "machine.go",
		"\tcase m.inFlight != nil || m.reading:\n\tcase m.wantRead:\n\t\tm.read(now)\n\tcase m.reached(now, m.renewedAt", "\tcase m.wantRead:\n\t\tm.read(now)\n\tcase m.reached(now, m.renewedAt"},
	{"S1: writes on a newer version than it decided on", "lease.go",
		"r.version = base.version\n", "r.version = base.version + 1\n"},
	{"S2: takes its own name for its own record", "machine.go",
		"	if r.writtenBy(m.last) || m.inFlight != nil && r.writtenBy(m.inFlight.record) {\n\t\treturn true", "	if true {\n\t\treturn true"},
	{"S2: leads on reading its own record", "machine.go",
		"\tcase m.ours:\n\t\tm.keep(r)\n", "\tcase m.ours:\n\t\tm.keep(r)\n\t\tif m.state == Following && !m.stopping {\n\t\t\tm.renewedAt, m.token = now, version\n\t\t\tm.become(Leading)\n\t\t}\n"},
	{"S2: resumes wherever its name stands", "machine.go",
		` && m.sandbox != "" && r.sandbox == m.sandbox {`, " {"},
	{"S3: has no deadline", "machine.go",
		"return now.worstSince(m.renewedAt) < m.renewDeadline", "return true"},
	{"S3: counts from the answer", "machine.go",
		"m.renewedAt = in.write.sent\n", "m.renewedAt = now\n"},
	{"S3: believes the boot clock alone", "clock.go",
		"return max(i.Boot-then.Boot, i.Wall.Sub(then.Wall))", "return i.Boot - then.Boot"},
	{"S3: believes the time of day alone", "clock.go",
		"return max(i.Boot-then.Boot, i.Wall.Sub(then.Wall))", "return i.Wall.Sub(then.Wall)"},
	{"S4: trusts renewTime", "machine.go",
		"return m.goodFor() - (now.Boot - m.seenAt.Boot)", "return m.goodFor() - now.Wall.Sub(m.seen.renewed)"},
	{"S4: uses its own duration", "machine.go",
		"	if m.seen.duration == 0 {\n\t\treturn m.leaseDuration\n\t}\n\treturn m.seen.duration", "	return m.leaseDuration"},
	{"S4: does not start anew when the record changes", "machine.go",
		"if !m.known || !r.sameTerms(m.seen) {", "if !m.known || r == nil || m.seen == nil || r.holder != m.seen.holder {"},
	{"S5: ignores what is written over its record", "machine.go",
		"\t\tm.lose(m.usurper())\n\tcase m.state == HandingOver:", "\tcase m.state == HandingOver:"},
	{"S5: ignores the Lease's UID", "lease.go",
		`(w.uid == "" || r.uid == w.uid)`, "true"},
	{"S7: keeps the token of an earlier term", "machine.go",
		"	m.token = in.record.version\n", "	if m.token == 0 {\n\t\tm.token = in.record.version\n\t}\n"},
	{"release: without looking whose record it is", "machine.go",
		"\tcase m.ours && !m.wantRead:\n", "\tcase m.seen != nil && m.seen.holder != \"\" && !m.wantRead:\n"},
	{"release: gives up on a conflict", "machine.go",
		"		m.wantRead, m.contested, m.retryAt = true, w, Instant{}\n", "		if m.state == HandingOver {\n\t\t\tm.become(Stopped)\n\t\t\treturn\n\t\t}\n\t\tm.wantRead, m.contested, m.retryAt = true, w, Instant{}\n"},
	{"stop: goes on leading", "machine.go",
		"\tm.become(HandingOver)\n\tm.keepUntil(now.Add(m.handoverTimeout))\n", "\tm.keepUntil(now.Add(m.handoverTimeout))\n"},
	{"stop: keeps for its withdrawal what is not its own any more", "machine.go",
		"m.retracting && m.ours && m.fresh(now) && !m.reached", "m.retracting && m.fresh(now) && !m.reached"},
	{"stop: does not settle writes without an answer", "machine.go",
		"case !m.wantRead && len(m.unsettled) == 0:", "case !m.wantRead:"},
	{"stop: leaves a write on the wire", "machine.go",
		"(m.ours || m.inFlight != nil || len(m.unsettled) > 0)", "m.ours"},
	{"liveness: never takes an expired lease", "machine.go",
		"case m.expiresIn(now) <= 0:", "case false:"},
	{"liveness: does not see that a lease is free", "machine.go",
		"	case m.seen.holder == \"\":\n\t\treturn \"it is free\", true\n", ""},
	{"liveness: does not recreate a Lease", "machine.go",
		"	case m.seen == nil:\n\t\treturn \"there is no Lease\", true\n", "\tcase m.seen == nil:\n\t\treturn \"\", false\n"},
	{"liveness: believes a silent watch", "machine.go",
		"	if m.doubtedFor != m.seenAt && m.reached(", "	if false && m.reached("},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	survivors := 0
	for _, m := range mutants {
		violation, err := m.try(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if violation == "" {
			survivors++
			violation = "SURVIVED"
		}
		fmt.Printf("%-52s %s\n", m.name, violation)
	}
	if survivors > 0 {
		return fmt.Errorf("%d of %d survived", survivors, len(mutants))
	}
	fmt.Printf("all %d were noticed\n", len(mutants))
	return nil
}

var noticed = regexp.MustCompile(`(?m)(seed \d+|panic): .*$`)

// try returns what the simulation's short run says of the mutant, "" where it notices nothing.
func (m *mutant) try(dir string) (violation string, err error) {
	path, err := filepath.Abs(filepath.Join("pkg", "elector", m.file))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("the guard %q occurs %d times in %s, not once", m.old, n, m.file)
	}
	changed := filepath.Join(dir, m.file)
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", err
	}
	test := exec.Command("go", "test", "-count=1", "-overlay", overlayFile, "-vet=off", "-run", "^TestSimulation$", "-timeout", "5m", "./pkg/elector")
	out, err := test.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if found := noticed.Find(out); found != nil {
		return string(found), nil
	}
	return "", errors.Join(err, fmt.Errorf("the simulation did not run:\n%s", out))
}
