// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// Late is the answers of former leaders, by what the apps have written: those with a token below that of a write that was
// accepted before the request was sent. It compares times of the client with times of the recorder: they have to be on one
// node.
func (rs Requests) Late(entries []Entry) (found []string) {
	accepted := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Stale })
	for _, r := range rs {
		// Tokens of accepted writes grow, so the last before the request has the largest.
		i := sort.Search(len(accepted), func(i int) bool { return accepted[i].Arrived >= r.Sent })
		if r.Outcome == OK && i > 0 && accepted[i-1].Token > r.Token {
			found = append(found, fmt.Sprintf("%s answered with token %d a request of %s, after %s had written with token %d at %s",
				r.Pod, r.Token, stamp(r.Sent), accepted[i-1].Pod, accepted[i-1].Token, stamp(accepted[i-1].Arrived)))
		}
	}
	return found
}

// During is the writes with the token of a request that arrived while the client waited. It compares times as Late does.
func (r Request) During(entries []Entry) (beats int) {
	for _, e := range entries {
		if !e.Stale && e.Token == r.Token && r.Sent < e.Arrived && e.Arrived < r.Answered {
			beats++
		}
	}
	return beats
}

// First is the first answer with a token.
func (rs Requests) First(token int64) (Request, bool) {
	i := slices.IndexFunc(rs, func(r Request) bool { return r.Outcome == OK && r.Token == token })
	if i < 0 {
		return Request{}, false
	}
	return rs[i], true
}

// Slowest is the longest that the client has waited for an answer that came.
func (rs Requests) Slowest() (longest time.Duration) {
	for _, r := range rs {
		if r.Outcome == OK {
			longest = max(longest, r.Answered-r.Sent)
		}
	}
	return longest
}
