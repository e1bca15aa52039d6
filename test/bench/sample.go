// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// sample is measured values of one kind, in the unit of its row.
type sample struct{ values []float64 }

// one is a sample of one value.
func one(value float64) *sample { return &sample{values: []float64{value}} }

// add adds a time, in milliseconds.
func (s *sample) add(d time.Duration) {
	s.values = append(s.values, float64(d)/float64(time.Millisecond))
}

// quantile is the smallest value that at least a part q of the values does not exceed, and for the middle of an even number the
// mean of the two.
func (s *sample) quantile(q float64) float64 {
	n := len(s.values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.values))
	if q == 0.5 && n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[max(0, int(math.Ceil(q*float64(n)))-1)]
}

func (s *sample) median() float64 { return s.quantile(0.5) }
func (s *sample) p90() float64    { return s.quantile(0.9) }
func (s *sample) max() float64    { return s.quantile(1) }

// MarshalJSON writes the figures and the values.
func (s *sample) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		N      int       `json:"n"`
		Median float64   `json:"median"`
		P90    float64   `json:"p90"`
		Max    float64   `json:"max"`
		Values []float64 `json:"values"`
	}{len(s.values), s.median(), s.p90(), s.max(), s.values})
}
