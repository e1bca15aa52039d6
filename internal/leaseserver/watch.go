// SPDX-License-Identifier: Apache-2.0

package leaseserver

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// watch streams events, one JSON object a line, until the store ends the watch or the client leaves.
func (s *server) watch(w http.ResponseWriter, r *http.Request, as representation, opts metav1.ListOptions) {
	watcher, err := s.leases(r).Watch(r.Context(), opts)
	if err != nil {
		writeError(w, err)
		return
	}
	defer watcher.Stop()

	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	stream, encoder := http.NewResponseController(w), json.NewEncoder(w)
	if stream.Flush() != nil {
		return
	}
	for event := range watcher.ResultChan() {
		err := encoder.Encode(metav1.WatchEvent{
			Type:   string(event.Type),
			Object: runtime.RawExtension{Object: as(event.Object)},
		})
		if err != nil || stream.Flush() != nil {
			return
		}
	}
}
