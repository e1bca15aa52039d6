// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
