// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/apphealth"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// variables are the names of all that is read from the environment.
func variables() (names []string) {
	for field := range reflect.TypeFor[config]().Fields() {
		names = append(names, field.Tag.Get("envconfig"))
	}
	return names
}

// minimal is as short as a good environment can be.
var minimal = []string{"ELECTOR_LEASE_NAME=web", "POD_NAME=web-0", "POD_NAMESPACE=shop"}

// setEnv makes the environment minimal, changed by env ("NAME=value" sets, "NAME" unsets), as far as the configuration
// looks at it.
func setEnv(t *testing.T, env ...string) {
	t.Helper()
	for _, name := range variables() {
		t.Setenv(name, "") // so that it is restored
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, variable := range slices.Concat(minimal, env) {
		name, value, set := strings.Cut(variable, "=")
		if !set {
			_ = os.Unsetenv(name)
		} else if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDefaults(t *testing.T) {
	setEnv(t)
	c, err := loadConfig()
	if err != nil {
		t.Fatal(err)
	}
	suffix, ok := strings.CutPrefix(c.Identity, "web-0_")
	if !ok || !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(suffix) {
		t.Errorf("without a UID the identity is %q", c.Identity)
	}
	if c.LeaseName != "web" || c.LeaseNamespace != "shop" || c.PodName != "web-0" || c.HTTPAddress != ":4040" || c.MaxWaiters.int != 1024 || c.LogFormat != "text" {
		t.Errorf("the configuration is %+v", c)
	}
	want := elector.Config{Namespace: "shop", Name: "web", Identity: c.Identity, Sandbox: "here",
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	if got := c.elector(nil, "here"); !reflect.DeepEqual(got, want) {
		t.Errorf("the election's configuration is %+v, want %+v", got, want)
	}
	again, err := loadConfig()
	if err != nil || again.Identity == c.Identity {
		t.Errorf("two processes without a UID have the identity %q, %v", again.Identity, err)
	}
}

func TestGoodConfigurations(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host = strings.ToLower(host)
	tests := map[string]struct {
		env []string
		ok  func(*config) bool
	}{
		"a UID": {[]string{"POD_UID=3f0c9f1e"}, func(c *config) bool { return c.Identity == "web-0_3f0c9f1e" }},
		"an identity": {[]string{"POD_UID=3f0c9f1e", "ELECTOR_IDENTITY=me@home"},
			func(c *config) bool { return c.Identity == "me@home" && c.PodUID == "3f0c9f1e" }},
		"an empty identity": {[]string{"POD_UID=3f0c9f1e", "ELECTOR_IDENTITY="}, func(c *config) bool { return c.Identity == "web-0_3f0c9f1e" }},
		"a namespace of its own": {[]string{"ELECTOR_LEASE_NAMESPACE=leases"},
			func(c *config) bool { return c.LeaseNamespace == "leases" && c.PodNamespace == "shop" }},
		"a namespace, and none of the pod": {[]string{"ELECTOR_LEASE_NAMESPACE=leases", "POD_NAMESPACE"}, func(c *config) bool { return c.LeaseNamespace == "leases" }},
		"the host's name": {[]string{"POD_NAME"}, func(c *config) bool {
			return strings.ToLower(c.PodName) == host && strings.HasPrefix(c.Identity, c.PodName+"_")
		}},
		"a dotted name": {[]string{"ELECTOR_LEASE_NAME=web.shop.example"}, func(c *config) bool { return c.LeaseName == "web.shop.example" }},
		"quick timings": {[]string{"ELECTOR_LEASE_DURATION=1s", "ELECTOR_RENEW_DEADLINE=700ms", "ELECTOR_RETRY_PERIOD=150ms"},
			func(c *config) bool { return c.RenewDeadline.Duration == 700*time.Millisecond }},
		"slow timings": {[]string{"ELECTOR_LEASE_DURATION=1h", "ELECTOR_RENEW_DEADLINE=59m59.9s", "ELECTOR_RETRY_PERIOD=1m30s"},
			func(c *config) bool { return c.LeaseDuration.Duration == time.Hour }},
		"a duration in parts":   {[]string{"ELECTOR_LEASE_DURATION=0h0m20000ms"}, func(c *config) bool { return c.LeaseDuration.Duration == 20*time.Second }},
		"time for the handover": {[]string{"ELECTOR_HANDOVER_TIMEOUT=20s"}, func(c *config) bool { return c.elector(nil, "").HandoverTimeout == 20*time.Second }},
		"no app to look at": {nil, func(c *config) bool {
			return c.AppHealth == "" && c.NotifyURL == "" && c.elector(nil, "").Unwell == nil
		}},
		"an app to look at": {[]string{"ELECTOR_APP_HEALTH=http://localhost:8080/healthz?full=1"}, func(c *config) bool {
			return c.AppPeriod.Duration == 2*time.Second && c.AppTimeout.Duration == time.Second && c.AppFailures.int == 3 &&
				c.AppSuccesses.int == 1 && errors.Is(c.elector(nil, "").Unwell, apphealth.ErrNotSeen)
		}},
		"a check as long as the period": {[]string{"ELECTOR_APP_HEALTH=tcp://[::1]:5432", "ELECTOR_APP_HEALTH_PERIOD=1s"},
			func(c *config) bool { return c.AppTimeout.Duration == c.AppPeriod.Duration }},
		"a heartbeat":     {[]string{"ELECTOR_APP_HEALTH=file:///run/app/beat?maxAge=30s"}, func(c *config) bool { return c.AppHealth != "" }},
		"an app to tell":  {[]string{"ELECTOR_NOTIFY_URL=http://127.0.0.1:8080/leader"}, func(c *config) bool { return c.NotifyURL != "" }},
		"one waiter":      {[]string{"ELECTOR_MAX_WAITERS=1"}, func(c *config) bool { return c.MaxWaiters.int == 1 }},
		"an IPv6 address": {[]string{"ELECTOR_HTTP_ADDRESS=[::1]:4041"}, func(c *config) bool { return c.HTTPAddress == "[::1]:4041" }},
		"JSON":            {[]string{"ELECTOR_LOG_FORMAT=json"}, func(c *config) bool { return c.LogFormat == "json" }},
		"a kubeconfig":    {[]string{"KUBECONFIG=/x:/y"}, func(c *config) bool { return c.Kubeconfig == "/x:/y" }},
		"an address":      {[]string{"POD_IP=10.1.2.3"}, func(c *config) bool { return c.elector(nil, "").Address.String() == "10.1.2.3" }},
		"two addresses": {[]string{"POD_IP=::ffff:10.1.2.3,2001:db8::3"},
			func(c *config) bool { return c.PodIP.first().String() == "10.1.2.3" && c.PodIP.list[1].Is6() }},
		"no address": {[]string{"POD_IP="}, func(c *config) bool { return !c.elector(nil, "").Address.IsValid() }},
		"all that shows the leader": {[]string{"POD_IP=10.1.2.3", "ELECTOR_SERVICE=web-leader", "ELECTOR_POD_LABEL=example.com/role", "ELECTOR_READINESS_GATE=example.com/Leading"},
			func(c *config) bool { return c.Service != "" && c.PodLabel != "" && c.ReadinessGate != "" }},
		"a Service called elector": {[]string{"ELECTOR_PORT=tcp://10.0.0.1:80", "ELECTOR_SERVICE_HOST=10.0.0.1", "ELECTOR_PORT_80_TCP_PROTO=tcp"},
			func(c *config) bool { return c.HTTPAddress == ":4040" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, variable := range test.env { // those that the configuration must not look at have to be restored too
				if name, value, set := strings.Cut(variable, "="); set {
					t.Setenv(name, value)
				}
			}
			setEnv(t, test.env...)
			c, err := loadConfig()
			if err != nil || !test.ok(c) {
				t.Fatalf("the configuration is %+v, %v", c, err)
			}
			if _, err := elector.New(c.elector(electortest.NewStore().Leases("shop"), "")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each is one problem: one line that names the variable, the value and what is allowed.
var badValues = []struct {
	env     string
	allowed string
}{
	{"ELECTOR_LEASE_NAME", "is not set: it must be the name of the Lease"},
	{"ELECTOR_LEASE_NAME=", "is not set: it must be the name of the Lease"},
	{"ELECTOR_LEASE_NAME=My-App", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=my_app", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=-web", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=web.", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=a/b", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=web ", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=web\n", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=$(APP)", "DNS-1123 subdomain"},
	{"ELECTOR_LEASE_NAME=" + strings.Repeat("x", 254), "at most 253"},
	{"ELECTOR_LEASE_NAMESPACE=not.a.label", "DNS-1123 label"},
	{"ELECTOR_LEASE_NAMESPACE=" + strings.Repeat("x", 64), "at most 63"},
	{"ELECTOR_LEASE_NAMESPACE=$(POD_NAMESPACE)", "DNS-1123 label"},
	{"POD_NAME=Web_0", "DNS-1123 subdomain"},
	{"POD_NAME=$(NAME)", "metadata.name"},
	{"POD_UID=$(UID)", "metadata.uid"},
	{"POD_UID=3f0c 9f1e", "metadata.uid"},
	{"POD_UID=3f0c\n", "metadata.uid"},
	{"ELECTOR_IDENTITY=two words", "without spaces"},
	{"ELECTOR_IDENTITY=a\tb", "without spaces"},
	{"ELECTOR_IDENTITY=a\x1bb", "control characters"},
	{"ELECTOR_IDENTITY=a\x80b", "UTF-8"},
	{"ELECTOR_IDENTITY=_a", "not begin with '_'"},
	{"ELECTOR_IDENTITY=$(POD_NAME)", "'$('"},
	{"POD_UID=\x80", "metadata.uid"},
	{"ELECTOR_HTTP_ADDRESS=localhost:", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=:65536", "host:port"},
	{"ELECTOR_RETRY_PERIOD=9ms", "at least 10ms"},
	{"ELECTOR_RETRY_PERIOD=9990ms", "20ms below ELECTOR_RENEW_DEADLINE (10s)"},
	{"ELECTOR_HANDOVER_TIMEOUT=25h", "from 0s to 24h"},
	{"ELECTOR_COMPATIBILITY=Nais", "it must be nais"},
	{"ELECTOR_LEASE_DURATION=", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=15", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=15 s", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=1500ms", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=1.5s", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=999ms", "at least 1s"},
	{"ELECTOR_LEASE_DURATION=0s", "at least 1s"},
	{"ELECTOR_LEASE_DURATION=-15s", "at least 1s"},
	{"ELECTOR_LEASE_DURATION=2147483648s", "whole seconds"},
	{"ELECTOR_LEASE_DURATION=1d", "a Go duration"},
	{"ELECTOR_RENEW_DEADLINE=15s", "below ELECTOR_LEASE_DURATION (15s)"},
	{"ELECTOR_RENEW_DEADLINE=1h", "below ELECTOR_LEASE_DURATION (15s)"},
	{"ELECTOR_RENEW_DEADLINE=0s", "above 0s"},
	{"ELECTOR_RENEW_DEADLINE=-1s", "above 0s"},
	{"ELECTOR_RENEW_DEADLINE=soon", "a Go duration"},
	{"ELECTOR_RETRY_PERIOD=10s", "below ELECTOR_RENEW_DEADLINE (10s)"},
	{"ELECTOR_RETRY_PERIOD=0", "at least 10ms"},
	{"ELECTOR_RETRY_PERIOD=-2s", "at least 10ms"},
	{"ELECTOR_RETRY_PERIOD=2", "a Go duration"},
	{"ELECTOR_HANDOVER_TIMEOUT=-1ns", "from 0s"},
	{"ELECTOR_HANDOVER_TIMEOUT=forever", "a Go duration"},
	{"ELECTOR_APP_HEALTH=/healthz", "it must be like http://127.0.0.1:8080/healthz, tcp://127.0.0.1:5432 or file:///path?maxAge=30s: "},
	{"ELECTOR_APP_HEALTH=http://10.0.0.1:8080/", "loopback"},
	{"ELECTOR_APP_HEALTH=tcp://db:5432", "loopback"},
	{"ELECTOR_APP_HEALTH=file:///run/beat", "maxAge"},
	{"ELECTOR_APP_HEALTH=\nhttp://127.0.0.1/", "like http://"},
	{"ELECTOR_APP_HEALTH_PERIOD=0s", "above 0s"},
	{"ELECTOR_APP_HEALTH_PERIOD=2", "a Go duration"},
	{"ELECTOR_APP_HEALTH_TIMEOUT=0s", "above 0s"},
	{"ELECTOR_APP_HEALTH_TIMEOUT=2001ms", "at most ELECTOR_APP_HEALTH_PERIOD (2s)"},
	{"ELECTOR_APP_HEALTH_TIMEOUT=", "a Go duration"},
	{"ELECTOR_APP_HEALTH_FAILURES=0", "at least 1"},
	{"ELECTOR_APP_HEALTH_FAILURES=x", "a whole number"},
	{"ELECTOR_APP_HEALTH_SUCCESSES=0", "at least 1"},
	{"ELECTOR_APP_HEALTH_SUCCESSES=", "a whole number"},
	{"ELECTOR_NOTIFY_URL=https://127.0.0.1/leader", "it must be like http://127.0.0.1:8080/leader: "},
	{"ELECTOR_NOTIFY_URL=http://web/leader", "loopback"},
	{"POD_IP=$(POD_IP)", "status.podIP"},
	{"POD_IP=10.1.2", "status.podIP"},
	{"POD_IP=0.0.0.0", "status.podIP"},
	{"POD_IP=fe80::1%eth0", "status.podIP"},
	{"POD_IP=10.1.2.3,", "with a comma between"},
	{"POD_IP=10.1.2.3, 2001:db8::1", "with a comma between"},
	{"ELECTOR_SERVICE=web", "needs POD_IP"},
	{"ELECTOR_SERVICE=Web", "name of a Service"},
	{"ELECTOR_SERVICE=shop/web", "name of a Service"},
	{"ELECTOR_SERVICE=tcp://10.0.0.1:80", "name of a Service"},
	{"ELECTOR_POD_LABEL=role=leader", "qualified name"},
	{"ELECTOR_POD_LABEL=/role", "qualified name"},
	{"ELECTOR_READINESS_GATE=is leading", "qualified name"},
	{"ELECTOR_READINESS_GATE=" + strings.Repeat("x", 64), "at most 63"},
	{"ELECTOR_MAX_WAITERS=0", "at least 1"},
	{"ELECTOR_MAX_WAITERS=-1", "at least 1"},
	{"ELECTOR_MAX_WAITERS=many", "a whole number"},
	{"ELECTOR_MAX_WAITERS=1e3", "a whole number"},
	{"ELECTOR_MAX_WAITERS=99999999999999999999", "a whole number"},
	{"ELECTOR_MAX_WAITERS=", "a whole number"},
	{"ELECTOR_HTTP_ADDRESS=", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=4040", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=localhost", "host:port"},
	{"ELECTOR_HTTP_ADDRESS=::1:4040", "host:port"},
	{"ELECTOR_LOG_FORMAT=yaml", "text or json"},
	{"ELECTOR_LOG_FORMAT=JSON", "text or json"},
	{"ELECTOR_LOG_FORMAT=", "text or json"},
}

func TestBadValues(t *testing.T) {
	for _, test := range badValues {
		t.Run(test.env, func(t *testing.T) {
			setEnv(t, test.env)
			c, err := loadConfig()
			if err == nil {
				t.Fatalf("it is taken: %+v", c)
			}
			name, value, _ := strings.Cut(test.env, "=")
			if value != "" || !strings.Contains(err.Error(), " is not set") {
				if want := name + " is " + strconv.Quote(value) + ": "; !strings.HasPrefix(err.Error(), want) {
					t.Errorf("it does not begin with %s: %v", want, err)
				}
			}
			if !strings.HasPrefix(err.Error(), name+" is ") || !strings.Contains(err.Error(), test.allowed) {
				t.Errorf("it does not say of %s that it %s: %v", name, test.allowed, err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("one problem makes more than one line: %v", err)
			}
		})
	}
}

func TestNamespaceIsMissing(t *testing.T) {
	setEnv(t, "POD_NAMESPACE")
	c, err := loadConfig()
	if mounted, unmounted := os.ReadFile(serviceAccountNamespace); unmounted == nil { // this is a pod
		if err != nil || c.LeaseNamespace != strings.TrimSpace(string(mounted)) {
			t.Errorf("the mounted namespace is %q, the configuration %+v, %v", mounted, c, err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "ELECTOR_LEASE_NAMESPACE is not set, nor POD_NAMESPACE") {
		t.Error(err)
	}
}

func TestSignsNeedAPod(t *testing.T) {
	for _, sign := range []string{"ELECTOR_SERVICE=web", "ELECTOR_POD_LABEL=role", "ELECTOR_READINESS_GATE=Leading"} {
		setEnv(t, "ELECTOR_LEASE_NAMESPACE=shop", "POD_NAMESPACE=not.a.label", "POD_IP=10.1.2.3", sign)
		if _, err := loadConfig(); err == nil || !strings.HasPrefix(err.Error(), `POD_NAMESPACE is "not.a.label": it must be this pod's namespace`) {
			t.Errorf("with %s it is said: %v", sign, err)
		}
	}
}

// All problems are reported at once, a line each, in the order of the table, and nothing that only follows from another.
func TestAllProblemsAtOnce(t *testing.T) {
	bad := []string{
		"ELECTOR_LEASE_NAME=My_App", "ELECTOR_LEASE_NAMESPACE=not.a.label", "POD_NAME=Web_0", "ELECTOR_IDENTITY=c d", "POD_UID=a b", "POD_IP=c", "ELECTOR_SERVICE=E", "ELECTOR_POD_LABEL=f g", "ELECTOR_READINESS_GATE=h i",
		"ELECTOR_LEASE_DURATION=1", "ELECTOR_RENEW_DEADLINE=2", "ELECTOR_RETRY_PERIOD=3", "ELECTOR_HANDOVER_TIMEOUT=4",
		"ELECTOR_APP_HEALTH=y", "ELECTOR_APP_HEALTH_PERIOD=5", "ELECTOR_APP_HEALTH_TIMEOUT=6", "ELECTOR_APP_HEALTH_FAILURES=0",
		"ELECTOR_APP_HEALTH_SUCCESSES=0", "ELECTOR_NOTIFY_URL=z", "ELECTOR_MAX_WAITERS=x", "ELECTOR_HTTP_ADDRESS=nowhere", "ELECTOR_LOG_FORMAT=loud",
	}
	setEnv(t, bad...)
	_, err := loadConfig()
	var stderr bytes.Buffer
	if code := misconfigured(&stderr, err); code != 2 {
		t.Errorf("the exit code is %d", code)
	}
	lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	if len(lines) != len(bad) {
		t.Errorf("%d problems make %d lines:\n%s", len(bad), len(lines), &stderr)
	}
	for _, variable := range bad {
		name, value, _ := strings.Cut(variable, "=")
		if !slices.ContainsFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "elector-sidecar: "+name+" is "+strconv.Quote(value)+": ")
		}) {
			t.Errorf("nothing is said of %s:\n%s", variable, &stderr)
		}
	}
	// A lease duration that cannot be read is no reason to complain about a renew deadline that may be good.
	for _, one := range []string{"ELECTOR_LEASE_DURATION=x", "ELECTOR_LEASE_DURATION=0s", "ELECTOR_RENEW_DEADLINE=x", "ELECTOR_RENEW_DEADLINE=1h"} {
		setEnv(t, one)
		if _, err := loadConfig(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("of %s it is said:\n%v", one, err)
		}
	}
}

// The binary's own code path: nothing is contended for with a bad configuration.
func TestRunWithABadConfiguration(t *testing.T) {
	setEnv(t, "ELECTOR_LEASE_NAME", "ELECTOR_LOG_FORMAT=loud")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), nil, &stdout, &stderr); code != exitMisconfigured || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 2 {
		t.Errorf("exit code %d, on standard output %q, on standard error\n%s", code, &stdout, &stderr)
	}
}

func TestUsageListsEveryVariable(t *testing.T) {
	var out bytes.Buffer
	usage(&out)
	for field := range reflect.TypeFor[config]().Fields() {
		name, fallback, desc := field.Tag.Get("envconfig"), field.Tag.Get("default"), field.Tag.Get("desc")
		if name == "" || desc == "" {
			t.Errorf("the field %s has no name or no description", field.Name)
		}
		line := regexp.MustCompile(`(?m)^` + name + ` +` + regexp.QuoteMeta(fallback) + ` +` + regexp.QuoteMeta(desc) + `$`)
		if !line.MatchString(out.String()) {
			t.Errorf("%s is not in\n%s", name, &out)
		}
		if strings.HasPrefix(name, "ELECTOR_PORT") || strings.HasPrefix(name, "ELECTOR_SERVICE_") {
			t.Errorf("the kubelet sets %s too, for a Service called elector", name)
		}
	}
	for _, want := range []string{"--help", "--version", "-v=N", "Exit codes: 0 ", " 2 bad configuration", " 1 anything else"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// docs/configuration.md has the same table.
func TestDocumentsListEveryVariable(t *testing.T) {
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[config]().Fields() {
		name, fallback := field.Tag.Get("envconfig"), field.Tag.Get("default")
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		found := false
		for line := range strings.Lines(string(docs)) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 || strings.TrimSpace(cells[2]) != fallback {
				continue
			}
			found = found || slices.Contains(strings.Split(strings.Trim(strings.TrimSpace(cells[1]), "`"), "`, `"), name)
		}
		if !found {
			t.Errorf("docs/configuration.md has no row for %s with the default %s", name, fallback)
		}
	}
}

func TestFlags(t *testing.T) {
	tests := map[string]struct {
		args      []string
		verbosity int
		done      bool
		out       string // of what is printed
		err       string // of what is wrong
	}{
		"none":           {nil, 0, false, "", ""},
		"-v=4":           {[]string{"-v=4"}, 4, false, "", ""},
		"-v 4":           {[]string{"-v", "4"}, 4, false, "", ""},
		"--v=4":          {[]string{"--v=4"}, 4, false, "", ""},
		"--help":         {[]string{"--help"}, 0, true, "ELECTOR_LEASE_NAME", ""},
		"-h":             {[]string{"-h"}, 0, true, "ELECTOR_LEASE_NAME", ""},
		"--version":      {[]string{"--version"}, 0, true, "elector-sidecar ", ""},
		"-v=loud":        {[]string{"-v=loud"}, 0, false, "", "the flags are --help, --version and -v=N"},
		"-v":             {[]string{"-v"}, 0, false, "", "the flags are --help, --version and -v=N"},
		"--lease=web":    {[]string{"--lease=web"}, 0, false, "", "-lease"},
		"an argument":    {[]string{"web"}, 0, false, "", `argument "web"`},
		"after a flag":   {[]string{"-v=1", "web"}, 0, false, "", `argument "web"`},
		"after a hyphen": {[]string{"--", "web"}, 0, false, "", `argument "web"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			verbosity, done, err := parseFlags(test.args, &stdout)
			if verbosity != test.verbosity || done != test.done || (err != nil) != (test.err != "") {
				t.Errorf("verbosity %d, done %t, %v", verbosity, done, err)
			}
			if !strings.Contains(stdout.String(), test.out) || test.out == "" && stdout.Len() > 0 {
				t.Errorf("it prints %q", &stdout)
			}
			if err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("it says %q", err)
			}
		})
	}
}

func TestMisconfiguredMakesOneLineOfEachProblem(t *testing.T) {
	var stderr bytes.Buffer
	misconfigured(&stderr, errors.Join(errors.New("one"), errors.New("two")))
	if got := stderr.String(); got != "elector-sidecar: one\nelector-sidecar: two\n" {
		t.Errorf("it says %q", got)
	}
}
