// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
)

// binary is a program for one platform.
type binary struct {
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

// readBinary reads a file and finds out its platform. It is an error when the file could not run in an image of its own.
func readBinary(file string) (binary, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return binary{}, err
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return binary{}, fmt.Errorf("%s is not a Linux binary: %w", file, err)
	}
	if program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN {
		return binary{}, fmt.Errorf("%s is not a program but %s", file, program.Type)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return binary{}, fmt.Errorf("%s is dynamically linked, and the image has no libraries: build it with CGO_ENABLED=0", file)
		}
	}
	architecture := architectures[program.Machine][program.Data]
	if architecture == "" || program.Class != elf.ELFCLASS64 {
		return binary{}, fmt.Errorf("%s is for %s, %s, %s: not a known platform", file, program.Machine, program.Class, program.Data)
	}
	return binary{content, platform{architecture, "linux"}}, nil
}
