// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }
