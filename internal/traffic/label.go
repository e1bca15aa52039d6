// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

// The values of the label.
const (
	leaderValue   = "leader"
	followerValue = "follower"
)

// Label is the sign of a label of the pod, which a Service can select by: leader on one pod at a time, follower on others.
type Label struct {
	patcher
	key   string
	lease string
	pod   Pod
}

// NewLabel returns the sign of the label of that key, for the leader of the lease namespace/name.
func NewLabel(api *apiserver.Client, key, lease string, pod Pod) *Label {
	return &Label{patcher: patcher{api}, key: key, lease: lease, pod: pod}
}

func (l *Label) String() string { return "label/" + l.key }

// Role is what the sign needs. RBAC cannot limit it to the pods of a workload.
func (l *Label) Role() string {
	return role(l.pod.Namespace, "elector-sidecar-label", rule("", "pods", "", "get", "list", "patch"))
}

// Raise takes the label from the pods of former leaders of the same lease, then gives it to this one: a leader that is
// dead cannot do so itself.
func (l *Label) Raise(ctx context.Context, token uint64) error {
	labelled := struct {
		Items []pod `json:"items"`
	}{}
	if err := l.api.List(ctx, pods, l.key+"="+leaderValue, &labelled); err != nil {
		return fmt.Errorf("list the pods labelled %s=%s: %w", l.key, leaderValue, err)
	}
	for _, other := range labelled.Items {
		if other.Name == l.pod.Name || other.Annotations[LeaseAnnotation] != l.lease {
			continue
		}
		if err := l.set(ctx, other.Name, other.UID, followerValue, token); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return l.set(ctx, l.pod.Name, l.pod.UID, leaderValue, token)
}

// Lower makes this pod a follower.
func (l *Label) Lower(ctx context.Context, token uint64) error {
	return l.set(ctx, l.pod.Name, l.pod.UID, followerValue, token)
}

// set gives the label a value. A leader gives up where a later one has been at the pod. The token is written along, also
// where the value stays: what was sent before and arrives late then meets another resourceVersion.
func (l *Label) set(ctx context.Context, name string, uid types.UID, value string, token uint64) error {
	var later error
	changed, err := l.change(ctx, name, uid, "", types.MergePatchType, func(p *pod) map[string]any {
		shown := parseToken(p.Annotations)
		later = nil
		if shown > token && (value == leaderValue || name != l.pod.Name && p.Labels[l.key] == leaderValue) {
			later = laterLeader("pod "+name, shown, token)
			return nil
		}
		if p.Labels[l.key] == value && p.Annotations[LeaseAnnotation] == l.lease && shown >= token {
			return nil
		}
		return map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{l.key: value},
			"annotations": map[string]any{LeaseAnnotation: l.lease, TokenAnnotation: formatToken(max(token, shown))},
		}}
	})
	if changed {
		klog.FromContext(ctx).Info("labelled a pod", "pod", name, "label", l.key+"="+value, "fencingToken", token)
	}
	return cmp.Or(err, later)
}
