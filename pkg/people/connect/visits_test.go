package connect_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
)

func TestSeen(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	opened := now
	s := connect.NewVisits(func() time.Time { return now })
	note := func(agent, client string, tools int) {
		now = now.Add(2 * time.Second)
		s.Note(connect.Visit{Agent: agent, Client: client, Version: "1"}, func() int { return tools })
	}
	names := func(at time.Time, agent string) (out []string) {
		for _, v := range s.Since(at, agent) {
			out = append(out, fmt.Sprintf("%s %s %d", v.Agent, v.Client, v.Tools))
		}
		return out
	}
	note("kim", "cursor", 5)
	note("ci", "codex", 6)
	between := now
	note("kim", "cursor", 7)
	if diff := cmp.Diff([]string{"kim cursor 7", "ci codex 6"}, names(opened, "")); diff != "" {
		t.Errorf("Since(opened) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"kim cursor 7"}, names(between, "")); diff != "" {
		t.Errorf("Since(between) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ci codex 6"}, names(opened, "ci")); diff != "" {
		t.Errorf("for one agent (-want +got):\n%s", diff)
	}
	if got := names(now, ""); got != nil {
		t.Errorf("Since(now) = %q", got)
	}
}

// Note counts the tools of a client at most once a second, however often it connects.
func TestSeenCountsSeldom(t *testing.T) {
	now, counted := time.Now(), 0
	s := connect.NewVisits(func() time.Time { return now })
	for range 10 {
		s.Note(connect.Visit{Agent: "kim", Client: "cursor"}, func() int { counted++; return 1 })
		now = now.Add(300 * time.Millisecond)
	}
	if counted != 3 {
		t.Errorf("counted %d times in 3 s, want 3", counted)
	}
	last := now
	s.Note(connect.Visit{Agent: "kim", Client: "cursor"}, func() int { return 1 })
	if got := s.Since(last.Add(-time.Nanosecond), ""); len(got) != 1 || got[0].Tools != 1 {
		t.Errorf("after a second visit at the same time: %+v", got)
	}
}

// An agent that sends many client names does not evict a visit of another agent, and the number of
// visits is limited.
func TestSeenIsBounded(t *testing.T) {
	now := time.Now()
	began := now.Add(-time.Second)
	s := connect.NewVisits(func() time.Time { now = now.Add(time.Second); return now })
	one := func() int { return 1 }
	s.Note(connect.Visit{Agent: "kim", Client: "cursor"}, one)
	for i := range 1000 {
		s.Note(connect.Visit{Agent: "mallory", Client: fmt.Sprintf("%d%s\n\u202e", i, strings.Repeat("x", 1<<16))}, one)
	}
	if got := s.Since(began, "kim"); len(got) != 1 {
		t.Errorf("the visits of kim are %v", got)
	}
	hostile := s.Since(began, "mallory")
	if len(hostile) != 8 {
		t.Errorf("%d clients of one agent, want 8", len(hostile))
	}
	for _, v := range hostile {
		if len(v.Client) > 100 || strings.Contains(v.Client, "\n") {
			t.Errorf("the stored name is %q", v.Client)
		}
	}
	for i := range 1000 {
		s.Note(connect.Visit{Agent: fmt.Sprint(i)}, one)
	}
	if got := s.Since(began, ""); len(got) != 256 {
		t.Errorf("%d visits are kept, want 256", len(got))
	}
}

func TestSeenConcurrently(t *testing.T) {
	s := connect.NewVisits(nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				s.Note(connect.Visit{Agent: fmt.Sprint(i), Client: fmt.Sprint(j)}, func() int { return j })
				s.Since(time.Time{}, "")
			}
		})
	}
	wg.Wait()
}
