// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

const patience = 10 * time.Second

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-ticker.C {
		if holds() {
			return
		}
	}
	t.Fatalf("it does not come true that %s", what)
}

// fakeSidecar answers as it is told to, and blocks requests as a sidecar does.
type fakeSidecar struct {
	*httptest.Server
	mu       sync.Mutex
	news     chan struct{} // closed at the next change
	answer   leader
	delay    time.Duration
	commands []string
}

func newSidecar(t *testing.T) *fakeSidecar {
	s := &fakeSidecar{news: make(chan struct{})}
	s.say(leader{State: "following"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, req *http.Request) {
		wait, err := time.ParseDuration(req.FormValue("wait"))
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		answer, news, delay := s.now()
		if req.FormValue("revision") == answer.Revision {
			select {
			case <-news:
			case <-time.After(wait):
			case <-req.Context().Done():
				return
			}
			answer, _, delay = s.now()
		}
		sleep(req.Context(), delay)
		reply(w, http.StatusOK, answer)
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.commands = append(s.commands, req.URL.Path)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *fakeSidecar) now() (leader, chan struct{}, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer, s.news, s.delay
}

func (s *fakeSidecar) say(l leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(s.answer.Revision)
	s.answer = l
	s.answer.Revision = strconv.Itoa(n + 1)
	close(s.news)
	s.news = make(chan struct{})
}

func (s *fakeSidecar) leads(token int64, valid time.Duration) {
	s.say(leader{IsLeader: true, State: "leading", FencingToken: token, ValidForMs: valid.Milliseconds()})
}

func (s *fakeSidecar) answersAfter(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

func (s *fakeSidecar) told(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.commands, command)
}

// stage is a worker beside a sidecar, and where it writes.
type stage struct {
	*worker
	sidecar *fakeSidecar
	kept    func() []journal.Entry
	stop    context.CancelFunc
	done    chan struct{}
}

func newStage(t *testing.T, change func(*worker)) *stage {
	recorder := httptest.NewServer(newRecorder())
	sidecar := newSidecar(t)
	w := &worker{leadership: newLeadership(sidecar.URL), journal: recorder.URL + "/journals/x", period: time.Millisecond, pod: "p", uid: "u", process: 1}
	if change != nil {
		change(w)
	}
	ctx, stop := context.WithCancel(t.Context())
	following, end := context.WithCancel(t.Context())
	s := &stage{worker: w, sidecar: sidecar, stop: stop, done: make(chan struct{})}
	s.kept = func() []journal.Entry { return read(t, w.journal) }
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		w.leadership.follow(following)
	}()
	go func() {
		defer close(s.done)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-s.done
		end()
		<-followed
		recorder.Close()
	})
	return s
}

func read(t *testing.T, url string) []journal.Entry {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var j journal.Journal
	if err := json.NewDecoder(response.Body).Decode(&j); err != nil {
		t.Fatal(err)
	}
	return j.Entries
}

func (s *stage) works(t *testing.T) {
	t.Helper()
	before := len(s.kept())
	eventually(t, "the app works", func() bool { return len(s.kept()) > before })
}

// isIdle waits until the app does not lead, and sees that nothing is written from then on.
func (s *stage) isIdle(t *testing.T) {
	t.Helper()
	eventually(t, "the app does not lead", func() bool { return s.mayWork(s.leadership.term()) == 0 })
	before := -1 // a beat may be under way
	eventually(t, "it writes nothing", func() bool {
		time.Sleep(20 * s.period)
		n := len(s.kept())
		idle := n == before
		before = n
		return idle
	})
}

func TestTheAppWorksWhileItLeads(t *testing.T) {
	s := newStage(t, nil)
	s.isIdle(t)
	if kept := s.kept(); len(kept) > 0 {
		t.Fatalf("it has written %v as a follower", kept)
	}
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	if b := s.kept()[0]; b.Pod != "p" || b.UID != "u" || b.Token != 7 || b.Process != 1 || b.Seq != 1 || b.Started > b.Arrived || b.Boot == "" || b.Wall.IsZero() {
		t.Errorf("its first beat is %+v", b)
	}
	s.sidecar.say(leader{State: "following"})
	s.isIdle(t)
	s.sidecar.leads(8, time.Minute)
	s.works(t)
}

func TestErrorsAreNotLeader(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"503": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 503, leader{IsLeader: true, FencingToken: 7, ValidForMs: 60000})
		},
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "leading") },
		"no token": func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, leader{IsLeader: true, ValidForMs: 60000}) },
		"no time":  func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, leader{IsLeader: true, FencingToken: 7}) },
	} {
		s := newStage(t, nil)
		s.sidecar.leads(7, time.Minute)
		s.works(t)
		s.sidecar.Config.Handler = answer
		s.sidecar.say(leader{State: "following"}) // lets the blocked request go
		s.sidecar.CloseClientConnections()
		t.Log(name)
		s.isIdle(t)
	}
}

