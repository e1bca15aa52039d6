// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// pod is what is read of a v1 Pod.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type container struct {
	Ports []struct {
		Name          string `json:"name"`
		Protocol      string `json:"protocol"`
		ContainerPort int32  `json:"containerPort"`
	} `json:"ports"`
}

type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// port is the number of the port of that name, as a Service finds it.
func (p *pod) port(name, protocol string) (int32, bool) {
	for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
		for _, port := range c.Ports {
			if port.Name == name && (port.Protocol == protocol || port.Protocol == "" && protocol == "TCP") {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// patcher changes pods, each change on the resourceVersion that it was decided on.
type patcher struct{ api *apiserver.Client }

// change reads a pod, patches it as decide says and reads and patches it again where another has written it meanwhile. A
// nil patch is no change. uid is the pod's, "" where any will do.
func (p *patcher) change(ctx context.Context, name string, uid types.UID, subresource string, kind types.PatchType, decide func(*pod) map[string]any) (changed bool, err error) {
	for range attempts {
		seen := &pod{}
		if err := p.api.Get(ctx, pods, name, seen); err != nil {
			return false, fmt.Errorf("read pod %s: %w", name, err)
		}
		if uid != "" && seen.UID != uid {
			return false, fmt.Errorf("pod %s has the UID %s, not %s: it is another of that name", name, seen.UID, uid)
		}
		patch := decide(seen)
		if patch == nil {
			return false, nil
		}
		if patch["metadata"] == nil {
			patch["metadata"] = map[string]any{}
		}
		metadata := patch["metadata"].(map[string]any)
		metadata["uid"], metadata["resourceVersion"] = seen.UID, seen.ResourceVersion
		if err = p.api.Patch(ctx, pods, name, subresource, kind, patch, nil); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("patch pod %s: %w", name, err)
	}
	return true, nil
}
