// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
	textType    = "text/plain; charset=utf-8"
)

// routes are those of a leader's API, and what they answer.
var routes = []struct {
	path, contentType string
	code              int
	body              string // which the answer contains
}{
	{"/", jsonType, 200, `{"name":"web-0"}`},
	{"/leader", jsonType, 200, `"isLeader":true`},
	{"/leader?revision=unknown", jsonType, 200, `"isLeader":true`},
	{"/leader?wait=0s", jsonType, 200, `"isLeader":true`},
	{"/is-leader", textType, 200, "leading"},
	{"/wait?for=leading", jsonType, 200, `"isLeader":true`},
	{"/wait?for=not-leading&timeout=1ms", problemType, 504, "not-leading"},
	{"/healthz", textType, 200, "ok"},
	{"/healthz?verbose", textType, 200, "[+]election ok"},
	{"/readyz", textType, 200, "ok"},

	{"/leader?wait=soon", problemType, 400, "wait"},
	{"/leader?wait=5m1s", problemType, 400, "wait"},
	{"/leader?wait=-1s", problemType, 400, "wait"},
	{"/leader?wait=", problemType, 400, "wait"},
	{"/leader?wait=1s&wait=2s", problemType, 400, "wait"},
	{"/leader?bogus=1", problemType, 400, "bogus"},
	{"/wait", problemType, 400, "for is"},
	{"/wait?for=Leading", problemType, 400, "for is"},
	{"/wait?for=leading&timeout=6m", problemType, 400, "timeout"},
	{"/wait?for=leading&timeout=30", problemType, 400, "timeout"},
	{"/wait?for=leading&wait=1s", problemType, 400, "wait"},

	{"/nowhere", problemType, 404, "/nowhere"},
	{"/leader/", problemType, 404, "/leader/"},
	{"/leaders", problemType, 404, "/leaders"},
	{"//leader", problemType, 404, "//leader"},
	{"/debug/pprof/", problemType, 404, "/debug/pprof/"},
}

func TestRoutes(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	for _, route := range routes {
		t.Run(route.path, func(t *testing.T) {
			get := web.Do(t.Context(), http.MethodGet, route.path)
			if get.Err != nil || get.Code != route.code || get.Header.Get("Content-Type") != route.contentType || !strings.Contains(get.Body, route.body) {
				t.Errorf("GET answers %+v", get)
			}
			if get.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("GET answers with the header %v", get.Header)
			}
			if route.contentType == problemType {
				checkProblem(t, get)
			}
			head := web.Do(t.Context(), http.MethodHead, route.path)
			if head.Err != nil || head.Code != route.code || head.Body != "" || head.Header.Get("Content-Type") != route.contentType || head.Header.Get("Content-Length") == "" {
				t.Errorf("HEAD answers %+v", head)
			}
		})
	}
}

// checkProblem checks an answer against RFC 9457.
func checkProblem(t *testing.T, reply sidecar.Reply) {
	t.Helper()
	var problem struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(reply.Body), &problem); err != nil {
		t.Fatalf("%s: %v", reply.Body, err)
	}
	if problem.Type != "about:blank" || problem.Title != http.StatusText(reply.Code) || problem.Status != reply.Code || problem.Detail == "" {
		t.Errorf("the problem is %s", reply.Body)
	}
}

func TestWrongMethods(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	for _, path := range []string{"/", "/leader", "/is-leader", "/wait", "/healthz", "/readyz", "/metrics"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "BREW"} {
			reply := web.Do(t.Context(), method, path)
			allow := strings.Split(reply.Header.Get("Allow"), ", ")
			if reply.Err != nil || reply.Code != 405 || !slices.Contains(allow, "GET") || !slices.Contains(allow, "HEAD") || reply.Header.Get("Content-Type") != problemType {
				t.Errorf("%s %s answers %+v", method, path, reply)
			}
			checkProblem(t, reply)
		}
	}
	if now := web.Leader(); !now.IsLeader {
		t.Errorf("after all that it says %+v", now)
	}
}

func TestMetrics(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0")
	web.Leads()
	body := web.Gets("/metrics", 200).Body
	for _, want := range []string{"\nelector_is_leader 1\n", "\nleader_election_master_status{name=\"" + s.lease.Name + "\"} 1\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %q:\n%s", want, body)
		}
	}
}

