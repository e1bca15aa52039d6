// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/elector-sidecar/elector-sidecar/pkg/elector"
	"github.com/elector-sidecar/elector-sidecar/pkg/elector/electortest"
	"github.com/elector-sidecar/elector-sidecar/pkg/httpapi"
)

// scrape asks as Prometheus does.
func scrape(handler http.Handler) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// busyMetrics have seen one of everything.
func busyMetrics() *httpapi.Metrics {
	m := httpapi.NewMetrics("v1.2.3")
	m.Requested("create", 201)
	m.Requested("update", 200)
	m.Requested("update", 200)
	m.Requested("update", 409)
	m.Requested("update", 0)
	m.Requested("watch", 403)
	m.WatchEnded()
	m.Renewed(7 * time.Millisecond)
	m.Renewed(3 * time.Second)
	m.TookOver(12 * time.Millisecond)
	m.HandedOver(3100 * time.Millisecond)
	return m
}

func TestGoldenMetrics(t *testing.T) {
	led := leading
	led.RenewalAge, led.Transitions, led.LeaderlessTotal = 880*time.Millisecond, 3, 15250*time.Millisecond
	ill := unknown
	ill.Unhealthy, ill.LeaderlessFor, ill.LeaderlessTotal = true, 1500*time.Millisecond, time.Minute
	var answers strings.Builder
	for _, s := range []struct {
		name    string
		status  elector.Status
		metrics *httpapi.Metrics
		health  bool
		waiters int
	}{
		{"starting, with nothing to tell", starting, httpapi.NewMetrics("v1.2.3"), false, 0},
		{"leading, with two waiters", led, busyMetrics(), false, 2},
		{"following, with an app that is healthy", following, httpapi.NewMetrics("v1.2.3"), true, 0},
		{"nobody leads, and the app is unhealthy", ill, httpapi.NewMetrics("v1.2.3"), true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			election := newScripted(s.status)
			election.changed = make(chan struct{})
			handler := httpapi.New(election, httpapi.Config{PodName: "web-0", Lease: "shop/web", MaxWaiters: 5, Metrics: s.metrics, AppHealth: s.health})
			for range s.waiters {
				go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/leader?wait=1m", nil))
			}
			synctest.Wait()
			answer := scrape(handler)
			fmt.Fprintf(&answers, "=== %s\nHTTP %d\n", s.name, answer.Code)
			_ = answer.Result().Header.Write(&answers)
			fmt.Fprintf(&answers, "\n%s\n", answer.Body)
			election.becomes(stopped) // which ends the waiters
		})
	}
	got := strings.ReplaceAll(answers.String(), runtime.Version(), "GOVERSION")
	compare(t, "metrics", strings.ReplaceAll(got, "\r\n", "\n"))
}

func TestMetricsFollowTheConventions(t *testing.T) {
	led := leading
	led.RenewalAge = time.Second
	handler := httpapi.New(newScripted(led), httpapi.Config{Lease: "shop/web", Metrics: busyMetrics(), AppHealth: true})
	body := scrape(handler).Body
	problems, err := promlint.New(strings.NewReader(body.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for line := range strings.Lines(body.String()) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "elector_") && !strings.HasPrefix(line, `leader_election_master_status{name="web"} `) {
			t.Errorf("another's metric: %s", line)
		}
	}
	// A sidecar is multiplied by every pod, and each line is a series.
	if series := strings.Count(body.String(), "\n") - strings.Count(body.String(), "# "); series > 60 {
		t.Errorf("%d series", series)
	}
}

// documented finds the rows of the table in docs/metrics.md.
var documented = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (gauge|counter|histogram)(, seconds)? \\|")

func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, row := range documented.FindAllStringSubmatch(string(page), -1) {
		want = append(want, "# TYPE "+row[1]+" "+row[2]+"\n")
		if seconds := strings.Contains(row[1], "_seconds"); seconds != (row[3] != "") {
			t.Errorf("the unit of %s is not what its name says", row[1])
		}
	}
	led := leading
	led.RenewalAge = time.Second
	handler := httpapi.New(newScripted(led), httpapi.Config{Lease: "shop/web", Metrics: busyMetrics(), AppHealth: true})
	for line := range strings.Lines(scrape(handler).Body.String()) {
		if strings.HasPrefix(line, "# TYPE ") {
			got = append(got, line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("served\n%sdocumented\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// The elector publishes a step as of when it began. Who reads meanwhile has a total that is a little larger.
func TestMetricsCounterNeverGoesBack(t *testing.T) {
	election := newScripted(unknown)
	handler := httpapi.New(election, httpapi.Config{Lease: "shop/web"})
	for _, s := range []struct {
		total time.Duration
		want  string
	}{{2001 * time.Millisecond, "2.001"}, {2 * time.Second, "2.001"}, {3 * time.Second, "3"}} {
		election.status.LeaderlessTotal = s.total
		if body := scrape(handler).Body.String(); !strings.Contains(body, "\nelector_leaderless_seconds_total "+s.want+"\n") {
			t.Errorf("after %s it is not %s:\n%s", s.total, s.want, body)
		}
	}
}

func TestMetricsOfARealElection(t *testing.T) {
	metrics := httpapi.NewMetrics("v1.2.3")
	e, err := elector.New(elector.Config{
		Client: electortest.NewStore().Leases("shop"), Namespace: "shop", Name: "web", Identity: "web-0_1", Observer: metrics,
		LeaseDuration: time.Second, RenewDeadline: brisk, RetryPeriod: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := httpapi.New(e, httpapi.Config{Lease: "shop/web", Metrics: metrics})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	wanted := []string{
		"elector_is_leader 1\n", "elector_renewal_age_seconds 0.0", "elector_leaderless_seconds_total 0.0",
		`elector_api_requests_total{code="201",verb="create"} 1` + "\n", `elector_api_requests_total{code="200",verb="update"} `,
		"elector_takeover_duration_seconds_count 1\n", "elector_handover_duration_seconds_count 0\n",
	}
	body, missing := "", wanted
	for until := time.Now().Add(10 * time.Second); len(missing) > 0 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		body, missing = scrape(handler).Body.String(), nil
		for _, line := range wanted {
			if !strings.Contains(body, "\n"+line) {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("%q is missing in\n%s", missing, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if body := scrape(handler).Body.String(); !strings.Contains(body, "\nelector_handover_duration_seconds_count 1\n") || !strings.Contains(body, "\nelector_is_leader 0\n") {
		t.Errorf("after the end:\n%s", body)
	}
}
