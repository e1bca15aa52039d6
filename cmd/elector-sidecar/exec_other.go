// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

const watchdogArg = "watchdog"

func newWork(*config, []string) (work, error) { return nil, errors.New("exec needs Linux") }

func watchdog(_ context.Context, _ []string, _, stderr io.Writer) int {
	return misconfigured(stderr, errors.New("exec needs Linux"))
}
