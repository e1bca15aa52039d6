// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestImage compares each file with what the OCI image specification and docker save have.
func TestImage(t *testing.T) {
	binary := programFile(t, amd64)
	got := readImage(t, write(t, "-binary", binary, "-name", "e2e-app:v1", "-entrypoint", "/app pause -v", "-user", "0:0", "-port", "80"))

	config := `{"created":"1970-01-01T00:00:00Z","architecture":"amd64","os":"linux",` +
		`"config":{"User":"0:0","ExposedPorts":{"80/tcp":{}},"Entrypoint":["/app","pause","-v"]},` +
		`"rootfs":{"type":"layers","diff_ids":["sha256:` + sum(got.layer) + `"]}}`
	var compressed string
	for name, content := range got.files {
		if strings.HasPrefix(content, "\x1f\x8b") {
			compressed = strings.TrimPrefix(name, "blobs/sha256/")
		}
	}
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
		`"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%d},`+
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%d}]}`,
		sum(config), len(config), compressed, len(got.files["blobs/sha256/"+compressed]))
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",`+
		`"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%d,`+
		`"platform":{"architecture":"amd64","os":"linux"},`+
		`"annotations":{"io.containerd.image.name":"docker.io/library/e2e-app:v1","org.opencontainers.image.ref.name":"v1"}}]}`,
		sum(manifest), len(manifest))
	want := map[string]string{
		"oci-layout":                    `{"imageLayoutVersion":"1.0.0"}`,
		"index.json":                    index,
		"blobs/sha256/" + sum(manifest): manifest,
		"blobs/sha256/" + sum(config):   config,
		"blobs/sha256/" + compressed:    got.files["blobs/sha256/"+compressed],
		"manifest.json": `[{"Config":"blobs/sha256/` + sum(config) + `","RepoTags":["e2e-app:v1"],` +
			`"Layers":["blobs/sha256/` + compressed + `"]}]`,
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got.files[name] != want[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, got.files[name], want[name])
		}
	}
	if len(got.files) != len(want) {
		t.Errorf("there are %q", slices.Sorted(maps.Keys(got.files)))
	}

	r := tar.NewReader(bytes.NewReader(got.layer))
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "app" || header.Mode != 0o555 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("the layer has %+v", header)
	}
	content, err := io.ReadAll(r)
	if original, _ := os.ReadFile(binary); err != nil || !bytes.Equal(content, original) {
		t.Errorf("the program in the layer is another one (%v)", err)
	}
	if header, err := r.Next(); err != io.EOF {
		t.Errorf("the layer has %+v too (%v)", header, err)
	}
}

func TestNoPort(t *testing.T) {
	config := readImage(t, write(t, "-binary", programFile(t, amd64), "-port", "0")).config
	if strings.Contains(config, "ExposedPorts") {
		t.Error(config)
	}
}

// TestSeveralPlatforms: the name is that of an index, and tools that know no index get the first.
func TestSeveralPlatforms(t *testing.T) {
	s390x := header{elf.EM_S390, elf.ELFCLASS64, elf.ELFDATA2MSB, elf.ELFOSABI_LINUX, elf.ET_EXEC, nil}
	got := readImage(t, write(t, "-binary", programFile(t, arm64), "-binary", programFile(t, amd64), "-binary", programFile(t, s390x)))
	type descriptors struct {
		Manifests []struct {
			MediaType, Digest string
			Size              int
			Platform          struct{ Architecture, OS string }
			Annotations       map[string]string
		}
	}
	var top, index descriptors
	decode(t, got.files["index.json"], &top)
	if len(top.Manifests) != 1 || top.Manifests[0].MediaType != indexType ||
		top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/elector-sidecar:latest" {
		t.Fatalf("index.json: %+v", top)
	}
	blob := func(digest string) string { return got.files["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")] }
	decode(t, blob(top.Manifests[0].Digest), &index)
	var platforms []string
	for _, d := range index.Manifests {
		var m struct{ Config struct{ Digest string } }
		decode(t, blob(d.Digest), &m)
		var c struct{ Architecture, OS string }
		decode(t, blob(m.Config.Digest), &c)
		if c != d.Platform || d.Size != len(blob(d.Digest)) {
			t.Errorf("the index says %+v, the configuration %+v", d, c)
		}
		platforms = append(platforms, c.OS+"/"+c.Architecture)
	}
	if want := []string{"linux/arm64", "linux/amd64", "linux/s390x"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms are %q, want %q", platforms, want)
	}
	if !strings.Contains(got.config, `"arm64"`) {
		t.Errorf("manifest.json is for %s", got.config)
	}
}

