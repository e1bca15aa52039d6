// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the storage that the apps write to. It remembers the largest fencing token that it was shown, and refuses
// whoever comes with a smaller one.
type register struct {
	mu      sync.Mutex
	largest uint64
}

func (r *register) write(token uint64) (accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.largest {
		return false
	}
	r.largest = token
	return true
}

// write is what one app wrote, with when that began and ended.
type write struct {
	seat              int
	token             uint64
	invoked, answered time.Duration
	accepted          bool
}

// stale returns the writes that were accepted although a larger token had been before they began.
func stale(writes []write) []write {
	byEnd := slices.SortedFunc(slices.Values(writes), func(a, b write) int { return int(a.answered - b.answered) })
	byBegin := slices.SortedFunc(slices.Values(writes), func(a, b write) int { return int(a.invoked - b.invoked) })
	var found []write
	largest, ended := uint64(0), 0
	for _, w := range byBegin {
		for ; ended < len(byEnd) && byEnd[ended].answered < w.invoked; ended++ {
			if byEnd[ended].accepted {
				largest = max(largest, byEnd[ended].token)
			}
		}
		if w.accepted && w.token < largest {
			found = append(found, w)
		}
	}
	return found
}

// ownership is the model of who owns what: the largest token so far. To own it, or to write, with that token or a larger
// one is right, and so is to be refused with a smaller one.
func ownership(largest uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return largest },
		Step: func(state, input, output any) (bool, any) {
			largest, token := state.(uint64), input.(uint64)
			if output.(bool) {
				return token >= largest, max(token, largest)
			}
			return token < largest, largest
		},
		DescribeOperation: func(input, output any) string {
			if output.(bool) {
				return fmt.Sprint(input)
			}
			return fmt.Sprintf("%d refused", input)
		},
	}
}

const (
	// pieceSize is how many operations are checked at once, at least: the checker takes memory by their square.
	pieceSize = 300
	// checkTime is how long the check of a piece may take.
	checkTime = time.Minute
)

// linearizable checks a history of ownership or writes. Input is the token, output whether it was accepted. The history
// is cut where nothing is under way: all before such an instant came before all after it, and leaves one state, the
// largest token. What cannot be is drawn in a file of the given name.
func linearizable(history []porcupine.Operation, drawing string) error {
	history = slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	largest, next := uint64(0), uint64(0)
	begin, end := 0, int64(0)
	for i, operation := range history {
		end = max(end, operation.Return)
		if operation.Output.(bool) {
			next = max(next, operation.Input.(uint64))
		}
		last := i == len(history)-1
		if !last && (i+1-begin < pieceSize || history[i+1].Call <= end) {
			continue
		}
		result, info := porcupine.CheckOperationsVerbose(ownership(largest), history[begin:i+1], checkTime)
		if result != porcupine.Ok {
			when := fmt.Sprintf("between %s and %s", stamp(time.Duration(history[begin].Call)), stamp(time.Duration(end)))
			if result == porcupine.Unknown {
				return fmt.Errorf("not decided within %s for what happened %s", checkTime, when)
			}
			if err := porcupine.VisualizePath(ownership(largest), info, drawing); err != nil {
				return fmt.Errorf("not linearizable %s, and not drawn: %w", when, err)
			}
			return fmt.Errorf("not linearizable %s: see %s", when, filepath.Base(drawing))
		}
		begin, largest = i+1, next
	}
	return nil
}

func stamp(at time.Duration) string { return fmt.Sprintf("%.3fs", at.Seconds()) }
