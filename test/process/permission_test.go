// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
)

var allVerbs = []string{"create", "get", "list", "update", "watch"}

// Each permission is missing once, where it is needed.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	free := coordinationv1.LeaseSpec{}
	for verb, test := range map[string]struct {
		spec  *coordinationv1.LeaseSpec // what is there; nil: nothing
		leads bool
	}{
		"get":    {spec: new(cluster.Held("web-9", 3*time.Second)), leads: true}, // read in doubt, when nothing was heard for 2 s
		"list":   {spec: &free, leads: true},
		"watch":  {spec: &free, leads: true},
		"create": {spec: nil},
		"update": {spec: &free},
	} {
		t.Run(verb, func(t *testing.T) {
			s := begin(t, brisk)
			if test.spec != nil {
				s.lease.Create(*test.spec, metav1.ObjectMeta{})
			}
			user := plane.User(t)
			user.Grant(cluster.LeaseRole(s.lease.Name, slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return v == verb })...))
			s.config = user.Config
			web := s.start("web-0", "ELECTOR_LOG_FORMAT=json").Listens()
			named := web.AwaitGets("/healthz?verbose", 200, "lacks "+verb+" on leases")
			if !strings.Contains(named.Body, cluster.Namespace+"/"+s.lease.Name) {
				t.Errorf("/healthz?verbose does not name the Lease: %s", named.Body)
			}
			web.Logs("permission missing")
			if test.leads {
				web.Leads()
				s.pass(brisk.duration)
				web.Gets("/is-leader", 200)
			} else {
				s.pass(brisk.duration)
				web.Gets("/is-leader", 503)
			}
			web.Gets("/healthz", 200)
			said := web.Complaints()
			if len(said) != 1 || said[0].Verbs != verb || !strings.Contains(said[0].RoleNeeded, `"`+verb+`"`) {
				t.Errorf("the log says %+v; want one line about %s", said, verb)
			}
			if verb == "watch" {
				return // which is tried again after a minute
			}
			user.Grant(cluster.LeaseRole(s.lease.Name, verb))
			web.AwaitGets("/healthz?verbose", 200, "[+]permissions")
			web.Leads()
		})
	}
}

// With no permission at all the sidecar stays up, and says what it needs in a form that can be applied.
func TestNoPermissions(t *testing.T) {
	s := begin(t, brisk)
	user := plane.User(t)
	s.config = user.Config
	web := s.start("web-0", "ELECTOR_LOG_FORMAT=json").Listens()
	web.AwaitGets("/healthz?verbose", 200, "[-]permissions")
	web.Logs("permission missing")
	s.pass(brisk.duration)
	web.Gets("/healthz", 200)
	web.AwaitGets("/readyz", 503, "forbidden")
	said := web.Complaints()
	if len(said) != 1 {
		t.Fatalf("the log says %+v; want one line", said)
	}
	role := &rbacv1.Role{}
	if err := json.Unmarshal([]byte(said[0].RoleNeeded), role); err != nil {
		t.Fatal(err)
	}
	user.Grant(role)
	web.Leads()
	web.AwaitGets("/healthz?verbose", 200, "[+]permissions")
	web.Is(sigterm)
	web.Exits(0)
	if lease := s.lease.Get(); cluster.Holder(lease) != "" {
		t.Errorf("the release is missing: %v", lease.Spec)
	}
}

// Without list or watch news comes by polling: another's release, and an intruder.
func TestPollingFollowsTheLease(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"list", "watch"} {
		t.Run(missing, func(t *testing.T) {
			s := begin(t, brisk)
			s.lease.HeldBy("web-9", time.Minute)
			user := plane.User(t)
			user.Grant(cluster.LeaseRole(s.lease.Name, slices.DeleteFunc(slices.Clone(allVerbs), func(v string) bool { return v == missing })...))
			s.config = user.Config
			web := s.start("web-0")
			web.Follows("web-9")
			s.lease.Change(release)
			web.Leads()
			s.lease.Change(func(lease *coordinationv1.Lease) { lease.Spec = cluster.Held("intruder", time.Minute) })
			web.Follows("intruder")
		})
	}
}
