// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

// outcome is how a sidecar that ends by itself ended.
type outcome struct {
	code           int
	stdout, stderr string
}

func runToEnd(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Each value is one that somebody will try.
var badValues = []struct {
	env     string
	allowed string // what the complaint says
}{
	{"ELECTOR_LEASE_NAME=", "must be the name of the Lease"},
	{"ELECTOR_LEASE_NAME=My_App.", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=a/b", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=$(APP)", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAMESPACE=not.a.label", "DNS-1123 label"},
	{"POD_NAME=Web_0", "DNS-1123 subdomain"},
	{"POD_UID=$(UID)", "a pod's UID"},
	{"ELECTOR_IDENTITY=two words", "without spaces"},
	{"ELECTOR_LEASE_DURATION=15", "a Go duration of whole seconds"},
	{"ELECTOR_LEASE_DURATION=1500ms", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=500ms", "at least 1s"},
	{"ELECTOR_LEASE_DURATION=-15s", "at least 1s"},
	{"ELECTOR_LEASE_DURATION=1000000h", "whole seconds"},
	{"ELECTOR_RENEW_DEADLINE=15s", "below ELECTOR_LEASE_DURATION (15s)"},
	{"ELECTOR_RENEW_DEADLINE=soon", "a Go duration"},
	{"ELECTOR_RENEW_DEADLINE=0s", "above 0s"},
	{"ELECTOR_RETRY_PERIOD=10s", "below ELECTOR_RENEW_DEADLINE (10s)"},
	{"ELECTOR_RETRY_PERIOD=0", "at least 10ms"},
	{"ELECTOR_RETRY_PERIOD=2", "a Go duration"},
	{"ELECTOR_HANDOVER_TIMEOUT=-1s", "from 0s"},
	{"ELECTOR_HANDOVER_TIMEOUT=forever", "a Go duration"},
	{"ELECTOR_MAX_WAITERS=0", "at least 1"},
	{"ELECTOR_MAX_WAITERS=many", "a whole number"},
	{"ELECTOR_HTTP_ADDRESS=4040", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=:http-alt-of-nobody", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=:70000", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=203.0.113.1:4040", "can be bound"},
	{"ELECTOR_LOG_FORMAT=yaml", "text or json"},
	{"KUBECONFIG=/nowhere/kubeconfig", "a kubeconfig file that can be read"},
	{"KUBECONFIG=", "a kubeconfig file outside a cluster"},
}

// goodEnv is as short as a good environment can be.
func goodEnv(s *scenario, env ...string) []string {
	all := []string{"ELECTOR_HTTP_ADDRESS=127.0.0.1:0", "POD_NAME=web-0"}
	for _, variable := range s.env() {
		name, _, _ := strings.Cut(variable, "=")
		if name == "KUBECONFIG" || name == "POD_NAMESPACE" || name == "ELECTOR_LEASE_NAME" {
			all = append(all, variable)
		}
	}
	return append(all, env...)
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, test := range badValues {
		t.Run(test.env, func(t *testing.T) {
			s := begin(t, calm)
			ended := runToEnd(t, goodEnv(s, test.env))
			name, value, _ := strings.Cut(test.env, "=")
			if ended.code != 2 || ended.stdout != "" || strings.Count(ended.stderr, "\n") != 1 {
				t.Errorf("it exits with %d and says %q on stdout, %q on stderr; want 2 and one line on stderr", ended.code, ended.stdout, ended.stderr)
			}
			for _, want := range []string{name, value, test.allowed} {
				if !strings.Contains(ended.stderr, want) {
					t.Errorf("it does not say %q: %s", want, ended.stderr)
				}
			}
			if s.lease.Exists() {
				t.Error("it contended for the lease")
			}
		})
	}
}

// All problems are reported at once, a line each, and nothing that follows from another.
func TestAllProblemsAtOnce(t *testing.T) {
	s := begin(t, calm)
	bad := []string{
		"ELECTOR_LEASE_NAME=My_App", "ELECTOR_LEASE_NAMESPACE=not.a.label", "POD_NAME=Web_0", "POD_UID=a b", "ELECTOR_IDENTITY=c d",
		"ELECTOR_LEASE_DURATION=1", "ELECTOR_RENEW_DEADLINE=2", "ELECTOR_RETRY_PERIOD=3", "ELECTOR_HANDOVER_TIMEOUT=4",
		"ELECTOR_MAX_WAITERS=x", "ELECTOR_HTTP_ADDRESS=nowhere", "ELECTOR_LOG_FORMAT=loud",
	}
	ended := runToEnd(t, goodEnv(s, bad...))
	if lines := strings.Count(ended.stderr, "\n"); ended.code != 2 || lines != len(bad) {
		t.Errorf("it exits with %d and %d lines, not 2 and %d:\n%s", ended.code, lines, len(bad), ended.stderr)
	}
	for _, variable := range bad {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.Contains(ended.stderr, name+` is "`+value+`": `) {
			t.Errorf("nothing is said of %s:\n%s", variable, ended.stderr)
		}
	}
}

func TestShortestConfiguration(t *testing.T) {
	s := begin(t, calm)
	if ended := runToEnd(t, goodEnv(s), "--version"); ended.code != 0 {
		t.Fatalf("%+v", ended)
	}
	env := goodEnv(s)[1:] // process.Start chooses the address
	sidecar.Start(t, binary, "web-0", env...).Leads()
	if got := *s.lease.Get().Spec.LeaseDurationSeconds; got != 15 {
		t.Errorf("the default lease duration is %d s", got)
	}
}

func TestPortInUse(t *testing.T) {
	s := begin(t, calm)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	ended := runToEnd(t, goodEnv(s, "ELECTOR_HTTP_ADDRESS="+address))
	if ended.code != 2 || !strings.Contains(ended.stderr, `ELECTOR_HTTP_ADDRESS is "`+address+`"`) || strings.Count(ended.stderr, "\n") != 1 {
		t.Errorf("it exits with %d and says %s", ended.code, ended.stderr)
	}
	if s.lease.Exists() {
		t.Error("it contended for the lease")
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--help", "-h", "--version"} {
		if ended := runToEnd(t, nil, flag); ended.code != 0 || ended.stderr != "" || !strings.Contains(ended.stdout, "elector-sidecar") {
			t.Errorf("%s: %+v", flag, ended)
		}
	}
	help := runToEnd(t, nil, "--help").stdout
	for _, test := range badValues {
		if name, _, _ := strings.Cut(test.env, "="); !strings.Contains(help, "\n"+name+" ") {
			t.Errorf("--help does not know %s", name)
		}
	}
	for _, args := range [][]string{{"--bogus"}, {"-v=x"}, {"argument"}, {"--election=name"}} {
		if ended := runToEnd(t, nil, args...); ended.code != 2 || ended.stdout != "" || strings.Count(ended.stderr, "\n") != 1 {
			t.Errorf("%v: %+v", args, ended)
		}
	}
}

// Each line of the log is JSON, client-go's too, in good times and bad.
func TestJSONLog(t *testing.T) {
	s := begin(t, brisk)
	network := s.proxied()
	web := s.start("web-0", "ELECTOR_LOG_FORMAT=json")
	web.Leads()
	network.Cut()
	web.Await("it does not lead", notLeading)
	network.Heal()
	web.Leads()
	web.Is(sigterm)
	web.Exits(0)
	lines := web.LogLines()
	var said []string
	for _, line := range lines {
		if line.Level == "" || line.Msg == "" {
			t.Errorf("a line has no level or no message: %+v", line)
		}
		said = append(said, line.Msg)
	}
	story := strings.Join(said, "; ")
	for _, want := range []string{"contending", "leading", "not leading any more", "told to stop", "stopped"} {
		if !strings.Contains(story, want) {
			t.Errorf("the log does not say %q: %s", want, story)
		}
	}
	if last := lines[len(lines)-1]; last.Msg != "stopped" {
		t.Errorf("the last line is %+v", last)
	}
}
