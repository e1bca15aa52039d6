// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"net/http"
	goruntime "runtime"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

var (
	leaseVersion = metav1.GroupVersionForDiscovery{
		GroupVersion: coordinationv1.SchemeGroupVersion.String(),
		Version:      coordinationv1.SchemeGroupVersion.Version,
	}

	apiVersions = metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}

	group = metav1.APIGroup{
		TypeMeta:         metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"},
		Name:             coordinationv1.GroupName,
		Versions:         []metav1.GroupVersionForDiscovery{leaseVersion},
		PreferredVersion: leaseVersion,
	}

	groupList = metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
		Groups:   []metav1.APIGroup{group},
	}

	resourceList = metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: leaseVersion.GroupVersion,
		APIResources: []metav1.APIResource{{
			Name:         "leases",
			SingularName: "lease",
			Namespaced:   true,
			Kind:         "Lease",
			Verbs:        metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		}},
	}

	serverVersion = version.Info{
		Major:      "1",
		Minor:      "37",
		GitVersion: "v1.37.2-leaseserver",
		GoVersion:  goruntime.Version(),
		Compiler:   goruntime.Compiler,
		Platform:   goruntime.GOOS + "/" + goruntime.GOARCH,
	}
)

// fixed answers always the same.
func fixed(document any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := negotiate(r); err != nil {
			writeError(w, err)
			return
		}
		writeObject(w, http.StatusOK, document)
	}
}
