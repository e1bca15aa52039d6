// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

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
		t.Log(name)
		s.sidecar.answersOddly(t, answer)
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

// TestALeaderAsksAgainInTime: what each answer is good for is short.
func TestALeaderAsksAgainInTime(t *testing.T) {
	s := newStage(t, nil)
	const valid = 100 * time.Millisecond
	s.sidecar.leads(7, valid)
	s.works(t)
	first := s.kept()[0].Started
	eventually(t, "it works on", func() bool {
		kept := s.kept()
		return kept[len(kept)-1].Started > first+3*valid
	})
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
