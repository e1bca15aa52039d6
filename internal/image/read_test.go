// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// header is what matters of an ELF file.
type header struct {
	machine  elf.Machine
	class    elf.Class
	data     elf.Data
	system   elf.OSABI
	kind     elf.Type
	segments []elf.ProgType
}

var (
	amd64 = header{elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ELFOSABI_NONE, elf.ET_EXEC, []elf.ProgType{elf.PT_LOAD}}
	arm64 = header{elf.EM_AARCH64, elf.ELFCLASS64, elf.ELFDATA2LSB, elf.ELFOSABI_NONE, elf.ET_DYN, []elf.ProgType{elf.PT_LOAD}}
)

// programFile writes a file that has such a header and no code, and returns its name.
func programFile(t *testing.T, h header) string {
	t.Helper()
	var order binary.ByteOrder = binary.LittleEndian
	if h.data == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(h.class), byte(h.data), byte(elf.EV_CURRENT), byte(h.system)}
	const headerSize, segmentSize = 64, 56
	var content bytes.Buffer
	var err error
	if h.class == elf.ELFCLASS32 {
		err = binary.Write(&content, order, elf.Header32{Ident: ident, Type: uint16(h.kind), Machine: uint16(h.machine), Version: 1})
	} else {
		err = binary.Write(&content, order, elf.Header64{
			Ident: ident, Type: uint16(h.kind), Machine: uint16(h.machine), Version: 1,
			Phoff: headerSize, Ehsize: headerSize, Phentsize: segmentSize, Phnum: uint16(len(h.segments)),
		})
	}
	for _, segment := range h.segments {
		err = errors.Join(err, binary.Write(&content, order, elf.Prog64{Type: uint32(segment)}))
	}
	name := filepath.Join(t.TempDir(), "program")
	if err := errors.Join(err, os.WriteFile(name, content.Bytes(), 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

// write runs the program, and returns the name of the file that it wrote.
func write(t *testing.T, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run(append(args, "-o", out), io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

// image is what docker reads of a file.
type image struct {
	files  map[string]string // by path, all of them
	config string
	layer  []byte // uncompressed
}

func readImage(t *testing.T, name string) image {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string]string{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
		if digest, ok := strings.CutPrefix(header.Name, "blobs/sha256/"); ok && digest != sum(content) {
			t.Errorf("%s has other content", header.Name)
		}
	}
	var list []struct {
		Config string
		Layers []string
	}
	decode(t, files["manifest.json"], &list)
	if len(list) != 1 || len(list[0].Layers) != 1 {
		t.Fatalf("manifest.json: %s", files["manifest.json"])
	}
	z, err := gzip.NewReader(strings.NewReader(files[list[0].Layers[0]]))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return image{files, files[list[0].Config], layer}
}

func tarNames(t *testing.T, from io.Reader) (names []string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func decode(t *testing.T, content string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(content), v); err != nil {
		t.Fatalf("%q: %v", content, err)
	}
}

func sum[T string | []byte](content T) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
}
