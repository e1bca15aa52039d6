// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kelseyhightower/envconfig"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/elector-sidecar/elector-sidecar/internal/apphealth"
	"github.com/elector-sidecar/elector-sidecar/internal/notify"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// config is the environment. A value that cannot be read is kept with its problem, so that all are reported at once.
type config struct {
	LeaseName       string    `envconfig:"ELECTOR_LEASE_NAME" desc:"name of the Lease (required)"`
	LeaseNamespace  string    `envconfig:"ELECTOR_LEASE_NAMESPACE" desc:"namespace of the Lease; POD_NAMESPACE, else the service account's, where unset"`
	PodName         string    `envconfig:"POD_NAME" desc:"this pod's name, from the downward API; the host name where unset"`
	PodNamespace    string    `envconfig:"POD_NAMESPACE" desc:"this pod's namespace, from the downward API"`
	PodUID          string    `envconfig:"POD_UID" desc:"this pod's UID, from the downward API"`
	PodIP           addresses `envconfig:"POD_IP" desc:"this pod's address, from the downward API (status.podIP, or status.podIPs for two families)"`
	NodeName        string    `envconfig:"NODE_NAME" desc:"this pod's node, from the downward API; for a Service that keeps traffic on its node"`
	Identity        string    `envconfig:"ELECTOR_IDENTITY" desc:"holderIdentity; <POD_NAME>_<POD_UID> where unset, or <POD_NAME>_<random> without a UID"`
	LeaseDuration   duration  `envconfig:"ELECTOR_LEASE_DURATION" default:"15s" desc:"how long others respect the lease without a renewal; whole seconds, at least 1s"`
	RenewDeadline   duration  `envconfig:"ELECTOR_RENEW_DEADLINE" default:"10s" desc:"how long a renewal lets this pod lead; below the lease duration"`
	RetryPeriod     duration  `envconfig:"ELECTOR_RETRY_PERIOD" default:"2s" desc:"time between renewals, and between retries; below the renew deadline"`
	HTTPAddress     string    `envconfig:"ELECTOR_HTTP_ADDRESS" default:":4040" desc:"where the API listens"`
	HandoverTimeout duration  `envconfig:"ELECTOR_HANDOVER_TIMEOUT" default:"0s" desc:"how long a leader that steps down keeps the lease for the app to finish"`
	AppHealth       string    `envconfig:"ELECTOR_APP_HEALTH" desc:"how to see whether the app is healthy: http://127.0.0.1:8080/healthz, tcp://127.0.0.1:5432 or file:///path?maxAge=30s; taken for healthy where unset"`
	AppPeriod       duration  `envconfig:"ELECTOR_APP_HEALTH_PERIOD" default:"2s" desc:"time between checks of the app's health"`
	AppTimeout      duration  `envconfig:"ELECTOR_APP_HEALTH_TIMEOUT" default:"1s" desc:"how long a check may take; at most the period"`
	AppFailures     count     `envconfig:"ELECTOR_APP_HEALTH_FAILURES" default:"3" desc:"failed checks in a row that make the app unhealthy"`
	AppSuccesses    count     `envconfig:"ELECTOR_APP_HEALTH_SUCCESSES" default:"1" desc:"good checks in a row that make it healthy"`
	NotifyURL       string    `envconfig:"ELECTOR_NOTIFY_URL" desc:"where the app is told of each change, as in http://127.0.0.1:8080/leader; nowhere where unset"`
	Service         string    `envconfig:"ELECTOR_SERVICE" desc:"a Service without a selector that is to lead to the leader; needs POD_IP"`
	PodLabel        string    `envconfig:"ELECTOR_POD_LABEL" desc:"a label of the pod, by its key, that is to be leader on the leader and follower on the others"`
	ReadinessGate   string    `envconfig:"ELECTOR_READINESS_GATE" desc:"a condition of the pod, by its type, that is to be true on the leader alone"`
	MaxWaiters      count     `envconfig:"ELECTOR_MAX_WAITERS" default:"1024" desc:"requests that may block at once"`
	Compatibility   string    `envconfig:"ELECTOR_COMPATIBILITY" desc:"nais: last_update in the answer of /, and /sse, as nais/elector has them"`
	LogFormat       string    `envconfig:"ELECTOR_LOG_FORMAT" default:"text" desc:"text or json"`
	Kubeconfig      string    `envconfig:"KUBECONFIG" desc:"where the cluster is, outside one; in-cluster where unset"`
}

