// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// The watchdog is the parent of COMMAND, and a child of the sidecar:
//
//	elector-sidecar exec -- COMMAND       knows until when this pod leads
//	└─ elector-sidecar watchdog COMMAND   kills COMMAND by then, and when the sidecar is gone
//	   └─ COMMAND
//
// It does no more than this, so that a sidecar which is stopped, killed or stuck cannot keep COMMAND alive. As the parent it
// is the only one that reaps COMMAND: until then COMMAND's process ID, and so that of its process group, is nobody
// else's. docs/adr/0010-exec-watchdog.md has the reasons.

// watchdogArg is the subcommand that exec runs itself with. It is not for people.
const watchdogArg = "watchdog"

// The pipes between the two, in the watchdog.
const (
	ordersFD = 3 + iota
	reportsFD
)

// order is what the sidecar tells the watchdog. Orders end with the sidecar.
type order struct {
	// Deadline is until when COMMAND may live. Each takes the place of the last.
	Deadline *instant `json:",omitempty"`
	// Warning is how long before the deadline COMMAND is told to end. Patience is how long it may take to end once it is
	// told, if the deadline allows. Both come with the first order, on which COMMAND is started.
	Warning, Patience time.Duration `json:",omitempty"`
	// Signal is sent to COMMAND. Stop says that it tells COMMAND to end.
	Signal syscall.Signal `json:",omitempty"`
	Stop   bool           `json:",omitempty"`
	// Kill ends COMMAND at once.
	Kill bool `json:",omitempty"`
}

// report is what the watchdog tells the sidecar.
type report struct {
	// PID is COMMAND's, once it has been started.
	PID int `json:",omitempty"`
	// Ended says that COMMAND has ended and nothing is left of what it had started. It is the last report.
	Ended bool `json:",omitempty"`
	// Code is its exit code, 128 and the signal's number after a signal.
	Code int `json:",omitempty"`
	// Told is whether it was told to end, or killed, before it did.
	Told bool `json:",omitempty"`
	// Failure is why it could not be started.
	Failure string `json:",omitempty"`
}

// instant is a point in time by two clocks, as in elector.Instant: one that counts suspended time, and the time of day.
type instant struct {
	Boot, Wall time.Duration
}

func rightNow() instant {
	return instant{Boot: readClock(unix.CLOCK_BOOTTIME), Wall: readClock(unix.CLOCK_REALTIME)}
}

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(fmt.Sprintf("clock %d: %v", id, err))
	}
	return time.Duration(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return instant{Boot: i.Boot + d, Wall: i.Wall + d} }

// earlier is the earlier of the two by each clock.
func (i instant) earlier(j instant) instant {
	return instant{Boot: min(i.Boot, j.Boot), Wall: min(i.Wall, j.Wall)}
}

// before is how long it is until then, by the clock that has got further.
func (i instant) before(then instant) time.Duration { return min(then.Boot-i.Boot, then.Wall-i.Wall) }

// guarded is COMMAND, as the watchdog sees it.
type guarded struct {
	log      logr.Logger
	pid      int
	deadline instant
	warning  time.Duration
	patience time.Duration
	told     bool
	killed   bool
	patient  instant // until when, once it is told
	alarms   []*alarm
}

// watchdog starts a command, and returns once that and all that came of it are dead.
func watchdog(_ context.Context, command []string, _, stderr io.Writer) int {
	// COMMAND dies with the thread that started it (PDEATHSIG), so that thread must not end before this process does.
	runtime.LockOSThread()
	log := setUpLog(os.Getenv("ELECTOR_LOG_FORMAT"), 0, stderr)
	orders, reports, err := pipes()
	if err != nil || len(command) == 0 {
		return misconfigured(stderr, errors.New("watchdog: this is for exec to run, not for people"))
	}
	if err := adopt(); err != nil {
		log.Error(err, "exec: the watchdog cannot begin")
		return exitFailed
	}
	// Caught and not ignored, since COMMAND would inherit the latter. What is meant for COMMAND comes as an order.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	catch(make(chan os.Signal), slices.Concat(stopSignals, passedOn)...)

	last, err := guard(log, command, orders, signals, func(r report) { _ = json.NewEncoder(reports).Encode(r) })
	if err != nil {
		log.Error(err, "exec: the watchdog failed")
		return exitFailed
	}
	if json.NewEncoder(reports).Encode(last) != nil {
		log.Info("exec: the sidecar is gone", "pid", last.PID)
	}
	return exitOrderly
}

// pipes are those to the sidecar. COMMAND does not get them.
func pipes() (orders, reports *os.File, err error) {
	for _, fd := range []int{ordersFD, reportsFD} {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
			return nil, nil, fmt.Errorf("file descriptor %d is no pipe", fd)
		}
		unix.CloseOnExec(fd)
	}
	return os.NewFile(ordersFD, "orders"), os.NewFile(reportsFD, "reports"), nil
}

