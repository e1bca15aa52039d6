// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const sigterm = syscall.SIGTERM

// instruction is one line of a Dockerfile.
type instruction struct{ name, arguments string }

// stages are the instructions of a Dockerfile by stage, those before the first FROM left out.
func stages(t *testing.T) [][]instruction {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]instruction
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", "")) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "" || strings.HasPrefix(name, "#"):
		case name == "FROM":
			list = append(list, []instruction{{name, arguments}})
		case len(list) > 0:
			list[len(list)-1] = append(list[len(list)-1], instruction{name, arguments})
		}
	}
	return list
}

func arguments(stage []instruction, name string) (list []string) {
	for _, i := range stage {
		if i.name == name {
			list = append(list, i.arguments)
		}
	}
	return list
}

// TestTheImageIsTheBinaryAlone: it has no shell, and its user is a number that is not root's.
func TestTheImageIsTheBinaryAlone(t *testing.T) {
	all := stages(t)
	last := all[len(all)-1]
	for name, want := range map[string][]string{
		"FROM":       {"scratch"},
		"USER":       {"65532:65532"},
		"EXPOSE":     {"4040"},
		"ENTRYPOINT": {`["/elector-sidecar"]`},
		"COPY":       {"--from=build /out/elector-sidecar /elector-sidecar"},
		"RUN":        nil, // scratch has nothing to run
	} {
		if got := arguments(last, name); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, from := range arguments(slices.Concat(all...), "FROM") {
		if strings.Contains(from, "/") {
			t.Errorf("FROM %s: it names a registry or an owner", from)
		}
	}
}

// TestTheImageRunsAsTheManifestsSay, who must agree on the user.
func TestTheImageRunsAsTheManifestsSay(t *testing.T) {
	c := render(t, "manifests/overlays/example", nil).sidecars(t)[0]
	if *c.SecurityContext.RunAsUser != 65532 || *c.SecurityContext.RunAsGroup != 65532 {
		t.Errorf("the manifests run it as %d:%d", *c.SecurityContext.RunAsUser, *c.SecurityContext.RunAsGroup)
	}
}

// TestTheImagesBuild runs the Dockerfile's own build command on what the Dockerfile copies, less what .dockerignore
// leaves out: with a file too few, it fails.
func TestTheImagesBuild(t *testing.T) {
	build := stages(t)[0]
	source, out := t.TempDir(), t.TempDir()
	for _, copied := range arguments(build, "COPY") {
		fields := strings.Fields(copied)
		for _, name := range fields[:len(fields)-1] {
			if !slices.Contains(sent(t), name) {
				t.Fatalf("COPY %s: .dockerignore leaves it out", name)
			}
			copyTree(t, name, source)
		}
	}
	commands := arguments(build, "RUN")
	command := commands[len(commands)-1]
	if want := `CGO_ENABLED=0 `; !strings.HasPrefix(command, want) {
		t.Errorf("the build is %q, want %q first", command, want)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(command, "/out/", out+"/"))
	shell.Dir = source
	shell.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=v1.2.3")
	if said, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	path := filepath.Join(out, "elector-sidecar")
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Section(".interp") != nil || file.Section(".symtab") != nil {
		t.Error("the binary is not static, or not stripped")
	}
	const limit = 16 << 20
	if info, err := os.Stat(path); err != nil || info.Size() > limit {
		t.Errorf("the binary has %d bytes, more than %d (%v)", info.Size(), limit, err)
	}
	version, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil || !strings.Contains(string(version), "v1.2.3") {
		t.Errorf("--version says %q, %v", version, err)
	}
}

// ignored is the lines of .dockerignore.
func ignored(t *testing.T) (lines []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^[^#\n].*$`).FindAllString(string(content), -1)
}

// sent is what .dockerignore lets through: it begins with "*".
func sent(t *testing.T) (names []string) {
	t.Helper()
	for i, line := range ignored(t) {
		if name, ok := strings.CutPrefix(line, "!"); ok {
			names = append(names, name)
		} else if i == 0 && line != "*" {
			t.Fatalf(".dockerignore begins with %q; this test knows only one that leaves out everything first", line)
		}
	}
	return names
}

// copyTree copies a file or folder of the repository, less what **/ lines of .dockerignore leave out.
func copyTree(t *testing.T, name, to string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, line := range ignored(t) {
			if pattern, ok := strings.CutPrefix(line, "**/"); ok {
				if matches, err := filepath.Match(pattern, d.Name()); err != nil || matches {
					if d.IsDir() {
						return filepath.SkipDir
					}
					return err
				}
			}
		}
		target := filepath.Join(to, strings.TrimPrefix(path, root+"/"))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
