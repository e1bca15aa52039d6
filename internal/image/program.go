// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
)

// program is a binary for one platform.
type program struct {
	content  []byte
	platform platform
}

// platform is that of the OCI image index.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// architectures are those of 64 bits, for which an ELF header says all that there is to say.
var architectures = map[elf.Machine]map[elf.Data]string{
	elf.EM_X86_64:  {elf.ELFDATA2LSB: "amd64"},
	elf.EM_AARCH64: {elf.ELFDATA2LSB: "arm64"},
	elf.EM_PPC64:   {elf.ELFDATA2LSB: "ppc64le"},
	elf.EM_RISCV:   {elf.ELFDATA2LSB: "riscv64"},
	elf.EM_S390:    {elf.ELFDATA2MSB: "s390x"},
}

// readProgram reads a file and finds out its platform. It is an error when the file could not run in an image of its own.
func readProgram(file string) (program, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return program{}, err
	}
	parsed, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return program{}, fmt.Errorf("%s is not a Linux binary: %w", file, err)
	}
	if parsed.OSABI != elf.ELFOSABI_NONE && parsed.OSABI != elf.ELFOSABI_LINUX {
		return program{}, fmt.Errorf("%s is not a Linux binary but for %s", file, parsed.OSABI)
	}
	if parsed.Type != elf.ET_EXEC && parsed.Type != elf.ET_DYN {
		return program{}, fmt.Errorf("%s is not a program but %s", file, parsed.Type)
	}
	for _, segment := range parsed.Progs {
		if segment.Type == elf.PT_INTERP {
			return program{}, fmt.Errorf("%s is dynamically linked, and the image has no libraries: build it with CGO_ENABLED=0", file)
		}
	}
	architecture := architectures[parsed.Machine][parsed.Data]
	if architecture == "" || parsed.Class != elf.ELFCLASS64 {
		return program{}, fmt.Errorf("%s is for %s, %s, %s: not a known platform", file, parsed.Machine, parsed.Class, parsed.Data)
	}
	return program{content, platform{architecture, "linux"}}, nil
}
