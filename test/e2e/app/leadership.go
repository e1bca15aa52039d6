// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/elector-sidecar/elector-sidecar/test/e2e/journal"
)

const (
	longWait = 25 * time.Second       // that a follower's request may block
	slack    = 5 * time.Second        // that an answer may take on top of it
	retry    = 200 * time.Millisecond // between requests while the sidecar does not answer
)

// term is what the sidecar has said last.
type term struct {
	token            int64         // 0: this pod does not lead
	until            time.Duration // by journal.SinceBoot, as the next
	handingOver      bool          // it has led with that token until now, and the lease is kept for the app to finish
	handingOverSince time.Duration
}

// leadership follows the sidecar by the rules of docs/http-api.md.
type leadership struct {
	url  string
	http *http.Client
	mu   sync.Mutex
	last term
}

func newLeadership(url string) *leadership {
	return &leadership{url: strings.TrimSuffix(url, "/"), http: &http.Client{Transport: &http.Transport{}}} // no proxy
}

func (l *leadership) term() term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// leader is what is read of the sidecar's answer.
type leader struct {
	IsLeader     bool   `json:"isLeader"`
	State        string `json:"state"`
	ValidForMs   int64  `json:"validForMs"`
	FencingToken int64  `json:"fencingToken"`
	Revision     string `json:"revision"`
}

// follow asks the sidecar until ctx ends. Every error means "not leader".
func (l *leadership) follow(ctx context.Context) {
	revision, wait := "", time.Duration(0)
	for ctx.Err() == nil {
		sent := journal.SinceBoot() // the validity counts from here: no delay of the answer can stretch it
		answer, err := l.ask(ctx, revision, wait)
		if err != nil {
			l.tell(term{}, err.Error())
			revision, wait = "", 0
			sleep(ctx, retry)
			continue
		}
		l.take(answer, sent)
		revision, wait = answer.Revision, longWait
		if valid := time.Duration(answer.ValidForMs) * time.Millisecond; answer.IsLeader {
			wait = min(wait, valid/3) // so that the next answer is here before this one is void
		}
	}
}

func (l *leadership) take(answer leader, sent time.Duration) {
	switch {
	case answer.IsLeader:
		l.tell(term{token: answer.FencingToken, until: sent + time.Duration(answer.ValidForMs)*time.Millisecond}, answer.State)
	case answer.State == "handing-over":
		t := l.term()
		if !t.handingOver {
			t.handingOver, t.handingOverSince = true, journal.SinceBoot()
		}
		l.tell(t, answer.State)
	default:
		l.tell(term{}, answer.State)
	}
}

func (l *leadership) tell(t term, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.token != l.last.token || t.handingOver != l.last.handingOver {
		log.Printf("token %d, handing over: %t (%s)", t.token, t.handingOver, why)
	}
	l.last = t
}

// ask gets an answer as soon as it is not of this revision, or the same again when the wait is over.
func (l *leadership) ask(ctx context.Context, revision string, wait time.Duration) (leader, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+slack)
	defer cancel()
	query := url.Values{"revision": {revision}, "wait": {wait.String()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/leader?"+query.Encode(), nil)
	if err != nil {
		return leader{}, err
	}
	response, err := l.http.Do(req)
	if err != nil {
		return leader{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return leader{}, fmt.Errorf("the sidecar answers %s", response.Status)
	}
	var answer leader
	return answer, json.NewDecoder(response.Body).Decode(&answer)
}

// command tells the sidecar to do something: "release" says that the work has stopped, so that one that hands over need not
// wait any longer; "resign" makes it hand over.
func (l *leadership) command(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), slack)
	defer cancel()
	response, err := l.post(ctx, name, "")
	if err != nil {
		log.Printf("%s: %v", name, err)
		return
	}
	response.Body.Close()
	log.Printf("%s: %s", name, response.Status)
}

func (l *leadership) post(ctx context.Context, name, query string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/"+name+"?"+query, nil)
	if err != nil {
		return nil, err
	}
	return l.http.Do(req)
}
