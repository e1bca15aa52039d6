// SPDX-License-Identifier: Apache-2.0

//go:build linux && e2e

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snapshot is what a node could change on the host: kind of thing, and what there is of it.
type snapshot map[string][]string

// whereNodesMount are mount points. Others may mount elsewhere meanwhile.
var whereNodesMount = regexp.MustCompile(`^/$|^/(proc|run|sys|tmp|var|etc)(/|$)`)

func takeSnapshot(t *testing.T) snapshot {
	t.Helper()
	s := snapshot{}
	for _, path := range []string{"/run", "/var/lib", "/var/log", "/etc/cni", "/opt/cni"} {
		s["files in "+path] = tree(path, -1)
	}
	for _, line := range readLines(t, "/proc/self/mountinfo") {
		if fields := strings.Fields(line); len(fields) > 4 && whereNodesMount.MatchString(fields[4]) {
			s["mounts"] = append(s["mounts"], line)
		}
	}
	s["network links"] = tree("/sys/class/net", 1)
	if rules, err := exec.Command("nft", "list", "ruleset").Output(); err == nil {
		s["packet filter"] = strings.Split(string(rules), "\n")
	}
	for name := range sysctls {
		s[name] = readLines(t, "/proc/sys/"+name)
	}
	v1, v2, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, hierarchy := range slices.Concat(v1, v2) {
		s["cgroups"] = append(s["cgroups"], tree(hierarchy, 1)...)
	}
	for _, hierarchy := range v2 {
		s["cgroup controllers"] = readLines(t, filepath.Join(hierarchy, "cgroup.subtree_control"))
	}
	return s
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

// tree lists what is below a path, so many levels deep.
func tree(path string, levels int) (paths []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		below := filepath.Join(path, entry.Name())
		paths = append(paths, below)
		if entry.Type() == fs.ModeDir && levels != 1 {
			paths = append(paths, tree(below, levels-1)...)
		}
	}
	return paths
}

// difference lists what is in one of two snapshots alone. Cgroups of other nodes do not count.
func (s snapshot) difference(other snapshot, ownCgroup string) (lines []string) {
	for kind, these := range s {
		those := other[kind]
		for _, line := range slices.Concat(these, those) {
			if slices.Contains(these, line) == slices.Contains(those, line) {
				continue
			}
			if name := filepath.Base(line); strings.HasPrefix(name, cgroupPrefix) && name != ownCgroup {
				continue
			}
			lines = append(lines, kind+": "+line)
		}
	}
	return lines
}

// belongings tell which processes belong to a node.
type belongings struct{ net, pid, cgroup string }

// processes returns the commands of the processes that are in the node's network namespace, pid namespace or cgroup.
func (b belongings) processes() (commands []string) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		net, _ := os.Readlink(entry + "/ns/net")
		pid, _ := os.Readlink(entry + "/ns/pid")
		cgroups, _ := os.ReadFile(entry + "/cgroup")
		if net == b.net || pid == b.pid || strings.Contains(string(cgroups), "/"+b.cgroup+"/") {
			command, _ := os.ReadFile(entry + "/comm")
			commands = append(commands, strings.TrimSpace(string(command)))
		}
	}
	return commands
}