// duration is a Go duration, or what was given instead.
type duration struct {
	time.Duration
	given      string
	unreadable bool
}

// Decode reads a value for envconfig.
func (d *duration) Decode(value string) error {
	parsed, err := time.ParseDuration(value)
	*d = duration{Duration: parsed, given: value, unreadable: err != nil}
	return nil
}

// count is a whole number, or what was given instead.
type count struct {
	int
	given      string
	unreadable bool
}

// Decode reads a value for envconfig.
func (c *count) Decode(value string) error {
	parsed, err := strconv.Atoi(value)
	*c = count{int: parsed, given: value, unreadable: err != nil}
	return nil
}

// addresses are those of a pod, or what was given instead.
type addresses struct {
	list       []netip.Addr
	given      string
	unreadable bool
}

// Decode reads a value for envconfig.
func (a *addresses) Decode(value string) error {
	*a = addresses{given: value}
	if value == "" {
		return nil
	}
	for part := range strings.SplitSeq(value, ",") {
		address, err := netip.ParseAddr(part)
		a.unreadable = a.unreadable || err != nil || address.Zone() != "" || address.IsUnspecified()
		a.list = append(a.list, address.Unmap())
	}
	return nil
}

// first is the address that is told to others, zero where none is known.
func (a *addresses) first() netip.Addr {
	if len(a.list) == 0 {
		return netip.Addr{}
	}
	return a.list[0]
}

// serviceAccountNamespace is where the kubelet mounts the namespace of the pod's service account.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// loadConfig reads the environment. The error joins one for each variable that is wrong.
func loadConfig() (*config, error) {
	c := &config{}
	if err := envconfig.Process("", c); err != nil {
		return nil, err
	}
	if c.PodNamespace == "" {
		if mounted, err := os.ReadFile(serviceAccountNamespace); err == nil {
			c.PodNamespace = strings.TrimSpace(string(mounted))
		}
	}
	if c.LeaseNamespace == "" {
		c.LeaseNamespace = c.PodNamespace
	}
	podNameFrom := "POD_NAME"
	if c.PodName == "" {
		podNameFrom = "POD_NAME (unset, so the host name)"
		c.PodName, _ = os.Hostname() // validate says what is wrong with ""
	}
	if err := c.validate(podNameFrom); err != nil {
		return nil, err
	}
	if c.Identity == "" {
		suffix := c.PodUID
		if suffix == "" {
			random := make([]byte, 8)
			_, _ = rand.Read(random) // it never fails
			suffix = hex.EncodeToString(random)
		}
		c.Identity = c.PodName + "_" + suffix
	}
	return c, nil
}

