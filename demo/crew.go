// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"

	"github.com/elector-sidecar/elector-sidecar/internal/process"
)

// pod stands for a pod: it is the sidecar that runs for it now.
type pod struct {
	*process.Sidecar
	past string // what its earlier sidecars logged
}

// crew is the three pods.
type crew struct {
	pods   []*pod
	binary string
	env    []string
	log    func(name string) io.Writer
}

func newCrew(o options, cluster *cluster, out *printer) *crew {
	c := &crew{
		binary: o.binary,
		env: append(cluster.env,
			"POD_NAMESPACE="+cluster.namespace,
			"ELECTOR_LEASE_NAME="+leaseName,
			"ELECTOR_LEASE_DURATION="+o.lease.String(),
			"ELECTOR_RENEW_DEADLINE="+o.renew.String(),
			"ELECTOR_RETRY_PERIOD="+o.retry.String(),
		),
		log: func(string) io.Writer { return nil },
	}
	if o.verbose {
		c.log = func(name string) io.Writer { return &lineWriter{out: out, prefix: "      " + name + " | "} }
	}
	return c
}

// start starts the three.
func (c *crew) start() error {
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		sidecar, err := process.Start(c.binary, name, c.env, c.log(name))
		if err != nil {
			return err
		}
		c.pods = append(c.pods, &pod{Sidecar: sidecar})
	}
	return nil
}

// restart starts the sidecar of a pod anew, at the address that it had.
func (c *crew) restart(p *pod) error {
	env := append([]string{"ELECTOR_HTTP_ADDRESS=" + strings.TrimPrefix(p.URL, "http://")}, c.env...)
	sidecar, err := process.Start(c.binary, p.Name, env, c.log(p.Name))
	if err != nil {
		return err
	}
	p.past += p.Log()
	p.Sidecar = sidecar
	return nil
}

// kill ends all that run, frozen or not.
func (c *crew) kill() {
	for _, p := range c.pods {
		p.Kill()
	}
}

func (c *crew) without(one *pod) []*pod {
	var others []*pod
	for _, p := range c.pods {
		if p != one {
			others = append(others, p)
		}
	}
	return others
}

// logTail is how many lines of each pod's log are shown after a failure.
const logTail = 20

// showLogs prints the end of each log; of a crash what it says, without the stacks of all goroutines.
func (c *crew) showLogs(out *printer) {
	for _, p := range c.pods {
		log, _, _ := strings.Cut(p.past+p.Log(), "\n\ngoroutine ")
		log, _, _ = strings.Cut(log, "\n\nruntime stack:")
		lines := strings.Split(strings.TrimSpace(log), "\n")
		out.line("")
		out.line("The log of %s ends with:", p.Name)
		for _, line := range lines[max(0, len(lines)-logTail):] {
			out.line("   %s", line)
		}
	}
}
