// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// subcommands are what the binary does beside being a sidecar. Each returns the exit code.
var subcommands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"is-leader": isLeader,
	"wait":      wait,
	"install":   install,
	"exec":      execute,
	watchdogArg: watchdog,
}

// subcommand runs the subcommand that args begin with; false where they begin with a flag, or with nothing.
func subcommand(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, false
	}
	if run := subcommands[args[0]]; run != nil {
		return run(ctx, args[1:], stdout, stderr), true
	}
	return misconfigured(stderr, fmt.Errorf("subcommand %q: there are exec, is-leader, wait and install; without one this is the sidecar", args[0])), true
}

// subcommandUsage is what --help says of them.
const subcommandUsage = `
Subcommands, for use without curl:
  exec [-v=N] -- COMMAND [ARG...]
      join the election, and run COMMAND only while this pod leads. The variables are the same, but
      ELECTOR_HANDOVER_TIMEOUT is 20s where unset: how long COMMAND may take to end after SIGTERM
  is-leader [--timeout=1s]
      exit with 0 if this pod leads, with 1 if it does not or there is no answer; for exec probes
  wait --for=leading|not-leading [--timeout=30s]
      exit with 0 as soon as it is so, with 1 after the timeout (0s, the default: none) or when the sidecar stops
  install DIR
      copy this binary to DIR/elector-sidecar, for images without a shell
is-leader and wait ask the sidecar at ELECTOR_HTTP_ADDRESS.
`

// parse parses the arguments of a subcommand; done means that there is nothing left to do but to exit with the code.
func parse(flags *flag.FlagSet, args []string, stdout, stderr io.Writer) (code int, done bool) {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, strings.TrimPrefix(subcommandUsage, "\n"))
		return exitOrderly, true
	case err != nil:
		return misconfigured(stderr, fmt.Errorf("%s: %w", flags.Name(), err)), true
	}
	return 0, false
}

// notSo is the exit code of a question that was answered with no, or not at all.
const notSo = exitFailed

func isLeader(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("is-leader", flag.ContinueOnError)
	timeout := flags.Duration("timeout", time.Second, "")
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() > 0 || *timeout <= 0 {
		return misconfigured(stderr, errors.New("is-leader: the only flag is --timeout, above 0s, as in --timeout=1s"))
	}
	api, err := localAPI()
	if err != nil {
		return misconfigured(stderr, err)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	code, _, body, err := api.get(ctx, "/is-leader")
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "elector-sidecar: no answer, so not leading: %v\n", err)
		return notSo
	case code == http.StatusOK || code == http.StatusServiceUnavailable:
		fmt.Fprint(stdout, body)
	default:
		fmt.Fprintf(stderr, "elector-sidecar: %s does not answer as a sidecar does: %d\n", api.address, code)
	}
	if code == http.StatusOK {
		return exitOrderly
	}
	return notSo
}

const (
	// longestWait is how long one request of wait blocks.
	longestWait = time.Minute
	// askAgain is the pause after a request that failed.
	askAgain = 250 * time.Millisecond
)

func wait(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("wait", flag.ContinueOnError)
	wanted := flags.String("for", "", "")
	timeout := flags.Duration("timeout", 0, "")
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() > 0 || *timeout < 0 || *wanted != "leading" && *wanted != "not-leading" {
		return misconfigured(stderr, errors.New("wait: it must be wait --for=leading or wait --for=not-leading, and may have a --timeout of at least 0s, as in --timeout=30s"))
	}
	api, err := localAPI()
	if err != nil {
		return misconfigured(stderr, err)
	}
	if *timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *timeout)
		defer cancel()
	}
	problem := fmt.Errorf("this pod is still not %s after %s", *wanted, *timeout)
	for {
		so, err := api.waitOnce(ctx, *wanted)
		switch {
		case so:
			return exitOrderly
		case errors.Is(err, errStopping):
			problem = err
		case ctx.Err() != nil:
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				problem = err
			}
		default:
			if err != nil {
				problem = err
				pause(ctx, askAgain)
			}
			continue
		}
		fmt.Fprintf(stderr, "elector-sidecar: %v\n", problem)
		return notSo
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var errStopping = errors.New("the sidecar is stopping: this pod will not lead")

// waitOnce blocks until it is so, or for as long as one request may. An error means that there was no good answer.
func (a *api) waitOnce(ctx context.Context, wanted string) (so bool, err error) {
	longest := longestWait
	if end, ok := ctx.Deadline(); ok {
		longest = min(longest, max(0, time.Until(end)))
	}
	// The answer comes at the end of the wait, which must not be the end of the request.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest+5*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, cancel) })()
	query := url.Values{"for": {wanted}, "timeout": {longest.String()}}
	code, header, body, err := a.get(request, "/wait?"+query.Encode())
	switch {
	case err != nil:
		return false, fmt.Errorf("no answer: %w", err)
	case code == http.StatusOK:
		return true, nil
	case code == http.StatusGatewayTimeout:
		return false, nil
	case code == http.StatusServiceUnavailable && header.Get("Retry-After") == "":
		return false, errStopping
	}
	return false, fmt.Errorf("%s answered %d: %s", a.address, code, strings.TrimSpace(body))
}

// api is the sidecar of this pod.
type api struct {
	address string
	client  *http.Client
}

// localAPI finds it by the address that it was told to listen on.
func localAPI() (*api, error) {
	address := os.Getenv("ELECTOR_HTTP_ADDRESS")
	if address == "" {
		address = ":4040"
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("ELECTOR_HTTP_ADDRESS is %q: it must be host:port or :port, as in :4040 or 127.0.0.1:4040", address)
	}
	dialer := &net.Dialer{}
	return &api{address: address, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// A missing or unspecified host is this one to Dial. No proxy is asked.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		},
	}}}, nil
}

// longestAnswer bounds what is read of an answer.
const longestAnswer = 64 << 10

func (a *api) get(ctx context.Context, path string) (code int, header http.Header, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return 0, nil, "", err
	}
	response, err := a.client.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which is not where it was sent
		}
		return 0, nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	return response.StatusCode, response.Header, string(text), err
}
