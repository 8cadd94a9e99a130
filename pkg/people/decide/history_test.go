package decide_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// lives changes git:log several times, among changes of other tools.
func (f *fixture) lives() []string {
	f.decided("git:log", decide.Decision{Action: approval.ActionApprove, Hash: f.Record("git:log").CurrentHash, Note: "ok for dev", Tell: true})
	f.decided("git:push", decide.Decision{Action: approval.ActionDisable})
	done := f.decided("git:log", decide.Decision{Action: approval.ActionBlock, Hash: f.Record("git:log").CurrentHash})
	f.decided("git:log", decide.Decision{Action: approval.ActionUndo, Rev: done.Record.Rev})
	f.ByName["git"].Tools[0] = gatewaytest.Tool("log", "Show no commits.", gatewaytest.ReadOnly)
	f.Sync()
	return []string{"6 sync change from", "5 ann undo", "4 ann block", "3 ann approve “ok for dev” told", "2 sync change from", "1 sync baseline"}
}

// inWords returns the events in words.
func inWords(events []decide.Event) (out []string) {
	for _, e := range events {
		s := fmt.Sprint(e.Rev, " ", e.Actor, " ", e.Action)
		if e.From != "" && e.From != e.Hash {
			s += " from"
		}
		if e.Note != "" && e.Action != approval.ActionUndo {
			s += " “" + e.Note + "”"
		}
		if e.Tell {
			s += " told"
		}
		out = append(out, s)
	}
	return out
}

func TestHistory(t *testing.T) {
	f := newQueue(t)
	want := f.lives()
	whole, err := f.service.History(f.ctx, gatewaytest.ID(t, "git:log"), decide.Paging{Limit: 50})
	require.OK(t, err)
	if diff := cmp.Diff(want, inWords(whole.Events)); diff != "" || whole.Partial || whole.Next.Next != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if e := whole.Events; e[0].From != e[1].Hash || e[0].Hash != f.Record("git:log").CurrentHash {
		t.Errorf("the last change is from %s to %s", e[0].From, e[0].Hash)
	}
	for limit := 1; limit <= len(want); limit++ {
		var got []decide.Event
		p := decide.Paging{Limit: limit}
		for {
			page, err := f.service.History(f.ctx, gatewaytest.ID(t, "git:log"), p)
			require.OK(t, err)
			got = append(got, page.Events...)
			if p.After = page.Next.Next; p.After == "" {
				break
			}
		}
		if diff := cmp.Diff(whole.Events, got); diff != "" {
			t.Errorf("by %d (-whole +pages):\n%s", limit, diff)
		}
	}
	if got := admintest.Into[decide.History](f.Fixture, "/admin/tools/git/log/history?limit=2", ""); len(got.Events) != 2 || got.Next.Next == "" {
		t.Errorf("the API's page: %+v", got)
	}
	for id, status := range map[string]int{"git:gone": http.StatusNotFound, "nope:log": http.StatusNotFound} {
		_, err := f.service.History(f.ctx, gatewaytest.ID(t, id), decide.Paging{Limit: 5})
		if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != status {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := f.service.History(f.ctx, gatewaytest.ID(t, "git:log"), decide.Paging{Limit: 5, After: "x"}); err == nil {
		t.Error("History accepts an invalid cursor")
	}
}

// A tool among thousands of lines of others has its history on pages that say when more may follow.
func TestHistoryAmongOthers(t *testing.T) {
	f := newQueue(t)
	f.lives()
	at := f.Clock.Now()
	for n := range 2500 {
		r, e, _ := approval.Observe(nil, approval.Observation{
			ID: tool.ID{Server: "git", Name: fmt.Sprintf("other_%04d", n)}, Hash: tool.Hash(strings.Repeat("b", 64)), Definition: []byte(`{}`), Mode: approval.Manual, Now: at.Add(time.Second),
		})
		_, err := f.Approvals.Put(t.Context(), r, e)
		require.OK(t, err)
	}
	p, pages, events := decide.Paging{Limit: 50}, 0, 0
	for {
		page, err := f.service.History(f.ctx, gatewaytest.ID(t, "git:log"), p)
		require.OK(t, err)
		pages, events = pages+1, events+len(page.Events)
		if page.Partial != (page.Next.Next != "") {
			t.Fatalf("page %d: partial %v, next %q", pages, page.Partial, page.Next.Next)
		}
		if p.After = page.Next.Next; p.After == "" {
			break
		}
	}
	if pages != 3 || events != 6 {
		t.Errorf("%d events on %d pages, want 6 on 3", events, pages)
	}
}
