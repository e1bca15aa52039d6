// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/elector-sidecar/elector-sidecar/internal/apiserver"
)

// parse makes an object of JSON, as the API server would send it.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := json.Unmarshal([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// The arithmetic is that of the Deployment controller. Others than those of one pod are stuck whatever the strategy is.
func TestDeployments(t *testing.T) {
	const rolling = `"strategy": {"type": "RollingUpdate", "rollingUpdate": {%s}}`
	for name, test := range map[string]struct {
		spec  string
		stuck string // "" is not
		fails string
	}{
		"nothing given":                {spec: ``, stuck: "never completes"},
		"one, nothing given":           {spec: `"replicas": 1`, stuck: "never completes"},
		"none":                         {spec: `"replicas": 0`},
		"a type alone":                 {spec: fmt.Sprintf(rolling, ``), stuck: "never completes"},
		"Recreate":                     {spec: `"strategy": {"type": "Recreate"}`},
		"one unavailable":              {spec: fmt.Sprintf(rolling, `"maxUnavailable": 1`)},
		"0 unavailable":                {spec: fmt.Sprintf(rolling, `"maxUnavailable": 0`), stuck: "maxUnavailable comes to 0 of 1"},
		"no surge":                     {spec: fmt.Sprintf(rolling, `"maxSurge": 0, "maxUnavailable": 1`)},
		"both 0":                       {spec: fmt.Sprintf(rolling, `"maxSurge": "0%", "maxUnavailable": 0`)},
		"no surge, less than one":      {spec: fmt.Sprintf(rolling, `"maxSurge": 0`)}, // both come to 0
		"99% of one is none":           {spec: fmt.Sprintf(rolling, `"maxUnavailable": "99%"`), stuck: "never completes"},
		"100% of one":                  {spec: fmt.Sprintf(rolling, `"maxUnavailable": "100%"`)},
		"1% surge is one":              {spec: fmt.Sprintf(rolling, `"maxSurge": "1%", "maxUnavailable": 0`), stuck: "never completes"},
		"two":                          {spec: `"replicas": 2, ` + fmt.Sprintf(rolling, `"maxUnavailable": 1`), stuck: "has 2 replicas"},
		"three, all may be away":       {spec: `"replicas": 3, ` + fmt.Sprintf(rolling, `"maxUnavailable": "100%"`), stuck: "has 3 replicas"},
		"three, Recreate":              {spec: `"replicas": 3, "strategy": {"type": "Recreate"}`, stuck: "has 3 replicas"},
		"a part that cannot be read":   {spec: fmt.Sprintf(rolling, `"maxSurge": "many"`), fails: "is not a percentage"},
		"the other that cannot either": {spec: fmt.Sprintf(rolling, `"maxUnavailable": "few%"`), fails: "few%"},
	} {
		t.Run(name, func(t *testing.T) {
			w := parse[workload](t, `{"metadata": {"name": "web"}, "spec": {`+test.spec+`}}`)
			stuck, err := stuckDeployment(w)
			switch {
			case test.fails != "":
				if err == nil || !strings.Contains(err.Error(), test.fails) || !strings.Contains(err.Error(), "web") {
					t.Errorf("the error is %v", err)
				}
			case err != nil:
				t.Error(err)
			case test.stuck == "" && stuck != "", !strings.Contains(stuck, test.stuck):
				t.Errorf("it says %q; want %q", stuck, test.stuck)
			}
		})
	}
}

func TestStatefulSets(t *testing.T) {
	for spec, stuck := range map[string]bool{``: false, `"replicas": 0`: false, `"replicas": 1`: false, `"replicas": 2`: true} {
		w := parse[workload](t, `{"metadata": {"name": "web"}, "spec": {`+spec+`}}`)
		if got := stuckStatefulSet(w); (got != "") != stuck {
			t.Errorf("with %s it says %q", spec, got)
		}
	}
}

