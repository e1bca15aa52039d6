// SPDX-License-Identifier: Apache-2.0

// Command bare is what the sidecar's API is compared with: net/http with nothing around it. It answers GET / with a
// constant body, and GET /held with the same once POST /free has come. It prints its address, and ends when its
// standard input does, so that it never outlives the benchmark.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

func main() {
	body := flag.String("body", "", "what every answer says")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(listener.Addr())
	fmt.Fprintln(os.Stderr, "bare:", http.Serve(listener, serve([]byte(*body)))) //nolint:gosec // that there is nothing around it is the point
	os.Exit(1)
}

func serve(body []byte) http.Handler {
	var (
		mu   sync.Mutex
		free = make(chan struct{})
		held atomic.Int64
	)
	answer := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			answer(w)
		case "/held":
			mu.Lock()
			wait := free
			mu.Unlock()
			held.Add(1)
			<-wait
			held.Add(-1)
			answer(w)
		case "/free":
			mu.Lock()
			close(free)
			free = make(chan struct{})
			mu.Unlock()
			answer(w)
		case "/count":
			fmt.Fprintln(w, "held", held.Load())
		}
	})
}
