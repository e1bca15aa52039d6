// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// install copies this binary into a directory that other containers share.
func install(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return misconfigured(stderr, errors.New("install: it must be install DIR, with the directory to copy this binary to"))
	}
	target, err := installInto(flags.Arg(0))
	if err != nil {
		fmt.Fprintf(stderr, "elector-sidecar: install: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(stdout, target)
	return exitOrderly
}

// installInto puts the copy in place by a rename: nobody sees half a binary, and one that runs can be replaced.
func installInto(dir string) (target string, err error) {
	self, err := ownBinary()
	if err != nil {
		return "", err
	}
	source, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer source.Close()
	copied, err := os.CreateTemp(dir, ".elector-sidecar-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(copied.Name())
		}
	}()
	_, err = io.Copy(copied, source)
	if err = errors.Join(err, copied.Chmod(0o755), copied.Sync(), copied.Close()); err != nil {
		return "", err
	}
	target = filepath.Join(dir, "elector-sidecar")
	return target, os.Rename(copied.Name(), target)
}

// ownBinary is the path of the file that this process runs, also of one that was removed or replaced since.
func ownBinary() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}