func TestASidecarThatDiesEndsTheWork(t *testing.T) {
	s := newStage(t, nil)
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	s.sidecar.Listener.Close()
	s.sidecar.CloseClientConnections()
	s.isIdle(t)
}

// TestTheValidityCountsFromTheRequest: an answer that was on its way for longer than it holds says nothing.
func TestTheValidityCountsFromTheRequest(t *testing.T) {
	s := newStage(t, nil)
	s.sidecar.answersAfter(60 * time.Millisecond)
	s.sidecar.leads(6, 0) // ends a request that had begun before, so that the next takes all of the delay
	eventually(t, "it is told", func() bool { return s.leadership.term().token == 6 })
	s.sidecar.leads(7, 50*time.Millisecond)
	eventually(t, "it is told again", func() bool { return s.leadership.term().token == 7 })
	s.isIdle(t)
	if kept := s.kept(); len(kept) > 0 {
		t.Errorf("it has written %d times", len(kept))
	}
}

func TestSilenceEndsTheWorkAtTheEndOfTheValidity(t *testing.T) {
	s := newStage(t, nil)
	const valid = 200 * time.Millisecond
	s.sidecar.leads(7, valid)
	s.works(t)
	s.sidecar.answersAfter(time.Hour)
	s.isIdle(t)
	if kept := s.kept(); kept[len(kept)-1].Started-kept[0].Started < valid/2 {
		t.Errorf("it has stopped long before the end: it has written %d times", len(kept))
	}
}

// TestADrainGoesOnWorking, and is over before the app ends.
func TestADrainGoesOnWorking(t *testing.T) {
	s := newStage(t, func(w *worker) { w.drain = 100 * time.Millisecond })
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	s.stop()
	<-s.done
	kept := s.kept()
	first := slices.IndexFunc(kept, func(e journal.Entry) bool { return e.Draining })
	if first < 0 {
		t.Fatal("it has written nothing while it drained")
	}
	if took := kept[len(kept)-1].Started - kept[first].Started; took < s.drain/2 || took > s.drain {
		t.Errorf("it has written for %s while it drained for %s", took, s.drain)
	}
}

// TestAHandover: the work goes on for the drain, then the sidecar is told that it has stopped.
func TestAHandover(t *testing.T) {
	for _, c := range []struct{ drain, handover, works time.Duration }{
		{0, time.Minute, 0}, {50 * time.Millisecond, time.Minute, 50 * time.Millisecond}, {300 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		s := newStage(t, func(w *worker) { w.drain, w.handover = c.drain, c.handover })
		s.sidecar.leads(7, time.Minute)
		s.works(t)
		s.sidecar.say(leader{State: "handing-over"})
		eventually(t, "it says that the work has stopped", func() bool { return s.sidecar.told("/release") })
		n := len(s.kept())
		r := journal.Reigns(s.kept())[0]
		if worked := r.Last.Started - r.Drains; r.Last.Draining != (c.works > 0) || c.works > 0 && (worked < c.works/2 || worked > c.works) {
			t.Errorf("%+v: it has worked on for %s; its last write was one of the drain: %t", c, worked, r.Last.Draining)
		}
		if s.leads() != 0 {
			t.Error("it answers as the leader")
		}
		s.isIdle(t)
		if len(s.kept()) != n {
			t.Error("it goes on after it has said that it has stopped")
		}
		s.sidecar.leads(9, time.Minute)
		s.works(t)
	}
}

func TestResigningAsItIsToldToStop(t *testing.T) {
	s := newStage(t, func(w *worker) { w.resign = true })
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	s.stop()
	<-s.done
	if !s.sidecar.told("/resign") || !s.sidecar.told("/release") {
		t.Errorf("it has told the sidecar %q", s.sidecar.commands)
	}
}

// TestARefusedWriteEndsTheWork, until there is another token.
func TestARefusedWriteEndsTheWork(t *testing.T) {
	s := newStage(t, nil)
	later, _ := json.Marshal(journal.Beat{Token: 9})
	if _, err := http.Post(s.journal, "application/json", bytes.NewReader(later)); err != nil {
		t.Fatal(err)
	}
	s.sidecar.leads(7, time.Minute)
	eventually(t, "it has written once", func() bool { return len(s.kept()) == 2 })
	time.Sleep(20 * s.period)
	if kept := s.kept(); len(kept) != 2 || !kept[1].Stale {
		t.Errorf("kept is %+v", kept)
	}
	s.sidecar.leads(10, time.Minute)
	s.works(t)
}

func TestThePort(t *testing.T) {
	s := newStage(t, nil)
	port := httptest.NewServer(newPort(s.worker, time.Now(), killer{t.TempDir()}))
	t.Cleanup(port.Close)
	call := func(method, path string) (int, journal.Answer) {
		req, _ := http.NewRequestWithContext(t.Context(), method, port.URL+path, nil)
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var a journal.Answer
		_ = json.NewDecoder(response.Body).Decode(&a)
		return response.StatusCode, a
	}
	if code, a := call("GET", "/"); code != 503 || a != (journal.Answer{Pod: "p"}) {
		t.Errorf("a follower answers %d %+v", code, a)
	}
	s.sidecar.leads(7, time.Minute)
	s.works(t)
	if code, a := call("GET", "/"); code != 200 || a != (journal.Answer{Pod: "p", Token: 7, Leading: true}) {
		t.Errorf("a leader answers %d %+v", code, a)
	}
	for _, step := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/readyz", 200}, {"GET", "/healthz", 200}, {"POST", "/sick", 200}, {"GET", "/healthz", 500}, {"POST", "/well", 200},
		{"GET", "/healthz", 200}, {"GET", "/nowhere", 404}, {"POST", "/kill/me", 404}, {"POST", "/kill/sidecar", 404}, {"POST", "/resign", 200},
	} {
		if code, _ := call(step.method, step.path); code != step.code {
			t.Errorf("%s %s: %d, want %d", step.method, step.path, code, step.code)
		}
	}
}

