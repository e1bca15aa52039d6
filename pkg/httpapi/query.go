// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	defaultWait = 30 * time.Second
	maxWait     = 5 * time.Minute
	maxCooldown = time.Hour
)

// query holds the parameters of a request, each of which is known and given at most once.
type query url.Values

func parseQuery(r *http.Request, known ...string) (query, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query %q cannot be read: %w", r.URL.RawQuery, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given := values[name]
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no parameter %q; %s takes %s", name, r.URL.Path, strings.Join(known, " and "))
		}
		if len(given) > 1 {
			return nil, fmt.Errorf("%s is given %d times; give it once", name, len(given))
		}
	}
	return query(values), nil
}

func (q query) has(name string) bool   { return url.Values(q).Has(name) }
func (q query) get(name string) string { return url.Values(q).Get(name) }

// duration reads a time of 0 to most; fallback where there is none.
func (q query) duration(name string, fallback, most time.Duration) (time.Duration, error) {
	if !q.has(name) {
		return fallback, nil
	}
	d, err := time.ParseDuration(q.get(name))
	if err != nil || d < 0 || d > most {
		return 0, fmt.Errorf("%s is %q; it must be a Go duration from 0s to %s, as in 30s", name, q.get(name), most)
	}
	return d, nil
}
