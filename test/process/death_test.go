// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/cluster"
	"github.com/elector-sidecar/elector-sidecar/test/sidecar"
)

func TestDeathOfTheLeader(t *testing.T) {
	s := begin(t, brisk)
	web := s.start("web-0")
	leader := web.Leads()
	next := s.start("web-1")
	next.Follows("web-0")
	web.Is(sigkill)
	<-web.Ended()
	last := s.lease.Get()
	took := next.Leads()
	taken := s.lease.Get()
	s.after(renewed(last).Add(brisk.duration), acquired(taken), "the lease was taken")
	s.within(brisk.duration*2, acquired(taken).Sub(renewed(last)), "taking the dead leader's lease")
	if took.Term != leader.Term+1 || took.FencingToken <= leader.FencingToken {
		t.Errorf("web-0 led as %+v, and then web-1 as %+v", leader, took)
	}
}

// The pod that did not win names the one that did.
func TestThirdPodNamesTheNewLeader(t *testing.T) {
	s := begin(t, brisk)
	pods := []*sidecar.Sidecar{s.start("web-0")}
	pods[0].Leads()
	for _, name := range []string{"web-1", "web-2"} {
		pod := s.start(name)
		pod.Follows("web-0")
		pods = append(pods, pod)
	}
	pods[0].Kill()
	winner := s.lease.Await("has another holder", func(lease *leaseObject) bool {
		return podOf(cluster.Holder(lease)) != "web-0"
	})
	for _, pod := range pods[1:] {
		if name := podOf(cluster.Holder(winner)); pod.Name == name {
			pod.Leads()
		} else {
			pod.Follows(name)
		}
	}
}

// A leader that was frozen past its lease's end must not say that it leads, not even in its first answer: the requests
// are there before it wakes. Which of its goroutines runs first is chance, so each is frozen in turn.
func TestFrozenLeaderWakes(t *testing.T) {
	s := begin(t, brisk)
	leader := s.start("web-0")
	leader.Leads()
	next := s.start("web-1")
	for range 4 {
		before := leader.Leads()
		next.Follows(leader.Name)
		for _, answer := range askOften(leader) { // so that there are open connections
			<-answer
		}
		leader.Is(sigstop)
		next.Leads()

		answers := askOften(leader)
		s.pass(200 * time.Millisecond) // for the requests to be sent
		leader.Is(sigcont)
		answers = append(answers, askOften(leader)...)
		for _, answer := range answers {
			reply := <-answer
			now, err := reply.Leader()
			if err != nil {
				t.Fatal(err)
			}
			if now.IsLeader && now.FencingToken <= before.FencingToken {
				t.Errorf("an answer after waking says %+v", now)
			}
		}
		leader.Follows(next.Name)
		next.Gets("/is-leader", 200)
		leader, next = next, leader
	}
}

// askOften asks for /leader in many requests at once.
func askOften(web *sidecar.Sidecar) []<-chan sidecar.Reply {
	var answers []<-chan sidecar.Reply
	for range 50 {
		answers = append(answers, web.Asks("/leader"))
	}
	return answers
}

// A frozen follower does not take the lease as it wakes, although it has seen no renewal for long.
func TestFrozenFollowerWakes(t *testing.T) {
	s := begin(t, steady)
	web := s.start("web-0")
	leader := web.Leads()
	frozen := s.start("web-1")
	frozen.Follows("web-0")
	frozen.Is(sigstop)
	s.pass(steady.duration + time.Second)
	frozen.Is(sigcont)
	s.pass(steady.retry * 2) // for it to do what it wants to
	frozen.Follows("web-0")
	if now := web.Leader(); !now.IsLeader || now.FencingToken != leader.FencingToken {
		t.Errorf("web-0 led as %+v, and now says %+v", leader, now)
	}
}

// The container of a pod is restarted: the lease is its own, and nobody has to wait.
func TestRestartInTheSamePod(t *testing.T) {
	s := begin(t, calm)
	first := s.start("web-0", "POD_UID=uid-0")
	before := first.Leads()
	other := s.start("web-1")
	other.Follows("web-0")
	first.Kill()
	restarted := time.Now()
	after := s.start("web-0", "POD_UID=uid-0").Leads()
	s.within(soon, time.Since(restarted), "leading again")
	if after.Term != before.Term || after.FencingToken <= before.FencingToken {
		t.Errorf("before the restart it led as %+v, after it as %+v", before, after)
	}
	other.Follows("web-0")
}

// Without a UID nothing says that it is the same pod.
func TestRestartWithoutAUID(t *testing.T) {
	s := begin(t, brisk)
	first := s.start("web-0")
	first.Leads()
	first.Kill()
	last := s.lease.Get()
	second := s.start("web-0")
	second.Leads()
	s.after(renewed(last).Add(brisk.duration), acquired(s.lease.Get()), "the lease was taken")
}

// Two processes of one identity would both believe that the lease is theirs.
func TestSecondProcessOfTheSameIdentity(t *testing.T) {
	s := begin(t, calm)
	for _, own := range []string{"POD_UID=uid-0", "ELECTOR_IDENTITY=web-0_own"} {
		first := s.start("web-0", own)
		first.Leads()
		second := s.start("web-0", own)
		second.Exits(2)
		second.Logs("contends for lease")
		first.Gets("/is-leader", 200)
		first.Is(sigterm)
		first.Exits(0)
	}
}