func TestOutcomes(t *testing.T) {
	code, body := 200, any(journal.Answer{Pod: "p", Token: 7, Leading: true})
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch code {
		case 0:
			<-hang
		case 1:
			panic(http.ErrAbortHandler)
		default:
			reply(w, code, body)
		}
	}))
	defer server.Close()
	defer close(hang)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	for _, c := range []struct {
		name string
		code int
		body any
		url  string
		want journal.Outcome
	}{
		{"a leader", 200, body, "", journal.OK},
		{"a follower", 503, journal.Answer{Pod: "p"}, "", journal.Unavailable},
		{"200 of a follower", 200, journal.Answer{Pod: "p"}, "", journal.Wrong},
		{"not JSON", 200, "x", "", journal.Wrong},
		{"an error", 500, body, "", journal.Wrong},
		{"no answer", 0, nil, "", journal.TimedOut},
		{"a connection that is cut", 1, nil, "", journal.Refused},
		{"nobody", 200, nil, "http://" + nobody.Addr().String(), journal.Refused},
	} {
		code, body = c.code, c.body
		r := (&client{url: cmp.Or(c.url, server.URL), timeout: 50 * time.Millisecond}).request(t.Context())
		if r.Outcome != c.want || r.Sent > r.Answered || (r.Outcome == journal.OK) != (r.Error == "") {
			t.Errorf("%s: %+v, want %s", c.name, r, c.want)
		}
		if c.want == journal.OK && (r.Pod != "p" || r.Token != 7) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestTheClientKeepsItsRate also while answers are slow, and serves what it has seen in the order of sending.
func TestTheClientKeepsItsRate(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	c := &client{url: server.URL, timeout: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.run(ctx, 5*time.Millisecond)
	eventually(t, "there are ten", func() bool { return len(c.requests()) >= 10 })
	got := c.requests()
	if got[9].Sent-got[0].Sent > 10*c.timeout/2 {
		t.Error("one was sent only when the one before had failed")
	}
	if !slices.IsSortedFunc(got, func(a, b journal.Request) int { return cmp.Compare(a.Sent, b.Sent) }) {
		t.Error("they are not in the order of sending")
	}
}

func TestProcesses(t *testing.T) {
	proc := t.TempDir()
	for pid, comm := range map[string]string{"7": "elector-sidecar\n", "12": "elector-sidecar\n", "13": "app\n", "self": "elector-sidecar\n"} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := processes(proc, sidecar)
	if slices.Sort(got); !slices.Equal(got, []int{7, 12}) {
		t.Errorf("the processes are %v", got)
	}
}

// TestPauseReaps runs this test's binary as the pause of a pod, with an orphan.
func TestPauseReaps(t *testing.T) {
	if os.Getenv("PAUSE") != "" {
		becomeSubreaper()
		if err := exec.Command("sh", "-c", "sleep 0.05 & exit 0").Run(); err != nil { // leaves an orphan to this process
			t.Fatal(err)
		}
		if err := pause(); err != nil {
			t.Fatal(err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPauseReaps$")
	cmd.Env = append(os.Environ(), "PAUSE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	children := func() string {
		var all []byte
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, list := range lists {
			some, _ := os.ReadFile(list)
			all = append(all, some...)
		}
		return strings.TrimSpace(string(all))
	}
	eventually(t, "it has a child", func() bool { return children() != "" })
	eventually(t, "it has reaped its child", func() bool { return children() == "" })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to stop it ends with %v", err)
	}
}

// becomeSubreaper makes orphans below this process its children, as they are of a pod's first process.
func becomeSubreaper() {
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		panic(errno)
	}
}
