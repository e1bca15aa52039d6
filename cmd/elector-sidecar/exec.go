// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// The exit codes for a command that cannot be run are those of a shell.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // and the signal's number
)

// execHandoverTimeout is ELECTOR_HANDOVER_TIMEOUT where that is unset: a command needs some time to end, and the lease is
// released as soon as it has. The kubelet waits for 30 s.
const execHandoverTimeout = 20 * time.Second

// execute joins the election, and runs a command only while this pod leads.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("exec", flag.ContinueOnError)
	verbosity := flags.Int("v", 0, "")
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() == 0 {
		return misconfigured(stderr, errors.New("exec: a command is missing: it must be exec [-v=N] -- COMMAND [ARG...]"))
	}
	command := flags.Args()
	if err := runnable(command[0]); err != nil {
		fmt.Fprintf(stderr, "elector-sidecar: exec: %v\n", err)
		return codeOfStart(err)
	}
	return contend(ctx, *verbosity, command, stderr)
}

// runnable tells whether a command can be found and executed.
func runnable(command string) error {
	_, err := exec.LookPath(command)
	return err
}

// codeOfStart is the exit code where a command could not be started.
func codeOfStart(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return exitNotFound
	}
	return exitNotExecutable
}

// work is what a pod does only while it leads.
type work interface {
	// prepare makes the election one that releases the lease only while nothing is at work.
	prepare(contest *elector.Config)
	// begin works whenever e leads. stop ends the election. end waits until election and work have ended.
	begin(ctx context.Context, e *elector.Elector, stop func(error)) (end func())
	// exitCode is this process's, once they have.
	exitCode() int
}

// workOf is the work of running a command, or none.
func workOf(cfg *config, command []string) (work, error) {
	if command == nil {
		return nil, nil
	}
	if _, given := os.LookupEnv("ELECTOR_HANDOVER_TIMEOUT"); !given {
		cfg.HandoverTimeout.Duration = execHandoverTimeout
	}
	return newWork(cfg, command)
}