func (c *config) validate(podNameFrom string) error {
	var problems []error
	wrong := func(variable, value, allowed string) {
		problems = append(problems, fmt.Errorf("%s is %q: %s", variable, value, allowed))
	}
	if c.LeaseName == "" {
		problems = append(problems, errors.New("ELECTOR_LEASE_NAME is not set: it must be the name of the Lease, the same in each pod that contends for it"))
	} else if validation.IsDNS1123Subdomain(c.LeaseName) != nil {
		wrong("ELECTOR_LEASE_NAME", c.LeaseName, "it must be a DNS-1123 subdomain: at most 253 lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit")
	}
	switch {
	case c.LeaseNamespace == "":
		problems = append(problems, errors.New("ELECTOR_LEASE_NAMESPACE is not set, nor POD_NAMESPACE, and no service account is mounted: set one to the namespace of the Lease"))
	case validation.IsDNS1123Label(c.LeaseNamespace) != nil:
		wrong("ELECTOR_LEASE_NAMESPACE", c.LeaseNamespace, "it must be a DNS-1123 label: at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit")
	}
	if validation.IsDNS1123Subdomain(c.PodName) != nil {
		wrong(podNameFrom, c.PodName, "it must be a pod's name: a DNS-1123 subdomain, as in fieldRef metadata.name")
	}
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if strings.ContainsFunc(c.Identity, bad) || !utf8.ValidString(c.Identity) || strings.HasPrefix(c.Identity, "_") || strings.HasPrefix(c.Identity, "$(") {
		wrong("ELECTOR_IDENTITY", c.Identity, "it must be UTF-8 without spaces and control characters, and not begin with '_' or '$('")
	}
	if strings.ContainsFunc(c.PodUID, bad) || !utf8.ValidString(c.PodUID) || strings.HasPrefix(c.PodUID, "$(") {
		wrong("POD_UID", c.PodUID, "it must be a pod's UID, as in fieldRef metadata.uid")
	}

	lease, renew, retry := c.LeaseDuration, c.RenewDeadline, c.RetryPeriod
	const longest = math.MaxInt32 * time.Second
	if lease.unreadable || lease.Duration < time.Second || lease.Duration > longest || lease.Duration%time.Second != 0 {
		wrong("ELECTOR_LEASE_DURATION", lease.given, "it must be a Go duration of whole seconds, at least 1s, as in 15s")
		lease.Duration = longest // so that what is compared with it is not reported too
	}
	if renew.unreadable || renew.Duration <= 0 || renew.Duration >= lease.Duration {
		wrong("ELECTOR_RENEW_DEADLINE", renew.given, "it must be a Go duration above 0s and below ELECTOR_LEASE_DURATION ("+c.LeaseDuration.given+"), as in 10s")
		renew.Duration = longest
	}
	if retry.unreadable || retry.Duration < elector.MinRetryPeriod || retry.Duration > renew.Duration-elector.MinRequestTime {
		wrong("ELECTOR_RETRY_PERIOD", retry.given, fmt.Sprintf("it must be a Go duration of at least %s, and %s below ELECTOR_RENEW_DEADLINE (%s), as in 2s",
			elector.MinRetryPeriod, elector.MinRequestTime, c.RenewDeadline.given))
	}
	if h := c.HandoverTimeout; h.unreadable || h.Duration < 0 || h.Duration > elector.MaxHandoverTimeout {
		wrong("ELECTOR_HANDOVER_TIMEOUT", h.given, fmt.Sprintf("it must be a Go duration from 0s to %s, as in 20s", elector.MaxHandoverTimeout))
	}
	if c.AppHealth != "" {
		if _, err := apphealth.Parse(c.AppHealth); err != nil {
			wrong("ELECTOR_APP_HEALTH", c.AppHealth, "it must be like http://127.0.0.1:8080/healthz, tcp://127.0.0.1:5432 or file:///path?maxAge=30s: "+err.Error())
		}
	}
	period, timeout := c.AppPeriod, c.AppTimeout
	if period.unreadable || period.Duration <= 0 {
		wrong("ELECTOR_APP_HEALTH_PERIOD", period.given, "it must be a Go duration above 0s, as in 2s")
		period.Duration = longest
	}
	if timeout.unreadable || timeout.Duration <= 0 || timeout.Duration > period.Duration {
		wrong("ELECTOR_APP_HEALTH_TIMEOUT", timeout.given, "it must be a Go duration above 0s and at most ELECTOR_APP_HEALTH_PERIOD ("+period.given+"), as in 1s")
	}
	if n := c.AppFailures; n.unreadable || n.int < 1 {
		wrong("ELECTOR_APP_HEALTH_FAILURES", n.given, "it must be a whole number, at least 1")
	}
	if n := c.AppSuccesses; n.unreadable || n.int < 1 {
		wrong("ELECTOR_APP_HEALTH_SUCCESSES", n.given, "it must be a whole number, at least 1")
	}
	if c.NotifyURL != "" {
		if err := notify.CheckURL(c.NotifyURL); err != nil {
			wrong("ELECTOR_NOTIFY_URL", c.NotifyURL, "it must be like http://127.0.0.1:8080/leader: "+err.Error())
		}
	}
	c.validateSigns(wrong)
	if c.MaxWaiters.unreadable || c.MaxWaiters.int < 1 {
		wrong("ELECTOR_MAX_WAITERS", c.MaxWaiters.given, "it must be a whole number, at least 1")
	}
	if _, port, err := net.SplitHostPort(c.HTTPAddress); err != nil || !isPort(port) {
		wrong("ELECTOR_HTTP_ADDRESS", c.HTTPAddress, "it must be host:port or :port, as in :4040 or 127.0.0.1:4040")
	}
	if c.Compatibility != "" && c.Compatibility != "nais" {
		wrong("ELECTOR_COMPATIBILITY", c.Compatibility, "it must be nais, or not set")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		wrong("ELECTOR_LOG_FORMAT", c.LogFormat, "it must be text or json")
	}
	return errors.Join(problems...)
}

