// SPDX-License-Identifier: Apache-2.0

package conformance

import "sync"

const racers = 8

// race sends requests at once and counts the codes of the answers.
func (a *api) race(nth func(int) request) map[int]int {
	a.t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		codes = map[int]int{}
		start = make(chan struct{})
	)
	for i := range racers {
		wg.Go(func() {
			<-start
			reply, err := a.send(a.t.Context(), nth(i))
			if err != nil {
				a.t.Errorf("racer %d: %v", i, err)
				return
			}
			reply.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			codes[reply.StatusCode]++
		})
	}
	close(start)
	wg.Wait()
	return codes
}
