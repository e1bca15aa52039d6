// SPDX-License-Identifier: Apache-2.0

// Package notify tells the app of each change of the election, by requests to it.
package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/loopback"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// The wait before another attempt, which doubles.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// CheckURL tells what is wrong with the URL to notify.
func CheckURL(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return errors.Unwrap(err)
	}
	return loopback.CheckHTTP(u)
}

// Election is the part of elector.Elector that is needed.
type Election interface {
	Status() elector.Status
	Wait(ctx context.Context, enough func(elector.Status) bool) (elector.Status, error)
	Release(ctx context.Context) error
}

// Config says whom to tell, and what.
type Config struct {
	Election Election
	// URL is where the app listens.
	URL string
	// Body is what the app is told of a status.
	Body func(elector.Status) []byte
	// Timeout is how long an answer may take.
	Timeout time.Duration
	// HandoverTimeout is how long the app has to stop its work: that an answer may take where the app is told of a handover,
	// if it is more.
	HandoverTimeout time.Duration
}

// Notify tells the app of each change of revision after the state Starting, in order and one at a time, but only of the
// newest where there are several to tell of. What the app is told is worked out as it is sent. An attempt that fails is
// followed by others until one succeeds or there is another change to tell of. It returns when ctx ends, or when it has
// tried once to tell of the state Stopped.
//
// The app that has taken note of a handover has stopped its work: the handover then ends, unless there is another by then.
func Notify(ctx context.Context, c Config) {
	n := notifier{Config: c, log: klog.FromContext(ctx).WithValues("url", c.URL),
		client: loopback.Client(func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })}
	status, err := c.Election.Wait(ctx, func(s elector.Status) bool { return s.State != elector.Starting })
	backoff := firstBackoff
	for err == nil {
		failure := n.tell(ctx, status)
		if status.State == elector.Stopped || ctx.Err() != nil {
			return
		}
		told := status.Revision
		changed := func(s elector.Status) bool { return s.Revision != told }
		if failure == nil {
			backoff = firstBackoff
			status, err = c.Election.Wait(ctx, changed)
			continue
		}
		pause, cancel := context.WithTimeout(ctx, backoff)
		if status, err = c.Election.Wait(pause, changed); err == nil {
			backoff = firstBackoff
		} else {
			backoff, err = min(2*backoff, lastBackoff), context.Cause(ctx)
		}
		cancel()
	}
}

type notifier struct {
	Config
	client *http.Client
	log    klog.Logger
	failed string // the revision of which it was logged that the app could not be told
}

// tell makes one attempt to tell the app of a status.
func (n *notifier) tell(ctx context.Context, status elector.Status) error {
	err := n.post(ctx, status)
	switch {
	case ctx.Err() != nil || err != nil && status.State == elector.Stopped: // the app may have ended first
		return err
	case err != nil:
		if n.failed != status.Revision {
			n.failed = status.Revision
			n.log.Info("the app was not notified; trying again", "state", status.State.String(), "err", err.Error())
		}
		return err
	case n.failed != "":
		n.failed = ""
		n.log.Info("the app is notified again")
	}
	if status.State == elector.HandingOver && n.Election.Status().Revision == status.Revision {
		n.log.Info("the app says that its work has stopped")
		_ = n.Election.Release(ctx) // the election may have ended meanwhile
	}
	return nil
}

func (n *notifier) post(ctx context.Context, status elector.Status) error {
	timeout := n.Timeout
	if status.State == elector.HandingOver {
		timeout = max(timeout, n.HandoverTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(n.Body(status)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "elector-sidecar")
	response, err := n.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 10<<10)); err != nil { // the answer is not complete
		return err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the app answered %s", response.Status)
	}
	return nil
}