func TestGatedBy(t *testing.T) {
	probe := func(handler string) string {
		return `"containers": [{"name": "first"}, {"name": "app", "readinessProbe": {` + handler + `}}]`
	}
	for spec, want := range map[string]string{
		probe(`"httpGet": {"path": "/is-leader"}`):                                                 "container app",
		probe(`"httpGet": {"path": "is-leader"}`):                                                  "container app", // the kubelet adds the "/"
		probe(`"httpGet": {"path": "/is-leader?x=y"}`):                                             "container app",
		probe(`"httpGet": {"path": "/is-leaderless"}`):                                             "",
		probe(`"httpGet": {"path": "/readyz?is-leader"}`):                                          "",
		probe(`"httpGet": {"path": ""}`):                                                           "",
		probe(`"exec": {"command": ["/bin/elector-sidecar", "is-leader"]}`):                        "container app",
		probe(`"exec": {"command": ["sh", "-c", "curl -f :4040/is-leader"]}`):                      "container app",
		probe(`"exec": {"command": ["true"]}`):                                                     "",
		probe(`"tcpSocket": {"port": 4040}`):                                                       "",
		`"initContainers": [{"name": "s", "readinessProbe": {"httpGet": {"path": "/is-leader"}}}]`: "container s",
		`"readinessGates": [{"conditionType": "other"}, {"conditionType": "example.com/leads"}]`:   "readinessGates has example.com/leads",
		`"readinessGates": [{"conditionType": "other"}]`:                                           "",
		``: "",
	} {
		got := gatedBy(parse[pod](t, `{"spec": {`+spec+`}}`), "example.com/leads")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("with %s it is gated by %q; want %q", spec, got, want)
		}
	}
	if got := gatedBy(parse[pod](t, `{"spec": {"readinessGates": [{"conditionType": ""}]}}`), ""); got != "" {
		t.Errorf("where no condition is set it is gated by %q", got)
	}
}

// api answers for the objects that it has, by path, and refuses others with a code. It keeps the Events.
type api struct {
	objects map[string]string
	code    int

	mu     sync.Mutex
	events []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	object, ok := a.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPost:
		e := event{}
		_ = json.NewDecoder(r.Body).Decode(&e)
		a.mu.Lock()
		a.events = append(a.events, e.Message)
		a.mu.Unlock()
		fmt.Fprint(w, `{}`)
	case ok:
		fmt.Fprint(w, object)
	default:
		w.WriteHeader(a.code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d}`, a.code)
	}
}

const podPath, setPath = "/api/v1/namespaces/default/pods/web-0", "/apis/apps/v1/namespaces/default/statefulsets/web"

// What is known is said, also where not all may be read; what cannot be read for now is left for another try, with nothing
// said twice.
func TestCheckSaysWhatIsKnown(t *testing.T) {
	owned := `{"metadata": {"name": "web-0", "ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": true}]}, "spec": {
		"containers": [{"name": "app", "readinessProbe": {"httpGet": {"path": "/is-leader"}}}]}}`
	for name, test := range map[string]struct {
		objects map[string]string
		code    int
		fails   bool
		says    []string
	}{
		"all":                            {map[string]string{podPath: owned, setPath: `{"spec": {"replicas": 3}}`}, 500, false, []string{"does not require", "has 3 replicas"}},
		"the workload may not be read":   {map[string]string{podPath: owned}, 403, false, []string{"does not require"}},
		"the workload is gone":           {map[string]string{podPath: owned}, 404, false, []string{"does not require"}},
		"the workload cannot be read":    {map[string]string{podPath: owned}, 500, true, nil},
		"the pod may not be read":        {nil, 403, false, nil},
		"the pod cannot be read for now": {nil, 503, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{objects: test.objects, code: test.code}
			server := httptest.NewServer(a)
			defer server.Close()
			client, err := apiserver.NewClient(&rest.Config{Host: server.URL}, "default")
			if err != nil {
				t.Fatal(err)
			}
			var log []string
			ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{}))
			if err := Check(ctx, client, "web-0", "example.com/leads"); (err != nil) != test.fails {
				t.Errorf("the error is %v", err)
			}
			for what, said := range map[string][]string{"log": log, "Events": a.events} {
				if !slices.EqualFunc(said, test.says, strings.Contains) {
					t.Errorf("the %s: %q; want %q", what, said, test.says)
				}
			}
		})
	}
}
