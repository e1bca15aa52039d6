// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

// Gate is the sign of a condition of the pod, which a readiness gate of its spec can require: true on the leader.
type Gate struct {
	patcher
	kind  string // of the condition
	lease string
	pod   Pod
}

// NewGate returns the sign of the condition of that type, for the leader of the lease namespace/name.
func NewGate(api *apiserver.Client, conditionType, lease string, pod Pod) *Gate {
	return &Gate{patcher: patcher{api}, kind: conditionType, lease: lease, pod: pod}
}

func (g *Gate) String() string { return "condition/" + g.kind }

// Role is what the sign needs. RBAC cannot limit it to the pods of a workload.
func (g *Gate) Role() string {
	return role(g.pod.Namespace, "elector-sidecar-readiness-gate",
		rule("", "pods", "", "get"), rule("", "pods/status", "", "patch"))
}

// Raise makes the condition true.
func (g *Gate) Raise(ctx context.Context, token uint64) error {
	return g.set(ctx, condition{Status: "True", Reason: "Leading",
		Message: fmt.Sprintf("holds the Lease %s with the fencing token %d", g.lease, token)})
}

// Lower makes the condition false.
func (g *Gate) Lower(ctx context.Context, token uint64) error {
	message := "does not hold the Lease " + g.lease
	if token > 0 {
		message = fmt.Sprintf("%s since it held it with the fencing token %d", message, token)
	}
	return g.set(ctx, condition{Status: "False", Reason: "NotLeading", Message: message})
}

func (g *Gate) set(ctx context.Context, c condition) error {
	changed, err := g.change(ctx, g.pod.Name, g.pod.UID, "status", types.StrategicMergePatchType, func(p *pod) map[string]any {
		c.Type, c.LastTransitionTime = g.kind, metav1.NewTime(time.Now())
		for _, is := range p.Status.Conditions {
			switch {
			case is.Type != g.kind:
			case is.Status == c.Status && is.Message == c.Message && is.Reason == c.Reason:
				return nil
			case is.Status == c.Status:
				c.LastTransitionTime = is.LastTransitionTime
			}
		}
		return map[string]any{"status": map[string]any{"conditions": []condition{c}}}
	})
	if changed {
		klog.FromContext(ctx).Info("set a condition of the pod", "pod", g.pod.Name, "condition", c.Type, "status", c.Status, "message", c.Message)
	}
	return err
}
