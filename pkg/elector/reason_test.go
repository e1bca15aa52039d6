// SPDX-License-Identifier: Apache-2.0

package elector_test

import (
	"errors"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
)

// There is no moment at which a candidate that is unwell at first could lead: the Lease is not even written.
func TestUnwellAtFirst(t *testing.T) {
	bubble(t, func(t *testing.T, store *electortest.Store) {
		a := start(t, store, "a_1", func(c *elector.Config) { c.Unwell = errors.New("not seen yet") })
		pass(time.Minute)
		if s := a.Status(); s.IsLeader || s.Reason != "the app is unhealthy: not seen yet" || store.Peek(namespace, leaseName) != nil {
			t.Fatalf("status %+v, the Lease is %v", s, store.Peek(namespace, leaseName))
		}
		revision := a.Status().Revision
		_ = a.SetHealth(t.Context(), errors.New("down"))
		settle()
		if s := a.Status(); s.Reason != "the app is unhealthy: down" || s.Revision != revision {
			t.Errorf("status %+v; the revision was %s", s, revision)
		}
		_ = a.SetHealth(t.Context(), nil)
		until(t, 20*time.Millisecond, "a leads", a.leads)
		if s := a.Status(); s.Reason != "" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestReason(t *testing.T) {
	const handover, cooldown = 5 * time.Second, 20 * time.Second
	slow := func(c *elector.Config) { c.HandoverTimeout = handover }
	expect := func(t *testing.T, c *candidate, state elector.State, reason string) {
		t.Helper()
		settle()
		if s := c.Status(); s.State != state || s.Reason != reason {
			t.Errorf("%s because %q, want %s because %q", s.State, s.Reason, state, reason)
		}
	}
	t.Run("of a resignation", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1", slow)
			expect(t, a, elector.Leading, "")
			_ = a.Resign(t.Context(), cooldown)
			const why = "asked to resign, with a cooldown of 20s"
			expect(t, a, elector.HandingOver, why)
			pass(handover)
			expect(t, a, elector.Following, why)
			pass(cooldown - time.Second)
			expect(t, a, elector.Following, why)
			pass(time.Second)
			expect(t, a, elector.Leading, "")
		})
	})
	t.Run("that is over when another leads", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1")
			settle()
			start(t, store, "b_1")
			settle()
			_ = a.Resign(t.Context(), cooldown)
			pass(cooldown - time.Millisecond) // between two steps of the loop
			if s := a.Status(); s.Reason == "" {
				t.Errorf("status %+v", s)
			}
			pass(20 * time.Millisecond)
			expect(t, a, elector.Following, "")
		})
	})
	t.Run("of an illness", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1", slow)
			settle()
			_ = a.SetHealth(t.Context(), errors.New("down"))
			expect(t, a, elector.HandingOver, "the app is unhealthy: down")
			_ = a.SetHealth(t.Context(), nil) // it hands over all the same, for that reason
			expect(t, a, elector.HandingOver, "the app is unhealthy: down")
			pass(handover)
			expect(t, a, elector.Leading, "")
		})
	})
	t.Run("of a stop there is none", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1", slow)
			settle()
			_ = a.Resign(t.Context(), 0)
			pass(handover)
			expect(t, a, elector.Leading, "")
			a.stop()
			expect(t, a, elector.HandingOver, "")
			pass(handover)
			expect(t, a, elector.Stopped, "")
		})
	})
	t.Run("of the end there is none", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *electortest.Store) {
			a := start(t, store, "a_1", func(c *elector.Config) { c.Unwell = errors.New("not seen yet") })
			settle()
			a.stop()
			expect(t, a, elector.Stopped, "")
		})
	})
}
