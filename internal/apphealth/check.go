// SPDX-License-Identifier: Apache-2.0

package apphealth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/elector-sidecar/elector-sidecar/internal/loopback"
)

// Check looks at the app once, and returns what is wrong with it. No two calls run at a time.
type Check func(ctx context.Context) error

// Parse makes a check of what the user gave: an http, tcp or file URL.
func Parse(target string) (Check, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	switch u.Scheme {
	case "http":
		if err := loopback.CheckHTTP(u); err != nil {
			return nil, err
		}
		return byHTTP(target), nil
	case "tcp":
		switch {
		case u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Port() == "":
			return nil, errors.New("it must be tcp://host:port, and no more")
		}
		if err := loopback.CheckHost(u); err != nil {
			return nil, err
		}
		return byTCP(u.Host), nil
	case "file":
		return parseFile(u)
	}
	return nil, errors.New("it must begin with http://, tcp:// or file://")
}

// byHTTP asks as the kubelet's probes do: 200 to 399 is well. A redirect is followed within the same host alone.
func byHTTP(target string) Check {
	client := loopback.Client(func(next *http.Request, before []*http.Request) error {
		switch {
		case next.URL.Scheme != before[0].URL.Scheme || next.URL.Host != before[0].URL.Host:
			return http.ErrUseLastResponse
		case len(before) >= 10:
			return errors.New("10 redirects")
		}
		return nil
	})
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "elector-sidecar")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.CopyN(io.Discard, response.Body, 10<<10) // so that the app need not see a reset
		_ = response.Body.Close()
		if response.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("%s answers %s", target, response.Status)
		}
		return nil
	}
}

// byTCP is well where a connection is accepted.
func byTCP(address string) Check {
	return func(ctx context.Context) error {
		connection, err := loopback.Dialer().DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

func parseFile(u *url.URL) (Check, error) {
	if u.Host != "" || u.User != nil || u.Fragment != "" || !path.IsAbs(u.Path) || path.Clean(u.Path) == "/" {
		return nil, errors.New("it must be file:///path?maxAge=30s, with an absolute path")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	given := values["maxAge"]
	if len(values) != 1 || len(given) != 1 {
		return nil, errors.New("it must have the parameter maxAge, once, and no other, as in file:///path?maxAge=30s")
	}
	maxAge, err := time.ParseDuration(given[0])
	if err != nil || maxAge <= 0 {
		return nil, errors.New("maxAge must be a Go duration above 0s, as in 30s")
	}
	return byFile(path.Clean(u.Path), maxAge), nil
}

// byFile is well while a file was written no longer ago than maxAge. The age is that by the time of day, but no less
// than the time since the check first saw the file as it is: so a time that lies ahead does not make a dead app look
// alive, and a time of day that is set back does not make a file young.
func byFile(name string, maxAge time.Duration) Check {
	var written, seen time.Time // the file's time, and when it was first seen to have that
	var ahead bool              // that time was ahead when the check began to look
	return func(context.Context) error {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return fmt.Errorf("%s is a directory, not a file", name)
		}
		now := time.Now()
		if seen.IsZero() || !info.ModTime().Equal(written) {
			ahead = seen.IsZero() && info.ModTime().After(now)
			written, seen = info.ModTime(), now
		}
		if ahead {
			return fmt.Errorf("%s has a time that lies ahead; it counts once it is written again", name)
		}
		if age := max(now.Round(0).Sub(written), now.Sub(seen)); age > maxAge {
			return fmt.Errorf("%s was written %s ago, more than %s", name, age.Round(time.Millisecond), maxAge)
		}
		return nil
	}
}
