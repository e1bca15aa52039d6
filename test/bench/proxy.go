// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// countingProxy is a way to the API server that counts requests. It speaks plain HTTP, so it sees each of them.
type countingProxy struct {
	config *rest.Config // the way by it
	server *http.Server

	mu   sync.Mutex
	sent []string
}

func newCountingProxy(config *rest.Config) (*countingProxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &countingProxy{config: &rest.Config{Host: "http://" + listener.Addr().String()}}
	onward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch
	}
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.Method
		if r.URL.Query().Get("watch") != "" {
			kind = "WATCH"
		}
		p.mu.Lock()
		p.sent = append(p.sent, kind)
		p.mu.Unlock()
		onward.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(listener) }() // until close
	return p, nil
}

func (p *countingProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = nil
}

func (p *countingProxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent)
}

// String says what was sent, as in "19 requests: 19 GET".
func (p *countingProxy) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds := map[string]int{}
	for _, kind := range p.sent {
		kinds[kind]++
	}
	var parts []string
	for kind, n := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(parts)
	return strings.TrimSuffix(fmt.Sprintf("%d requests: %s", len(p.sent), strings.Join(parts, ", ")), ": ")
}

func (p *countingProxy) close() error { return p.server.Close() }
