// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
)

// Without binaries the tests fail, and say how to get them.
func TestStartNeedsBinaries(t *testing.T) {
	for _, assets := range []string{"", t.TempDir()} {
		t.Setenv("KUBEBUILDER_ASSETS", assets)
		c, err := Start()
		if err == nil {
			_ = c.Stop()
			t.Fatalf("with KUBEBUILDER_ASSETS=%q a control plane starts", assets)
		}
		if !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS is ") || !strings.Contains(err.Error(), "kube-apiserver") && !strings.Contains(err.Error(), "etcd") {
			t.Errorf("with KUBEBUILDER_ASSETS=%q the error is: %v", assets, err)
		}
	}
}
