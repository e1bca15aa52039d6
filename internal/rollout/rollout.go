// SPDX-License-Identifier: Apache-2.0

// Package rollout warns of a pod that is ready only while it leads, under a workload whose rolling update cannot complete
// then. docs/readiness.md has the reasons.
package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

var (
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	events       = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
)

// pod is what is read of a v1 Pod.
type pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ReadinessGates []struct {
			ConditionType string `json:"conditionType"`
		} `json:"readinessGates"`
		Containers     []container `json:"containers"`
		InitContainers []container `json:"initContainers"`
	} `json:"spec"`
}

type container struct {
	Name           string `json:"name"`
	ReadinessProbe *struct {
		HTTPGet *struct {
			Path string `json:"path"`
		} `json:"httpGet"`
		Exec *struct {
			Command []string `json:"command"`
		} `json:"exec"`
	} `json:"readinessProbe"`
}

// workload is what is read of a Deployment, a StatefulSet or a ReplicaSet.
type workload struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32 `json:"replicas"` // 1 where absent
		Strategy struct {
			Type          string        `json:"type"`
			RollingUpdate rollingUpdate `json:"rollingUpdate"`
		} `json:"strategy"`
	} `json:"spec"`
}

type rollingUpdate struct {
	MaxSurge       *intstr.IntOrString `json:"maxSurge"`       // 25 % where absent
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"` // likewise
}

func (w *workload) replicas() int {
	if w.Spec.Replicas == nil {
		return 1
	}
	return int(*w.Spec.Replicas)
}

// Check looks once at the pod and its workload, and warns in the log and by an Event where their settings cannot go
// together. gate is the type of the condition that is set, "" for none. What may not be read is not looked at; the other
// errors are returned, for another try.
func Check(ctx context.Context, api *apiserver.Client, name, gate string) error {
	warnings, self, err := examine(ctx, api, name, gate)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(1).Info("cannot tell whether a rolling update of this pod can complete", "because", err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		klog.FromContext(ctx).Info("warning: "+warning, "pod", name)
		if err := announce(ctx, api, self, warning); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create an Event of pod %s: %w", name, err)
		}
	}
	return nil
}

func examine(ctx context.Context, api *apiserver.Client, name, gate string) (warnings []string, self *pod, err error) {
	self = &pod{}
	if err := api.Get(ctx, pods, name, self); err != nil {
		return nil, nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	by := gatedBy(self, gate)
	if gate != "" && !strings.HasPrefix(by, "readinessGates") {
		warnings = append(warnings, fmt.Sprintf("ELECTOR_READINESS_GATE sets the condition %s, which spec.readinessGates of the pod does not require: it has no effect on readiness", gate))
	}
	if by == "" {
		return warnings, self, nil
	}
	problem, err := stuck(ctx, api, self)
	if problem != "" {
		warnings = append(warnings, fmt.Sprintf("this pod is ready only while it leads (%s), and %s; see docs/readiness.md", by, problem))
	}
	return warnings, self, err
}

// gatedBy says what makes the pod ready only while it leads, "" where nothing does.
func gatedBy(p *pod, gate string) string {
	for _, g := range p.Spec.ReadinessGates {
		if gate != "" && g.ConditionType == gate {
			return "readinessGates has " + gate
		}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		probe := c.ReadinessProbe
		switch {
		case probe == nil:
		case probe.HTTPGet != nil && strings.TrimPrefix(strings.SplitN(probe.HTTPGet.Path, "?", 2)[0], "/") == "is-leader",
			probe.Exec != nil && strings.Contains(strings.Join(probe.Exec.Command, " "), "is-leader"):
			return "the readinessProbe of the container " + c.Name + " asks is-leader"
		}
	}
	return ""
}

// stuck says why a rolling update of the pod's workload cannot complete while at most one pod is ready, "" where it can or
// where the workload is of a kind that has none.
func stuck(ctx context.Context, api *apiserver.Client, p *pod) (string, error) {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return "", nil
	}
	w := &workload{}
	switch owner.Kind {
	case "StatefulSet":
		if err := api.Get(ctx, statefulSets, owner.Name, w); err != nil {
			return "", fmt.Errorf("read StatefulSet %s: %w", owner.Name, err)
		}
		return stuckStatefulSet(w), nil
	case "ReplicaSet":
		if err := api.Get(ctx, replicaSets, owner.Name, w); err != nil {
			return "", fmt.Errorf("read ReplicaSet %s: %w", owner.Name, err)
		}
		owner := metav1.GetControllerOf(w)
		if owner == nil || owner.Kind != "Deployment" {
			return "", nil
		}
		w := &workload{}
		if err := api.Get(ctx, deployments, owner.Name, w); err != nil {
			return "", fmt.Errorf("read Deployment %s: %w", owner.Name, err)
		}
		return stuckDeployment(w)
	}
	return "", nil
}

// stuckDeployment follows the Deployment controller: it keeps replicas - maxUnavailable pods available, and counts an
// update as complete once every replica is.
func stuckDeployment(w *workload) (string, error) {
	n, name := w.replicas(), "the Deployment "+w.Name
	if n > 1 {
		return fmt.Sprintf("%s has %d replicas, of which all but one are never ready: no rollout of it completes", name, n), nil
	}
	if w.Spec.Strategy.Type == "Recreate" {
		return "", nil
	}
	surge, err1 := resolve(w.Spec.Strategy.RollingUpdate.MaxSurge, n, true)
	unavailable, err2 := resolve(w.Spec.Strategy.RollingUpdate.MaxUnavailable, n, false)
	if err := errors.Join(err1, err2); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if surge == 0 || unavailable > 0 { // with both at 0 the controller takes maxUnavailable for 1
		return "", nil
	}
	return fmt.Sprintf("%s keeps its pod until a new one is ready (maxUnavailable comes to 0 of %d), which the new one is not while the old one leads: "+
		"a rolling update never completes; set strategy Recreate, or maxUnavailable: 1", name, n), nil
}

// resolve is a part of n, up or down, 25 % where it is absent.
func resolve(part *intstr.IntOrString, n int, up bool) (int, error) {
	quarter := intstr.FromString("25%")
	return intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(part, quarter), n, up)
}

func stuckStatefulSet(w *workload) string {
	if n := w.replicas(); n > 1 {
		return fmt.Sprintf("the StatefulSet %s has %d replicas, of which all but one are never ready: no rollout of it completes", w.Name, n)
	}
	return ""
}

// event is a v1 Event as far as it is written here.
type event struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	InvolvedObject    objectReference   `json:"involvedObject"`
	Reason            string            `json:"reason"`
	Message           string            `json:"message"`
	Type              string            `json:"type"`
	Source            map[string]string `json:"source"`
	FirstTimestamp    metav1.Time       `json:"firstTimestamp"`
	LastTimestamp     metav1.Time       `json:"lastTimestamp"`
	Count             int               `json:"count"`
}

type objectReference struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// announce makes the warning an Event of the pod: one for each message, however often the sidecar starts.
func announce(ctx context.Context, api *apiserver.Client, p *pod, warning string) error {
	sum := sha256.Sum256([]byte(string(p.UID) + warning))
	now := metav1.NewTime(time.Now())
	prefix := strings.TrimRight(p.Name[:min(len(p.Name), 200)], "-.") // a name has at most 253 characters
	return api.Create(ctx, events, &event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, Name: prefix + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: objectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Reason:         "LeaderReadiness",
		Message:        warning,
		Type:           "Warning",
		Source:         map[string]string{"component": "elector-sidecar"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil)
}
