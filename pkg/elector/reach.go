// SPDX-License-Identifier: Apache-2.0

package elector

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// reach is what is known of the way to the API server.
type reach struct {
	mu        sync.Mutex
	forbidden map[string]bool
	reported  string // the forbidden verbs that the log knows of
	err       error  // why the Lease cannot be followed
}

// note takes in how a request with this verb ended, and tells whether it was forbidden.
func (r *reach) note(verb string, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		if r.forbidden == nil {
			r.forbidden = map[string]bool{}
		}
		r.forbidden[verb] = true
		return true
	case err == nil:
		delete(r.forbidden, verb)
	}
	return false
}

func (r *reach) isDenied(verb string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forbidden[verb]
}

func (r *reach) denied() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.forbidden))
}

func (r *reach) trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// localAddress is what differs from one failure of a connection to the next.
var localAddress = regexp.MustCompile(`\S+->`)

// gist is an error's text without what is another each time, to tell whether a failure is still the same.
func gist(err error) string { return localAddress.ReplaceAllString(err.Error(), "") }

// report logs that the Lease cannot be followed, or can be again, once each.
func (d *driver) report(err error) {
	r := &d.reach
	r.mu.Lock()
	before := r.err
	r.err = err
	r.mu.Unlock()
	switch {
	case d.ctx.Err() != nil:
	case err != nil && (before == nil || gist(err) != gist(before)):
		d.log.Info("cannot follow the lease; trying again each retry period", "err", err.Error())
	case err == nil && before != nil:
		d.log.Info("following the lease again")
	}
	d.reportDenied()
}

// reportDenied logs the missing permissions when they are others than before.
func (d *driver) reportDenied() {
	denied := strings.Join(d.reach.denied(), ",")
	r := &d.reach
	r.mu.Lock()
	news := denied != r.reported
	r.reported = denied
	r.mu.Unlock()
	if news && denied != "" {
		d.log.Info("permission missing: the API server forbids what the election needs", "verbs", denied,
			"roleNeeded", Role(d.config.Namespace, d.config.Name))
	}
}

// Role is the RBAC Role, as JSON, that an elector of this lease needs. RBAC cannot limit create to a name.
func Role(namespace, lease string) string {
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"namespace":"` + namespace +
		`","name":"elector-sidecar:` + lease + `"},"rules":[` +
		`{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]},` +
		`{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["` + lease +
		`"],"verbs":["get","list","watch","update"]}]}`
}