// validateSigns checks what is to show this pod as the leader.
func (c *config) validateSigns(wrong func(variable, value, allowed string)) {
	if c.PodIP.unreadable {
		wrong("POD_IP", c.PodIP.given, "it must be a pod's address, as in fieldRef status.podIP, or addresses with a comma between, as in status.podIPs")
	}
	switch {
	case c.Service == "":
	case validation.IsDNS1123Label(c.Service) != nil:
		wrong("ELECTOR_SERVICE", c.Service, "it must be the name of a Service: at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit")
	case c.PodIP.given == "":
		wrong("ELECTOR_SERVICE", c.Service, "it needs POD_IP, this pod's address, as in fieldRef status.podIP")
	}
	for _, key := range [...]struct{ variable, value string }{
		{"ELECTOR_POD_LABEL", c.PodLabel}, {"ELECTOR_READINESS_GATE", c.ReadinessGate},
	} {
		if key.value != "" && validation.IsQualifiedName(key.value) != nil {
			wrong(key.variable, key.value, "it must be a qualified name: at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, after a DNS-1123 subdomain and '/' where it has a prefix, as in example.com/role")
		}
	}
	if signs := c.Service + c.PodLabel + c.ReadinessGate; signs != "" && validation.IsDNS1123Label(c.PodNamespace) != nil {
		wrong("POD_NAMESPACE", c.PodNamespace, "it must be this pod's namespace for ELECTOR_SERVICE, ELECTOR_POD_LABEL and ELECTOR_READINESS_GATE, as in fieldRef metadata.namespace")
	}
}

// isPort tells whether s is the number of a TCP port; 0 is any.
func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// elector is the part of the configuration that the election needs.
func (c *config) elector(client elector.LeaseClient, sandbox string) elector.Config {
	contest := elector.Config{
		Client:          client,
		Namespace:       c.LeaseNamespace,
		Name:            c.LeaseName,
		Identity:        c.Identity,
		Sandbox:         sandbox,
		Address:         c.PodIP.first(),
		LeaseDuration:   c.LeaseDuration.Duration,
		RenewDeadline:   c.RenewDeadline.Duration,
		RetryPeriod:     c.RetryPeriod.Duration,
		HandoverTimeout: c.HandoverTimeout.Duration,
	}
	if c.AppHealth != "" {
		contest.Unwell = apphealth.ErrNotSeen
	}
	return contest
}

// usage prints the table of variables for --help. It reads the tags itself: envconfig.Usagef would link text/template,
// with which the linker has to keep every method of every type, a sixth of the binary.
func usage(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(out, `elector-sidecar contends for a Kubernetes Lease on behalf of its pod, and tells the pod's other containers over
HTTP whether it leads. It is configured by environment variables.

VARIABLE	DEFAULT	MEANING
`)
	for field := range reflect.TypeFor[config]().Fields() {
		if name := field.Tag.Get("envconfig"); name != "" {
			fmt.Fprintf(out, "%s\t%s\t%s\n", name, field.Tag.Get("default"), field.Tag.Get("desc"))
		}
	}
	fmt.Fprint(out, ``+subcommandUsage+`
Flags: --help, --version, -v=N (log verbosity, 0 to 10; default 0)
Exit codes: 0 orderly stop, 2 bad configuration or an address that cannot be bound, 1 anything else
`)
	_ = out.Flush()
}
