// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopSignals are what a process is told to end with. Images name one of them as STOPSIGNAL.
var stopSignals = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}

// passedOn are the other signals that mean something between people and programs.
var passedOn = []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGPWR}

// catch is signal.Notify but for signals that this process was started to ignore, as by nohup. Those are ignored by
// the processes that it starts, too.
func catch(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// adopt makes this process the one to whom processes are left whose parent has ended, as process 1 is, of those that
// come of it.
func adopt() error {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return fmt.Errorf("/proc has to be mounted: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
	}
	return nil
}

// child is a child of this process, started or adopted. Its number is nobody else's until this process has reaped it.
type child struct {
	pid    int
	group  int
	zombie bool
}

// children lists them. None is missing as long as one of them lives, since a process without a parent is adopted.
func children(wanted func(child) bool) (found []child) {
	self := os.Getpid()
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent group ...; the name can hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[1]) != strconv.Itoa(self) {
			continue
		}
		group, _ := strconv.Atoi(string(fields[2]))
		if c := (child{pid: pid, group: group, zombie: fields[0][0] == 'Z'}); wanted(c) {
			found = append(found, c)
		}
	}
	return found
}

// reap ends the zombies among the wanted children.
func reap(wanted func(child) bool) {
	for _, c := range children(wanted) {
		if c.zombie {
			_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// wipeOut kills the wanted children, and those that it adopts meanwhile, until none is left. Who else reaps children has
// to hold the lock: the numbers of those that are found must not become others'.
func wipeOut(lock sync.Locker, wanted func(child) bool, reaped func(pid int, status syscall.WaitStatus)) {
	round := func() (left int) {
		lock.Lock()
		defer lock.Unlock()
		found := children(wanted)
		for _, c := range found {
			var status syscall.WaitStatus
			if !c.zombie {
				_ = syscall.Kill(c.pid, syscall.SIGKILL)
			} else if pid, err := syscall.Wait4(c.pid, &status, syscall.WNOHANG, nil); err == nil && pid == c.pid {
				reaped(pid, status)
			}
		}
		return len(found)
	}
	for pause := time.Millisecond; round() > 0; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
	}
}

// ended tells whether a child has ended that is not reaped yet, and leaves it so.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}
