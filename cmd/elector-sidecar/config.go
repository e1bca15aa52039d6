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
	"os"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/kelseyhightower/envconfig"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// config is the environment. A value that cannot be read is kept with its problem, so that all are reported at once.
type config struct {
	LeaseName       string   `envconfig:"ELECTOR_LEASE_NAME" desc:"name of the Lease (required)"`
	LeaseNamespace  string   `envconfig:"ELECTOR_LEASE_NAMESPACE" desc:"namespace of the Lease; POD_NAMESPACE, else the service account's, where unset"`
	PodName         string   `envconfig:"POD_NAME" desc:"this pod's name, from the downward API; the host name where unset"`
	PodNamespace    string   `envconfig:"POD_NAMESPACE" desc:"this pod's namespace, from the downward API"`
	PodUID          string   `envconfig:"POD_UID" desc:"this pod's UID, from the downward API"`
	Identity        string   `envconfig:"ELECTOR_IDENTITY" desc:"holderIdentity; <POD_NAME>_<POD_UID> where unset, or <POD_NAME>_<random> without a UID"`
	LeaseDuration   duration `envconfig:"ELECTOR_LEASE_DURATION" default:"15s" desc:"how long others respect the lease without a renewal; whole seconds, at least 1s"`
	RenewDeadline   duration `envconfig:"ELECTOR_RENEW_DEADLINE" default:"10s" desc:"how long a renewal lets this pod lead; below the lease duration"`
	RetryPeriod     duration `envconfig:"ELECTOR_RETRY_PERIOD" default:"2s" desc:"time between renewals, and between retries; below the renew deadline"`
	HTTPAddress     string   `envconfig:"ELECTOR_HTTP_ADDRESS" default:":4040" desc:"where the API listens"`
	HandoverTimeout duration `envconfig:"ELECTOR_HANDOVER_TIMEOUT" default:"0s" desc:"how long a leader that steps down keeps the lease for the app to finish"`
	MaxWaiters      count    `envconfig:"ELECTOR_MAX_WAITERS" default:"1024" desc:"requests that may block at once"`
	LogFormat       string   `envconfig:"ELECTOR_LOG_FORMAT" default:"text" desc:"text or json"`
	Kubeconfig      string   `envconfig:"KUBECONFIG" desc:"where the cluster is, outside one; in-cluster where unset"`
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

// serviceAccountNamespace is where the kubelet mounts the namespace of the pod's service account.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// loadConfig reads the environment. The error joins one for each variable that is wrong.
func loadConfig() (*config, error) {
	c := &config{}
	if err := envconfig.Process("", c); err != nil {
		return nil, err
	}
	if c.LeaseNamespace == "" {
		c.LeaseNamespace = c.PodNamespace
	}
	if c.LeaseNamespace == "" {
		if mounted, err := os.ReadFile(serviceAccountNamespace); err == nil {
			c.LeaseNamespace = strings.TrimSpace(string(mounted))
		}
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
	if strings.ContainsFunc(c.Identity, bad) {
		wrong("ELECTOR_IDENTITY", c.Identity, "it must have no spaces and no control characters")
	}
	if strings.ContainsFunc(c.PodUID, bad) || strings.HasPrefix(c.PodUID, "$(") {
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
	if retry.unreadable || retry.Duration <= 0 || retry.Duration >= renew.Duration {
		wrong("ELECTOR_RETRY_PERIOD", retry.given, "it must be a Go duration above 0s and below ELECTOR_RENEW_DEADLINE ("+c.RenewDeadline.given+"), as in 2s")
	}
	if h := c.HandoverTimeout; h.unreadable || h.Duration < 0 {
		wrong("ELECTOR_HANDOVER_TIMEOUT", h.given, "it must be a Go duration of at least 0s, as in 20s")
	}
	if c.MaxWaiters.unreadable || c.MaxWaiters.int < 1 {
		wrong("ELECTOR_MAX_WAITERS", c.MaxWaiters.given, "it must be a whole number, at least 1")
	}
	if _, _, err := net.SplitHostPort(c.HTTPAddress); err != nil {
		wrong("ELECTOR_HTTP_ADDRESS", c.HTTPAddress, "it must be host:port or :port, as in :4040 or 127.0.0.1:4040")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		wrong("ELECTOR_LOG_FORMAT", c.LogFormat, "it must be text or json")
	}
	return errors.Join(problems...)
}

// elector is the part of the configuration that the election needs.
func (c *config) elector(client elector.LeaseClient, sandbox string) elector.Config {
	return elector.Config{
		Client:          client,
		Namespace:       c.LeaseNamespace,
		Name:            c.LeaseName,
		Identity:        c.Identity,
		Sandbox:         sandbox,
		LeaseDuration:   c.LeaseDuration.Duration,
		RenewDeadline:   c.RenewDeadline.Duration,
		RetryPeriod:     c.RetryPeriod.Duration,
		HandoverTimeout: c.HandoverTimeout.Duration,
	}
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
	fmt.Fprint(out, `
Flags: --help, --version, -v=N (log verbosity, 0 to 10; default 0)
Exit codes: 0 orderly stop, 2 bad configuration or an address that cannot be bound, 1 anything else
`)
	_ = out.Flush()
}
