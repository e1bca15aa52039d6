// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// stage is as much of a test as the packages made for tests ask for: the campaign is also a program.
type stage struct {
	testing.TB // nil: what is not below is not asked for
	dir        string

	mu       sync.Mutex
	cleanups []func()
}

func (s *stage) Helper() {}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// Fatal is for what cannot go on; there is no goroutine of a test to end.
func (s *stage) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}

func (s *stage) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
}
