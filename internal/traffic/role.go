// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

type policyRule struct {
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`
}

func rule(group, resource, name string, verbs ...string) policyRule {
	r := policyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

// role is an RBAC Role as JSON.
func role(namespace, name string, rules ...policyRule) string {
	text, _ := json.Marshal(map[string]any{ // nothing in it can fail
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
		"metadata": map[string]string{"namespace": namespace, "name": name}, "rules": rules,
	})
	return string(text)
}

// parseToken is the fencing token that an object is annotated with. One that cannot be read protects nothing and is
// written anew by the next leader: 0.
func parseToken(annotations map[string]string) uint64 {
	token, err := strconv.ParseUint(annotations[TokenAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return token
}

// errLater is what a leader finds that has been one.
var errLater = errors.New("a later leader is shown")

func laterLeader(where string, shown, token uint64) error {
	return fmt.Errorf("%w: the annotation %s of %s is %d, and this pod leads with %d: remove it where it came from elsewhere, as with a restore",
		errLater, TokenAnnotation, where, shown, token)
}

func formatToken(token uint64) string { return strconv.FormatUint(token, 10) }
