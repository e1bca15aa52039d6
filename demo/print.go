// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// printer writes lines for people, and counts while they wait: on a terminal in one line that is written over,
// elsewhere in a new line now and then.
type printer struct {
	terminal bool
	broken   func() // called when nobody reads any more

	mu    sync.Mutex
	out   io.Writer
	count string // what the terminal's last line shows, "" where that is empty
}

func newPrinter(out io.Writer, broken func()) *printer {
	return &printer{out: out, terminal: isTerminal(out), broken: broken}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// line prints a line, above the counting one.
func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.erasure() + fmt.Sprintf(format, args...) + "\n" + p.count)
}

// counting shows what is waited for, and for how long, until the function that it returns is called.
func (p *printer) counting(what string) (end func()) {
	interval := time.Second
	if p.terminal {
		interval = time.Second / 10
	}
	begun, done := time.Now(), make(chan struct{})
	var counter sync.WaitGroup
	counter.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.tick(what, time.Since(begun))
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		counter.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.write(p.erasure())
		p.count = ""
	}
}

func (p *printer) tick(what string, since time.Duration) {
	if !p.terminal {
		p.line("   %s… %.0fs", what, since.Seconds())
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	erasure := p.erasure()
	p.count = fmt.Sprintf("   %s… %.1fs", what, since.Seconds())
	p.write(erasure + p.count)
}

// erasure is what makes the counting line vanish.
func (p *printer) erasure() string {
	if p.count == "" {
		return ""
	}
	return "\r\x1b[K"
}

func (p *printer) write(text string) {
	if text == "" {
		return
	}
	if _, err := io.WriteString(p.out, text); err != nil {
		p.broken()
	}
}

// lineWriter prints what is written to it line by line, each after a prefix.
type lineWriter struct {
	out    *printer
	prefix string
	rest   []byte
}

// Write never fails.
func (w *lineWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		w.out.line("%s%s", w.prefix, line)
		w.rest = rest
	}
}

// took writes a duration with three digits, or fewer where they would tell nothing.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}
