// SPDX-License-Identifier: Apache-2.0

// Command elector-sidecar contends for a Kubernetes Lease on behalf of its pod, and tells the pod's other containers
// over HTTP whether it leads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/leaseapi"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// version is set by the linker.
var version = ""

// The exit codes that users may rely on.
const (
	exitOrderly       = 0
	exitFailed        = 1
	exitMisconfigured = 2
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if code, ok := subcommand(ctx, args, stdout, stderr); ok {
		return code
	}
	verbosity, done, err := parseFlags(args, stdout)
	if done {
		return exitOrderly
	}
	if err != nil {
		return misconfigured(stderr, err)
	}
	return contend(ctx, verbosity, nil, stderr)
}

// contend takes part in the election until the end, and runs the command, where there is one, while this pod leads.
func contend(ctx context.Context, verbosity int, command []string, stderr io.Writer) int {
	cfg, err := loadConfig()
	if err != nil {
		return misconfigured(stderr, err)
	}
	logger := setUpLog(cfg.LogFormat, verbosity, stderr)
	ctx = klog.NewContext(ctx, logger)

	w, err := workOf(cfg, command)
	if err != nil {
		return misconfigured(stderr, err)
	}
	restConfig, err := cluster(cfg.Kubeconfig)
	if err != nil {
		return misconfigured(stderr, err)
	}
	restConfig.UserAgent = fmt.Sprintf("elector-sidecar/%s (%s/%s)", buildVersion(), runtime.GOOS, runtime.GOARCH)
	client, err := leaseapi.New(restConfig, cfg.LeaseNamespace)
	if err != nil {
		return misconfigured(stderr, err)
	}
	around, err := surroundingsOf(cfg, restConfig)
	if err != nil {
		return misconfigured(stderr, err)
	}
	sandbox, release, err := holdIdentity(ctx, cfg)
	if err != nil {
		return misconfigured(stderr, err)
	}
	defer release()
	listener, err := (&net.ListenConfig{Control: dropSilentPeers}).Listen(ctx, "tcp", cfg.HTTPAddress)
	if err != nil {
		return misconfigured(stderr, fmt.Errorf("ELECTOR_HTTP_ADDRESS is %q: it must be an address that can be bound: %w", cfg.HTTPAddress, err))
	}
	if err := elect(ctx, cfg, cfg.elector(client, sandbox), listener, w, around); err != nil {
		logger.Error(err, "stopped")
		return exitFailed
	}
	logger.Info("stopped")
	if w != nil {
		return w.exitCode()
	}
	return exitOrderly
}

func misconfigured(stderr io.Writer, err error) int {
	for problem := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "elector-sidecar: %s\n", strings.TrimSpace(problem))
	}
	return exitMisconfigured
}

// elect runs the election and its API until a signal ends them: the election first, so that the API tells of it.
func elect(ctx context.Context, cfg *config, contest elector.Config, listener net.Listener, w work, around *surroundings) error {
	logger := klog.FromContext(ctx)
	metrics := httpapi.NewMetrics(buildVersion())
	contest.Observer = metrics
	around.prepare(&contest)
	if w != nil {
		w.prepare(&contest)
	}
	e, err := elector.New(contest)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	lease := cfg.LeaseNamespace + "/" + cfg.LeaseName
	api := httpapi.Config{
		PodName: cfg.PodName, PodUID: cfg.PodUID, Lease: lease,
		Cooldown: cfg.LeaseDuration.Duration, MaxWaiters: cfg.MaxWaiters.int, Metrics: metrics, AppHealth: cfg.AppHealth != "",
		Signs: around.checks(),
		Nais:  cfg.Compatibility == "nais",
	}
	server := httpapi.NewServer(httpapi.New(e, api))

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if w != nil {
		defer w.begin(ctx, e, stop)()
	} else {
		defer onSignals(func(s os.Signal, again bool) {
			logger.Info("told to stop", "signal", s.String(), "again", again)
			stop(nil)
			if again {
				_ = e.Release(context.WithoutCancel(ctx)) // the election may have ended meanwhile
			}
		})()
	}
	served := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		if !errors.Is(err, http.ErrServerClosed) {
			stop(err)
		}
		served <- err
	}()
	logger.Info("contending", "lease", lease, "identity", cfg.Identity, "api", listener.Addr().String(), "version", buildVersion())

	leave := attend(ctx, cfg, e, &api, around)
	err = e.Run(ctx)
	err = errors.Join(err, closeServer(ctx, server, served))
	leave()
	return err
}

// drainTime is how long answers that are being written may take once the election is over.
const drainTime = time.Second

func closeServer(ctx context.Context, server *http.Server, served <-chan error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // the clients that are left do not read
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}

// onSignals calls f for each SIGTERM and SIGINT, until the function that it returns is called.
func onSignals(f func(s os.Signal, again bool)) (end func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		again := false
		for s := range signals {
			f(s, again)
			again = true
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// cluster says how to reach the API server.
func cluster(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("KUBECONFIG is not set: it must name a kubeconfig file outside a cluster: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("KUBECONFIG is %q: it must name a kubeconfig file that can be read: %w", kubeconfig, err)
	}
	return config, nil
}

// parseFlags reads the command line; done means that it was answered.
func parseFlags(args []string, stdout io.Writer) (verbosity int, done bool, err error) {
	flags := flag.NewFlagSet("elector-sidecar", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&verbosity, "v", 0, "")
	showVersion := flags.Bool("version", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout)
		return 0, true, nil
	case err != nil:
		return 0, false, fmt.Errorf("%w: the flags are --help, --version and -v=N", err)
	case flags.NArg() > 0:
		return 0, false, fmt.Errorf("argument %q: a subcommand has to come first, and there are none else but the flags --help, --version and -v=N", flags.Arg(0))
	case *showVersion:
		fmt.Fprintln(stdout, "elector-sidecar", buildVersion())
		return 0, true, nil
	}
	return verbosity, false, nil
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// setUpLog sets where everything logs to, client-go included, and returns the logger for the context.
func setUpLog(format string, verbosity int, stderr io.Writer) logr.Logger {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity))
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "10") // above every severity: only SetOutput's writer is written to
	_ = flags.Set("one_output", "true")    // and once, not once for each severity below
	klog.SetOutput(stderr)
	if format == "json" {
		klog.SetLoggerWithOptions(
			logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)})),
			klog.ContextualLogger(true))
	}
	return klog.Background()
}
