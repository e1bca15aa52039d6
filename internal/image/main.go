// SPDX-License-Identifier: Apache-2.0

// Command image writes a container image that holds one static binary, without a container engine. The file is an OCI
// image layout in a tar, and at the same time what docker save writes, so that each tool finds what it reads. The same
// binaries and flags give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run writes the image that the arguments ask for, and says on stdout where it is, its name and its digest.
func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var files []string
	flags.Func("binary", "static Linux `file` to put in; once for each platform, the first for tools that read only one",
		func(file string) error { files = append(files, file); return nil })
	name := flags.String("name", "elector-sidecar:latest", "`name` of the image, with its tag")
	out := flags.String("o", "", "`file` to write")
	entrypoint := flags.String("entrypoint", "/elector-sidecar", "`path` of the binary in the image, and arguments after it")
	user := flags.String("user", "65532:65532", "`UID:GID` that it runs as")
	port := flags.Uint("port", 4040, "TCP port that it listens on; 0 for none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q? There are only flags", flags.Arg(0))
	}
	if len(files) == 0 || *out == "" {
		return errors.New("-binary and -o are needed")
	}
	command := strings.Fields(*entrypoint)
	if len(command) == 0 || !path.IsAbs(command[0]) || path.Clean(command[0]) != command[0] || command[0] == "/" {
		return fmt.Errorf("-entrypoint %q does not begin with an absolute path of a file", *entrypoint)
	}
	if !regexp.MustCompile(`^[0-9]+:[0-9]+$`).MatchString(*user) {
		return fmt.Errorf("-user %q is not UID:GID, as numbers", *user)
	}
	if *port > 65535 {
		return fmt.Errorf("-port %d is above 65535", *port)
	}
	ref, err := parseReference(*name)
	if err != nil {
		return fmt.Errorf("-name %q %w", *name, err)
	}
	var programs []program
	for _, file := range files {
		p, err := readProgram(file)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	a, digest, err := build(ref, programs, newSettings(command, *user, *port))
	if err != nil {
		return err
	}
	if err := writeFile(*out, a); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %s %s\n", *out, ref, digest)
	return err
}

// writeFile leaves either the whole archive or what was there before.
func writeFile(name string, a archive) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".image-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	if err := errors.Join(a.write(file), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
