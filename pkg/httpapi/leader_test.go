// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// Config.Leader is what /leader answers, with a reason and without.
func TestLeader(t *testing.T) {
	config := httpapi.Config{PodName: "web-0", PodUID: "3f0c9f1e", Lease: "shop/web", MaxWaiters: 1}
	ill := elector.Status{State: elector.Following, Known: true, Revision: "k3v9q-5", Reason: `the app is unhealthy: Get "http://127.0.0.1:8080/": <refused>`}
	for name, status := range map[string]elector.Status{"well": leading, "ill": ill} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			httpapi.New(newScripted(status), config).ServeHTTP(recorder, httptest.NewRequest("GET", "/leader", nil))
			if got, want := string(config.Leader(status)), recorder.Body.String(); got != want {
				t.Errorf("%s\n/leader answers\n%s", got, want)
			}
			const reason = `"reason":"the app is unhealthy: Get \"http://127.0.0.1:8080/\": <refused>"`
			if has := strings.Contains(recorder.Body.String(), reason); has != (status.Reason != "") || !has && strings.Contains(recorder.Body.String(), "reason") {
				t.Errorf("/leader answers %s", recorder.Body)
			}
		})
	}
}
