// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"net/http"

	"github.com/gorilla/mux"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var opts metav1.GetOptions
	if err := decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_GetOptions); err != nil {
		writeError(w, err)
		return
	}
	lease, err := s.leases(r).Get(r.Context(), mux.Vars(r)["name"], opts)
	if err != nil {
		writeError(w, err)
		return
	}
	writeObject(w, http.StatusOK, as(lease))
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var opts metav1.ListOptions
	if err := decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_ListOptions); err != nil {
		writeError(w, err)
		return
	}
	if opts.Watch {
		s.watch(w, r, as, opts)
		return
	}
	list, err := s.leases(r).List(r.Context(), opts)
	if err != nil {
		writeError(w, err)
		return
	}
	writeObject(w, http.StatusOK, as(list))
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var opts metav1.CreateOptions
	if err := decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_CreateOptions); err != nil {
		writeError(w, err)
		return
	}
	lease, err := readLease(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	lease, err = s.leases(r).Create(r.Context(), lease, opts)
	if err != nil {
		writeError(w, err)
		return
	}
	writeObject(w, http.StatusCreated, as(lease))
}

func (s *server) update(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var opts metav1.UpdateOptions
	if err := decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_UpdateOptions); err != nil {
		writeError(w, err)
		return
	}
	lease, err := readLease(w, r)
	if err == nil {
		err = checkName(lease, mux.Vars(r)["name"])
	}
	if err != nil {
		writeError(w, err)
		return
	}
	lease, created, err := s.leases(r).Put(r.Context(), lease, opts)
	if err != nil {
		writeError(w, err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	writeObject(w, code, as(lease))
}

func (s *server) patch(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	var opts metav1.PatchOptions
	if err := decodeQuery(r, &opts, metav1.Convert_url_Values_To_v1_PatchOptions); err != nil {
		writeError(w, err)
		return
	}
	change, err := readMergePatch(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	lease, err := s.leases(r).Modify(r.Context(), mux.Vars(r)["name"], change, opts)
	if err != nil {
		writeError(w, err)
		return
	}
	writeObject(w, http.StatusOK, as(lease))
}

func (s *server) delete(w http.ResponseWriter, r *http.Request) {
	as, err := negotiate(r)
	if err != nil {
		writeError(w, err)
		return
	}
	opts, err := readDeleteOptions(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	lease, err := s.leases(r).Remove(r.Context(), mux.Vars(r)["name"], opts)
	if err != nil {
		writeError(w, err)
		return
	}
	if lease.DeletionTimestamp != nil {
		writeObject(w, http.StatusOK, as(lease))
		return
	}
	writeObject(w, http.StatusOK, &metav1.Status{
		TypeMeta: statusType,
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  lease.Name,
			Group: coordinationv1.GroupName,
			Kind:  "leases",
			UID:   lease.UID,
		},
	})
}