// TestSameBytes: what is written depends on the binary's content alone, not on its name and times.
func TestSameBytes(t *testing.T) {
	one, other := programFile(t, amd64), programFile(t, amd64)
	if err := os.Chtimes(other, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(write(t, "-binary", one))
	b, errB := os.ReadFile(write(t, "-binary", other))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !bytes.Equal(a, b) {
		t.Error("the same binary gave two images")
	}
}

func TestBadInput(t *testing.T) {
	good := programFile(t, amd64)
	with := func(change func(*header)) string {
		h := amd64
		change(&h)
		return programFile(t, h)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image.tar")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no binary":        {nil, "-binary and -o are needed"},
		"no file to write": {[]string{"-binary", good, "-o", ""}, "-binary and -o are needed"},
		"missing":          {[]string{"-binary", out + ".none"}, "no such file"},
		"a script":         {[]string{"-binary", script}, "not a Linux binary"},
		"another system":   {[]string{"-binary", with(func(h *header) { h.system = elf.ELFOSABI_FREEBSD })}, "not a Linux binary but for"},
		"an object file":   {[]string{"-binary", with(func(h *header) { h.kind = elf.ET_REL })}, "not a program but ET_REL"},
		"dynamically linked": {[]string{"-binary", with(func(h *header) { h.segments = []elf.ProgType{elf.PT_INTERP} })},
			"dynamically linked"},
		"another machine": {[]string{"-binary", with(func(h *header) { h.machine = elf.EM_MIPS })}, "not a known platform"},
		"another order of bytes": {[]string{"-binary", with(func(h *header) { h.machine, h.data = elf.EM_PPC64, elf.ELFDATA2MSB })},
			"not a known platform"},
		"32 bits":              {[]string{"-binary", with(func(h *header) { h.class, h.segments = elf.ELFCLASS32, nil })}, "not a known platform"},
		"a platform twice":     {[]string{"-binary", good, "-binary", programFile(t, amd64)}, "two binaries are for linux/amd64"},
		"an argument":          {[]string{"-binary", good, "more"}, `"more"`},
		"an unknown flag":      {[]string{"-binary", good, "-label", "a=b"}, "not defined: -label"},
		"no entrypoint":        {[]string{"-binary", good, "-entrypoint", " "}, "-entrypoint"},
		"a relative path":      {[]string{"-binary", good, "-entrypoint", "app"}, "-entrypoint"},
		"a path that leads up": {[]string{"-binary", good, "-entrypoint", "/../app"}, "-entrypoint"},
		"a folder":             {[]string{"-binary", good, "-entrypoint", "/"}, "-entrypoint"},
		"a user's name":        {[]string{"-binary", good, "-user", "nobody"}, "-user"},
		"no group":             {[]string{"-binary", good, "-user", "65532"}, "-user"},
		"a port above all":     {[]string{"-binary", good, "-port", "65536"}, "-port"},
		"a bad name":           {[]string{"-binary", good, "-name", "App"}, `-name "App" is not`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := run(append([]string{"-o", out}, test.args...), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v, want %q", err, test.want)
			}
		})
	}
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) > 0 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

// TestNothingIsLeft where the file cannot be written: -o is a folder.
func TestNothingIsLeft(t *testing.T) {
	folder := t.TempDir()
	out := filepath.Join(folder, "image.tar")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-binary", programFile(t, amd64), "-o", out}, io.Discard); err == nil {
		t.Error("it wrote over a folder")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("it left %v (%v)", left, err)
	}
}

func TestWhatItSays(t *testing.T) {
	var said strings.Builder
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run([]string{"-binary", programFile(t, amd64), "-o", out}, &said); err != nil {
		t.Fatal(err)
	}
	var index struct{ Manifests []struct{ Digest string } }
	decode(t, readImage(t, out).files["index.json"], &index)
	want := out + ": docker.io/library/elector-sidecar:latest " + index.Manifests[0].Digest + "\n"
	if said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}
