// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
	"github.com/elector-sidecar/elector-sidecar/internal/rollout"
	"github.com/elector-sidecar/elector-sidecar/internal/traffic"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
)

// surroundings are this pod and what shows it as the leader in the cluster.
type surroundings struct {
	api   *apiserver.Client
	signs *traffic.Signs // nil where none is configured
}

// surroundingsOf returns nil where no pod is known.
func surroundingsOf(cfg *config, restConfig *rest.Config) (*surroundings, error) {
	if cfg.PodNamespace == "" {
		return nil, nil
	}
	api, err := apiserver.NewClient(restConfig, cfg.PodNamespace)
	if err != nil {
		return nil, err
	}
	pod := traffic.Pod{Namespace: cfg.PodNamespace, Name: cfg.PodName, UID: types.UID(cfg.PodUID), Addresses: cfg.PodIP.list, Node: cfg.NodeName}
	lease := cfg.LeaseNamespace + "/" + cfg.LeaseName
	var signs []traffic.Sign
	if cfg.Service != "" {
		signs = append(signs, traffic.NewService(api, cfg.Service, lease, pod))
	}
	if cfg.PodLabel != "" {
		signs = append(signs, traffic.NewLabel(api, cfg.PodLabel, lease, pod))
	}
	if cfg.ReadinessGate != "" {
		signs = append(signs, traffic.NewGate(api, cfg.ReadinessGate, lease, pod))
	}
	s := &surroundings{api: api}
	if len(signs) > 0 {
		s.signs = traffic.New(cfg.RetryPeriod.Duration, cfg.LeaseDuration.Duration, signs...)
	}
	return s, nil
}

// prepare makes the release wait for the signs.
func (s *surroundings) prepare(contest *elector.Config) {
	if s != nil && s.signs != nil {
		contest.Withdraw = s.signs.Withdraw
	}
}

// checks are what /healthz?verbose says of the signs; nil where there are none.
func (s *surroundings) checks() func() map[string]error {
	if s == nil || s.signs == nil {
		return nil
	}
	return s.signs.Troubles
}

// checkRollout warns once of a workload that cannot be updated, when the API server is in reach and as far as it may be read.
func (s *surroundings) checkRollout(ctx context.Context, cfg *config, e *elector.Elector) {
	const tries, pause = 5, 10 * time.Second
	if _, err := e.Wait(ctx, func(status elector.Status) bool { return status.Known }); err != nil {
		return
	}
	for range tries {
		request, cancel := context.WithTimeout(ctx, pause)
		err := rollout.Check(request, s.api, cfg.PodName, cfg.ReadinessGate)
		if err == nil {
			cancel()
			return
		}
		klog.FromContext(ctx).V(1).Info("cannot tell whether a rolling update of this pod can complete", "because", err.Error())
		<-request.Done()
		cancel()
	}
}