// guard starts a command on the first order, and carries out those that follow until it has ended.
func guard(log logr.Logger, command []string, from io.Reader, signals <-chan os.Signal, tell func(report)) (report, error) {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for decoder := json.NewDecoder(from); ; {
			var o order
			if decoder.Decode(&o) != nil {
				return // the sidecar is gone
			}
			orders <- o
		}
	}()
	first, ok := <-orders
	if !ok || first.Deadline == nil {
		return report{}, errors.New("there is no first order")
	}
	boot, err := newAlarm(unix.CLOCK_BOOTTIME)
	if err != nil {
		return report{}, err
	}
	wall, err := newAlarm(unix.CLOCK_REALTIME)
	if err != nil {
		return report{}, err
	}
	g := &guarded{log: log, deadline: *first.Deadline, warning: first.Warning, patience: first.Patience, alarms: []*alarm{boot, wall}}
	if rightNow().before(g.deadline) <= g.warning {
		return report{Ended: true, Told: true}, nil // there is no time left to begin
	}
	if g.pid, err = start(command); err != nil {
		return report{Ended: true, Code: codeOfStart(err), Failure: err.Error()}, nil
	}
	tell(report{PID: g.pid})
	g.log = log.WithValues("pid", g.pid)
	for {
		g.look()
		if g.killed || ended(g.pid) {
			return g.bury(), nil
		}
		select {
		case o, ok := <-orders:
			if ok {
				g.obey(o)
			} else {
				g.kill("the sidecar is gone")
			}
		case <-boot.rings:
		case <-wall.rings:
		case <-signals:
			reap(func(c child) bool { return c.pid != g.pid })
		}
	}
}

// start starts the command in a process group of its own. It dies when this process does.
func start(command []string) (pid int, err error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 0, err
	}
	pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return pid, nil
}

func (g *guarded) obey(o order) {
	if o.Deadline != nil {
		g.deadline = *o.Deadline
	}
	if o.Signal != 0 {
		_ = syscall.Kill(g.pid, o.Signal) // it may have ended, but is not reaped
	}
	if o.Stop {
		g.tellToEnd()
	}
	if o.Kill {
		g.kill("its time is over")
	}
}

func (g *guarded) tellToEnd() {
	if !g.told {
		g.told, g.patient = true, rightNow().add(g.patience)
	}
}

// look does what the time asks for, and sets the alarms for the next time.
func (g *guarded) look() {
	now := rightNow()
	if left := now.before(g.deadline); left <= g.warning && left > 0 && !g.told {
		g.log.Info("exec: the lease was not renewed for long, so the command is told to end", "killIn", left.String())
		_ = syscall.Kill(g.pid, syscall.SIGTERM)
		g.tellToEnd()
	}
	end := g.deadline
	switch {
	case now.before(g.deadline) <= 0:
		g.kill("the lease was not renewed in time")
		return
	case g.told && now.before(g.patient) <= 0:
		g.kill("it was told to end and did not")
		return
	case !g.told:
		end = end.add(-g.warning)
	case g.patient.before(g.deadline) > 0:
		end = g.patient
	}
	g.alarms[0].set(end.Boot)
	g.alarms[1].set(end.Wall)
}

// kill kills the command and its process group.
func (g *guarded) kill(why string) {
	if g.killed {
		return
	}
	g.told, g.killed = true, true
	_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	g.log.Info("exec: killed", "because", why)
}

// bury kills what is left of the command's process group and of everything else that came of it, and waits for the end
// of the last. Whatever its parent left behind is a child of this process.
func (g *guarded) bury() report {
	_ = syscall.Kill(-g.pid, syscall.SIGKILL) // the command is not reaped: the group's number is still its own
	r := report{PID: g.pid, Ended: true, Told: g.told}
	wipeOut(&sync.Mutex{}, func(child) bool { return true }, func(pid int, status syscall.WaitStatus) {
		if pid == g.pid {
			r.Code = exitCode(status)
		}
	})
	return r
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return status.ExitStatus()
}

// alarm rings when a clock reaches a time, also when that happens because the clock was set or the machine woke up.
type alarm struct {
	fd    int
	rings chan struct{}
	at    time.Duration
}

func newAlarm(clock int) (*alarm, error) {
	fd, err := unix.TimerfdCreate(clock, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	a := &alarm{fd: fd, rings: make(chan struct{}, 1)}
	file := os.NewFile(uintptr(fd), "alarm")
	go func() {
		for expirations := make([]byte, 8); ; {
			if _, err := file.Read(expirations); err != nil {
				return
			}
			select {
			case a.rings <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

func (a *alarm) set(at time.Duration) {
	if a.at == at {
		return
	}
	a.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic("timerfd: " + err.Error()) // the command dies with this process
	}
}
