// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// User is somebody with no permissions but those of the Roles that are granted.
type User struct {
	Name    string
	Config  *rest.Config
	cluster *Cluster
	t       testing.TB
}

// User adds a user.
func (c *Cluster) User(t testing.TB) *User {
	t.Helper()
	name := "user-" + rand.String(8)
	c.users.Lock() // envtest's authority counts its certificates without one
	user, err := c.environment.AddUser(envtest.User{Name: name}, nil)
	c.users.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return &User{Name: name, Config: user.Config(), cluster: c, t: t}
}

// LeaseRole is what an elector needs, as documented, reduced to the given verbs.
func LeaseRole(lease string, verbs ...string) *rbacv1.Role {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "elector-", Namespace: Namespace}}
	for _, verb := range verbs {
		rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}}
		if verb != "create" { // RBAC cannot limit that to a name
			rule.ResourceNames = []string{lease}
		}
		role.Rules = append(role.Rules, rule)
	}
	return role
}

// Grant gives the user a Role, and returns when the API server goes by it.
func (u *User) Grant(role *rbacv1.Role) {
	u.t.Helper()
	ctx := u.t.Context()
	rbac, err := rbacclient.NewForConfig(u.cluster.config)
	if err != nil {
		u.t.Fatal(err)
	}
	role, err = rbac.Roles(Namespace).Create(ctx, role, metav1.CreateOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: Namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: u.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	if _, err = rbac.RoleBindings(Namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { // for the order's sake: the namespace ends with the cluster
		_ = rbac.RoleBindings(Namespace).Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		_ = rbac.Roles(Namespace).Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
	for _, rule := range role.Rules {
		u.awaitAllowed(rule)
	}
}

// awaitAllowed waits until the API server's caches know of a rule.
func (u *User) awaitAllowed(rule rbacv1.PolicyRule) {
	u.t.Helper()
	reviews, err := authorizationclient.NewForConfig(u.cluster.config)
	if err != nil {
		u.t.Fatal(err)
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{Namespace: Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0],
		Resource: resource, Subresource: subresource}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: u.Name, ResourceAttributes: attributes}}
	err = wait.PollUntilContextTimeout(u.t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		answer, err := reviews.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		u.t.Fatalf("waiting for %s to be allowed %+v: %v", u.Name, rule, err)
	}
}