// The answer has these fields and no others, and their values fit together.
func TestLeaderAnswer(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "POD_UID=uid-0")
	web.Leads()
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(web.Gets("/leader", 200).Body), &answer); err != nil {
		t.Fatal(err)
	}
	lease := s.lease.Get()
	for name, want := range map[string]any{
		"name": "web-0", "identity": "web-0_uid-0", "isLeader": true, "state": "leading", "podName": "web-0", "podUID": "uid-0",
		"lease": "default/" + s.lease.Name, "term": 0.0,
	} {
		if answer[name] != want {
			t.Errorf("%s is %v; want %v", name, answer[name], want)
		}
	}
	for name, want := range map[string]time.Time{"acquireTime": acquired(lease), "renewTime": renewed(lease)} {
		text, _ := answer[name].(string)
		if got, err := time.Parse(time.RFC3339, text); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v; on the Lease it is %v", name, answer[name], want)
		}
	}
	if len(answer) != 13 {
		t.Errorf("there are %d fields: %v", len(answer), answer)
	}
}

func TestBlockingOnTheRevision(t *testing.T) {
	s := begin(t, brisk)
	web := s.start("web-0")
	leader := web.Leads()

	for _, old := range []string{"unknown", "%00", "", strings.Repeat("x", 1000), leader.Revision + "0"} {
		if reply := web.Gets("/leader?wait=5m&revision="+old, 200); reply.Took() > soon {
			t.Errorf("with revision %q the answer takes %s", old, reply.Took())
		}
	}
	// Several renewals come and go, and wake nobody.
	const wait = 1500 * time.Millisecond
	before := s.lease.Get()
	reply := web.Gets("/leader?wait="+wait.String()+"&revision="+leader.Revision, 200)
	now, err := reply.Leader()
	if err != nil || now.Revision != leader.Revision || !now.IsLeader {
		t.Errorf("after the wait the answer is %+v, %v; before it was %+v", now, err, leader)
	}
	if reply.Took() < wait {
		t.Errorf("the wait of %s is over after %s", wait, reply.Took())
	}
	if !renewedAfter(before)(s.lease.Get()) {
		t.Errorf("the Lease was not renewed meanwhile, which proves nothing")
	}
	// The same from now on, and for what has come to be.
	if reply := web.Gets("/wait?for=not-leading&timeout=300ms", 504); reply.Took() < 300*time.Millisecond {
		t.Errorf("the wait for the end of leadership is over after %s", reply.Took())
	}
	blocked := web.Asks("/leader?wait=5m&revision=" + leader.Revision)
	waiting := web.Asks("/wait?for=not-leading&timeout=5m")
	s.lease.Change(func(lease *leaseObject) { lease.Spec.HolderIdentity = new("intruder") })
	if now, err := (<-blocked).Leader(); err != nil || now.Revision == leader.Revision || now.IsLeader {
		t.Errorf("who blocked is told %+v, %v", now, err)
	}
	if reply := <-waiting; reply.Err != nil || reply.Code != 200 {
		t.Errorf("who waited is told %+v", reply)
	}
}

func TestWaitForLeading(t *testing.T) {
	s := begin(t, calm)
	s.lease.HeldBy("web-9", time.Minute)
	web := s.start("web-0", "ELECTOR_MAX_WAITERS=1")
	web.Follows("web-9")
	if reply := web.Gets("/wait?for=leading&timeout=200ms", 504); reply.Took() < 200*time.Millisecond {
		t.Errorf("the wait is over after %s", reply.Took())
	}
	waiting := s.block(web, "/wait?for=leading&timeout=5m")
	s.lease.Change(release)
	reply := waiting.answered()[0]
	if leader, err := reply.Leader(); err != nil || !leader.IsLeader || leader.FencingToken == 0 {
		t.Errorf("who waited is told %+v, %v", reply, err)
	}
}

func TestTooManyWaiters(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "ELECTOR_MAX_WAITERS=2")
	web.Leads()
	blocked := s.block(web, "/leader?wait=5m", "/wait?for=not-leading&timeout=5m")
	for _, path := range []string{"/leader?wait=1s", "/wait?for=not-leading&timeout=1s"} {
		reply := web.Gets(path, 503)
		if reply.Header.Get("Retry-After") == "" || reply.Header.Get("Content-Type") != problemType {
			t.Errorf("one too many is answered %+v", reply)
		}
		checkProblem(t, reply)
	}
	for _, path := range []string{"/leader", "/leader?revision=old", "/is-leader", "/healthz", "/readyz", "/", "/metrics", "/wait?for=leading"} {
		web.Gets(path, 200) // none of these waits
	}
	s.lease.Change(func(lease *leaseObject) { lease.Spec.HolderIdentity = new("intruder") })
	blocked.answered()
	web.AwaitGets("/leader?wait=1ms", 200, "") // there is room again
}

// A client that goes away makes room.
func TestWaitersThatGoAway(t *testing.T) {
	s := begin(t, calm)
	web := s.start("web-0", "ELECTOR_MAX_WAITERS=5")
	web.Leads()
	for range 3 {
		gone := s.blockAndLeave(web, 5, "/leader?wait=5m")
		gone()
		web.AwaitGets("/leader?wait=1ms", 200, "")
	}
}
