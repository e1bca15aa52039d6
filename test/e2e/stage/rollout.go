// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// updatedAt is the annotation by which kubectl rollout restart makes a new template.
const updatedAt = "kubectl.kubernetes.io/restartedAt"

// Update gives a Deployment or StatefulSet a new template, as kubectl rollout restart does.
func (s *Stage) Update(workload runtime.Object) {
	s.T.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, updatedAt, time.Now().Format(time.RFC3339))
	s.patch(workload, patch)
}

// Resize sets the replicas of a Deployment or StatefulSet.
func (s *Stage) Resize(workload runtime.Object, replicas int) {
	s.T.Helper()
	s.patch(workload, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
}

func (s *Stage) patch(workload runtime.Object, patch []byte) {
	s.T.Helper()
	ctx, kind := s.T.Context(), types.StrategicMergePatchType
	var err error
	switch w := workload.(type) {
	case *appsv1.Deployment:
		_, err = s.AppsV1().Deployments(s.Namespace).Patch(ctx, w.Name, kind, patch, metav1.PatchOptions{})
	case *appsv1.StatefulSet:
		_, err = s.AppsV1().StatefulSets(s.Namespace).Patch(ctx, w.Name, kind, patch, metav1.PatchOptions{})
	default:
		err = fmt.Errorf("%T is no workload", workload)
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// Complete tells whether the workload's last update is, as kubectl rollout status tells; and if not, why.
func (s *Stage) Complete(workload runtime.Object) (complete bool, because string) {
	s.T.Helper()
	ctx := s.T.Context()
	var err error
	switch w := workload.(type) {
	case *appsv1.Deployment:
		if w, err = s.AppsV1().Deployments(s.Namespace).Get(ctx, w.Name, metav1.GetOptions{}); err == nil {
			return deploymentComplete(w)
		}
	case *appsv1.StatefulSet:
		if w, err = s.AppsV1().StatefulSets(s.Namespace).Get(ctx, w.Name, metav1.GetOptions{}); err == nil {
			return statefulSetComplete(w)
		}
	default:
		err = fmt.Errorf("%T is no workload", workload)
	}
	s.T.Fatal(err)
	return false, ""
}

// The reasons of what Complete tells.
const (
	notSeen  = "the controller has not seen the change"
	exceeded = "ProgressDeadlineExceeded"
)

func deploymentComplete(d *appsv1.Deployment) (bool, string) {
	status, replicas := d.Status, *d.Spec.Replicas
	late := slices.ContainsFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == exceeded
	})
	switch {
	case status.ObservedGeneration < d.Generation:
		return false, notSeen
	case late:
		return false, exceeded
	case status.UpdatedReplicas < replicas:
		return false, fmt.Sprintf("%d of %d replicas are updated", status.UpdatedReplicas, replicas)
	case status.Replicas > status.UpdatedReplicas:
		return false, fmt.Sprintf("%d old replicas are left", status.Replicas-status.UpdatedReplicas)
	case status.AvailableReplicas < status.UpdatedReplicas:
		return false, fmt.Sprintf("%d of %d updated replicas are available", status.AvailableReplicas, status.UpdatedReplicas)
	}
	return true, ""
}

func statefulSetComplete(d *appsv1.StatefulSet) (bool, string) {
	status, replicas := d.Status, *d.Spec.Replicas
	switch {
	case status.ObservedGeneration < d.Generation:
		return false, notSeen
	case status.ReadyReplicas < replicas:
		return false, fmt.Sprintf("%d of %d replicas are ready", status.ReadyReplicas, replicas)
	case status.UpdateRevision != status.CurrentRevision:
		return false, fmt.Sprintf("%d of %d replicas are updated", status.UpdatedReplicas, replicas)
	}
	return true, ""
}

// TimedOut tells whether a Deployment has found by itself that its update does not progress.
func TimedOut(because string) bool { return because == exceeded }

// Member is a pod of a workload as an update sees it.
type Member struct {
	Name, UID          string
	New                bool // of the updated template
	Runs               bool // its containers have started, and it is not told to stop
	Ready, Terminating bool
	Leads              bool // it holds the Lease
}

func (m Member) String() string {
	words := []string{"old"}
	if m.New {
		words[0] = "new"
	}
	for word, holds := range map[string]bool{"leads": m.Leads, "ready": m.Ready, "terminating": m.Terminating, "starting": !m.Runs && !m.Terminating} {
		if holds {
			words = append(words, word)
		}
	}
	slices.Sort(words[1:])
	return strings.Join(words, ", ")
}

// Members are the pods of the stage.
func (s *Stage) Members() (members []Member) {
	s.T.Helper()
	holder := ""
	if records := s.Records(); len(records) > 0 {
		holder = records[len(records)-1].Holder()
	}
	for _, pod := range s.Pods() {
		_, updated := pod.Annotations[updatedAt]
		members = append(members, Member{
			Name: pod.Name, UID: string(pod.UID), New: updated, Runs: runs(&pod), Ready: ready(&pod),
			Terminating: pod.DeletionTimestamp != nil, Leads: holder == pod.Name+"_"+string(pod.UID),
		})
	}
	return members
}

// runs tells whether all containers of a pod have started, and it is not told to stop.
func runs(pod *corev1.Pod) bool {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return pod.DeletionTimestamp == nil && len(statuses) == len(pod.Spec.InitContainers)+len(pod.Spec.Containers) &&
		!slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool { return c.Started == nil || !*c.Started || c.State.Running == nil })
}

// Tally says how many members are in which state, as in "2 × new; old, leads, ready".
func Tally(members []Member) string {
	count := map[string]int{}
	for _, m := range members {
		count[m.String()]++
	}
	var kinds []string
	for kind, n := range count {
		if n > 1 {
			kind = fmt.Sprintf("%d × %s", n, kind)
		}
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return strings.Join(kinds, "; ")
}
