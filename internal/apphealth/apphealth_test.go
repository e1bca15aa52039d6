// SPDX-License-Identifier: Apache-2.0

package apphealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errDown   = errors.New("down")
	errBroken = errors.New("broken")
)

// watched runs Watch in virtual time for the given time, each check answering with the next of results, the last of them
// for ever, and returns what was reported, with the time.
func watched(t *testing.T, c Config, lasting time.Duration, results ...error) (reports []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.Period, c.Timeout = 2*time.Second, time.Second
		if c.Check == nil {
			c.Check = func(context.Context) error {
				result := results[0]
				results = results[min(1, len(results)-1):]
				return result
			}
		}
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, c, func(_ context.Context, err error) error {
				reports = append(reports, fmt.Sprintf("%s %v", time.Since(begun), err))
				return nil
			})
		}()
		time.Sleep(lasting)
		cancel()
		<-ended
		time.Sleep(time.Minute) // for a check that cannot be called off
	})
	return reports
}

func TestWatch(t *testing.T) {
	tests := map[string]struct {
		failures, successes int
		results             []error
		want                []string
	}{
		"healthy from the start":  {3, 1, []error{nil}, []string{"0s <nil>"}},
		"takes two, with a break": {3, 2, []error{nil, errDown, nil, nil}, []string{"2s not seen healthy yet: down", "6s <nil>"}},
		"slow to start":           {3, 1, []error{errDown, errDown, errBroken, nil}, []string{"0s not seen healthy yet: down", "4s not seen healthy yet: broken", "6s <nil>"}},
		"goes down":               {3, 1, []error{nil, errDown}, []string{"0s <nil>", "6s down"}},
		"goes down at once":       {1, 1, []error{nil, errDown}, []string{"0s <nil>", "2s down"}},
		"stumbles":                {3, 1, []error{nil, errDown, errDown, nil, errDown, errDown, nil}, []string{"0s <nil>"}},
		"comes back":              {2, 1, []error{nil, errDown, errDown, errDown, errBroken, nil}, []string{"0s <nil>", "4s down", "8s broken", "10s <nil>"}},
		"comes back slowly":       {1, 3, []error{errDown, nil, nil, nil, errDown, nil, nil, errDown, nil, nil, nil}, []string{"0s not seen healthy yet: down", "6s <nil>", "8s down", "20s <nil>"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := watched(t, Config{Failures: test.failures, Successes: test.successes}, 25*time.Second, test.results...)
			if !slices.Equal(got, test.want) {
				t.Errorf("reported:\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// A check that hangs has failed after the timeout, and there is no other beside it.
func TestAHangingCheck(t *testing.T) {
	for name, heedsContext := range map[string]bool{"and heeds its context": true, "as on a dead file system": false} {
		t.Run(name, func(t *testing.T) {
			var running, most, calls atomic.Int32
			var once sync.Once
			release := make(chan struct{})
			got := watched(t, Config{Failures: 3, Successes: 1, Check: func(ctx context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				if n := calls.Add(1); n == 1 || n > 10 {
					return nil
				}
				if heedsContext {
					<-ctx.Done()
					return fmt.Errorf("the app: %w", ctx.Err())
				}
				once.Do(func() { release = make(chan struct{}); time.AfterFunc(19*time.Second, func() { close(release) }) })
				<-release
				return nil // too late to count
			}}, 30*time.Second)
			want := []string{"0s <nil>", "7s no answer within 1s", "20s <nil>"}
			if !heedsContext {
				want[1], want[2] = "6s no answer within 1s", "22s <nil>"
			}
			if !slices.Equal(got, want) {
				t.Errorf("reported:\n%q, want\n%q", got, want)
			}
			if most.Load() > 1 {
				t.Errorf("%d checks ran at a time", most.Load())
			}
		})
	}
}

// A check that comes back after its timeout has failed, however it went.
func TestASlowCheckIsNoGoodOne(t *testing.T) {
	got := watched(t, Config{Failures: 1, Successes: 1, Check: func(context.Context) error {
		time.Sleep(1500 * time.Millisecond)
		return nil
	}}, 20*time.Second)
	if want := []string{"1s not seen healthy yet: no answer within 1s"}; !slices.Equal(got, want) {
		t.Errorf("reported: %q", got)
	}
}

func TestWatchEndsWhenNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Watch(t.Context(), Config{Period: time.Second, Timeout: time.Second, Failures: 1, Successes: 1,
			Check: func(context.Context) error { return nil }},
			func(context.Context, error) error { return errors.New("the election has ended") })
	})
}
