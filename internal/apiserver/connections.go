// SPDX-License-Identifier: Apache-2.0

// Package apiserver reaches the API server: over connections that are replaced when they fall silent, and for objects of
// any kind as the few fields that the caller knows. The types of core/v1 and discovery/v1 would add megabytes.
package apiserver

import (
	"context"
	"errors"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Connections are those of one client. One that died silently would otherwise be used for minutes.
type Connections struct{ dialer *connrotation.Dialer }

// Connect returns a copy of config for a client that speaks JSON at its caller's pace, and the client's connections.
func Connect(config *rest.Config) (*rest.Config, *Connections) {
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	connections := &Connections{connrotation.NewDialer(connrotation.DialFunc(dial))}
	config = rest.CopyConfig(config)
	config.Dial = connections.dialer.DialContext
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.QPS = -1 // a limiter would hold back a renewal
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return config, connections
}

// Renew drops every connection after a request that was not answered in its time: the next one opens a new one.
func (c *Connections) Renew(ctx context.Context, err error) {
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		c.dialer.CloseAll()
	}
}
