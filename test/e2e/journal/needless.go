// SPDX-License-Identifier: Apache-2.0

package journal

// Needless is the failures while a leader was there to be reached: an answer had arrived before the request was sent, and a
// request that was sent after the failure was answered with the same token. It is put into them.
func (rs Requests) Needless() (failed Requests) {
	for _, r := range rs {
		if r.Outcome == OK {
			continue
		}
		var before, after *Request
		for i := range rs {
			switch ok := &rs[i]; {
			case ok.Outcome != OK:
			case ok.Answered <= r.Sent && (before == nil || ok.Answered > before.Answered):
				before = ok
			case ok.Sent >= r.Answered && (after == nil || ok.Sent < after.Sent):
				after = ok
			}
		}
		if before != nil && after != nil && before.Token == after.Token {
			r.Token = before.Token
			failed = append(failed, r)
		}
	}
	return failed
}
