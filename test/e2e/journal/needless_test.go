// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"
	"time"
)

func TestNeedless(t *testing.T) {
	failed := func(sent, failed int) Request {
		return Request{Sent: time.Duration(sent), Answered: time.Duration(failed), Outcome: TimedOut}
	}
	for name, c := range map[string]struct {
		requests Requests
		needless int
	}{
		"with the same leader before and after":       {Requests{request(1, 2, 5), failed(3, 4), failed(4, 5), request(6, 7, 5)}, 2},
		"between two leaders":                         {Requests{request(1, 2, 5), failed(3, 4), request(6, 7, 6)}, 0},
		"before the first answer":                     {Requests{failed(3, 4), request(6, 7, 5)}, 0},
		"after the last":                              {Requests{request(1, 2, 5), failed(3, 4)}, 0},
		"beside the new leader's first answer":        {Requests{request(1, 2, 5), request(3, 9, 6), failed(4, 8), request(10, 11, 6)}, 0},
		"after it":                                    {Requests{request(1, 2, 5), request(3, 9, 6), failed(9, 10), request(10, 11, 6)}, 1},
		"while the old leader's last answer comes in": {Requests{request(1, 4, 5), failed(3, 5), request(6, 7, 5)}, 0},
	} {
		found := c.requests.Needless()
		if len(found) != c.needless {
			t.Errorf("%s: it finds %v, want %d", name, found, c.needless)
		}
		for _, r := range found {
			if last := c.requests[len(c.requests)-1]; r.Token != last.Token {
				t.Errorf("%s: the token is %d, want %d", name, r.Token, last.Token)
			}
		}
	}
}
