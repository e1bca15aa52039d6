// SPDX-License-Identifier: Apache-2.0

// Command app is every program that the end-to-end cases run in pods besides the sidecar: one static binary, so that one
// image does for all.
//
//	app            pause: the process that holds a pod's namespaces
//	app app        an app that works while its pod leads, as its sidecar says
//	app recorder   keeps what the apps write
//	app client     requests a URL over and over, and keeps what became of it
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds | log.LUTC)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return pause()
	}
	switch args[0] {
	case "app":
		return runApp()
	case "recorder":
		return serve(":8080", newRecorder())
	case "client":
		return runClient()
	}
	return fmt.Errorf("%q: it can be app, recorder or client", args[0])
}

// serve answers requests until the process is told to stop.
func serve(address string, handler http.Handler) error {
	ctx, stop := untilTold()
	defer stop()
	server, err := listen(address, handler)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}

// listen begins to answer requests.
func listen(address string, handler http.Handler) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	return server, nil
}

// duration is a setting from the environment.
func duration(name string, otherwise time.Duration) (time.Duration, error) {
	value := os.Getenv(name)
	if value == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// sleep waits for so long, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
