package decide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// refused returns the error of a decision that must be refused.
func (f *fixture) refused(id string, dec decide.Decision) *decide.Error {
	f.T.Helper()
	before := f.Record(id)
	_, err := f.service.Decide(f.ctx, gatewaytest.ID(f.T, id), dec)
	e, ok := errors.AsType[*decide.Error](err)
	if !ok {
		f.T.Fatalf("%s %+v: %v, want a refusal", id, dec, err)
	}
	if diff := cmp.Diff(before, f.Record(id)); diff != "" {
		f.T.Errorf("%s %+v is refused, and the record changed:\n%s", id, dec, diff)
	}
	return e
}

// decided returns the tool after a decision that must succeed.
func (f *fixture) decided(id string, dec decide.Decision) decide.Tool {
	f.T.Helper()
	got, err := f.service.Decide(f.ctx, gatewaytest.ID(f.T, id), dec)
	if err != nil {
		f.T.Fatalf("%s %+v: %v", id, dec, err)
	}
	return got
}

// Every refusal says what happened, that nothing was decided, and what to do.
func TestDecideRefusals(t *testing.T) {
	f := newQueue(t)
	now, rev := f.Record("git:log").CurrentHash, f.Record("git:log").Rev
	for name, tc := range map[string]struct {
		dec    decide.Decision
		status int
		says   []string
	}{
		"no action":     {decide.Decision{Action: "open", Hash: now}, 422, []string{"nothing was decided", "It takes approve, block, unblock, disable, enable, undo"}},
		"no hash":       {decide.Decision{Action: "approve"}, 422, []string{"nothing was decided", "Read the tool"}},
		"block no hash": {decide.Decision{Action: "block"}, 422, []string{"nothing was decided"}},
		"undo no rev":   {decide.Decision{Action: "undo"}, 422, []string{"nothing was undone"}},
		"long note":     {decide.Decision{Action: "disable", Note: strings.Repeat("ä", 3000)}, 422, []string{"the note has 6000 bytes", "nothing was decided", "at most 4096"}},
		"no text":       {decide.Decision{Action: "disable", Note: "\xff\xfe"}, 422, []string{"not UTF-8", "nothing was decided"}},
		"other hash":    {decide.Decision{Action: "approve", Hash: tool.Hash(strings.Repeat("0", 64)), Rev: rev}, 409, []string{"the definition changed", "nothing was decided", "decide about it"}},
		"other rev":     {decide.Decision{Action: "approve", Hash: now, Rev: rev - 1}, 409, []string{"nothing was decided", "its definition waits for approval", "the last decision is by sync", "Decide again"}},
		"not blocked":   {decide.Decision{Action: "unblock", Hash: now, Rev: rev}, 409, []string{"not blocked", "nothing was decided", "Read the tool again"}},
		"no undo":       {decide.Decision{Action: "undo", Rev: rev}, 409, []string{"can no longer be undone", "nothing was undone", "Decide again"}},
		"undo old rev":  {decide.Decision{Action: "undo", Rev: rev - 1}, 409, []string{"nothing was undone"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := f.refused("git:log", tc.dec)
			if e.Status != tc.status || strings.HasSuffix(e.Detail, ".") {
				t.Errorf("%d %s, want %d and no full stop", e.Status, e.Detail, tc.status)
			}
			for _, want := range tc.says {
				if !strings.Contains(e.Detail, want) {
					t.Errorf("%q does not say %q", e.Detail, want)
				}
			}
		})
	}
}

// If the definition or the record has changed since the person looked, the refusal contains the
// definition that the person saw, if it is still stored.
func TestDecideChanged(t *testing.T) {
	f := newQueue(t)
	seen := f.Record("git:log")
	t.Run("decided about", func(t *testing.T) {
		f.decided("git:log", decide.Decision{Action: approval.ActionDisable})
		e := f.refused("git:log", decide.Decision{Action: approval.ActionApprove, Hash: seen.CurrentHash, Rev: seen.Rev})
		if string(e.Seen) != string(seen.Current) {
			t.Errorf("seen = %s", e.Seen)
		}
	})
	t.Run("back to the approved definition", func(t *testing.T) {
		approved := f.Record("git:log").ApprovedHash
		e := f.refused("git:log", decide.Decision{Action: approval.ActionBlock, Hash: approved, Rev: 1})
		if string(e.Seen) != string(f.Record("git:log").Approved) {
			t.Errorf("seen = %s", e.Seen)
		}
	})
	t.Run("only another process has seen the change", func(t *testing.T) {
		next, e, changed := approval.Observe(new(f.Record("git:push")), approval.Observation{
			ID: gatewaytest.ID(t, "git:push"), Definition: []byte(`{"name":"push","description":"Push commits by force."}`), Hash: tool.Hash(strings.Repeat("a", 64)), Mode: approval.OnChange, Now: f.Clock.Now(),
		})
		if !changed {
			t.Fatal("Observe reports no change")
		}
		before := f.Record("git:push")
		_, err := f.Approvals.Put(t.Context(), next, e)
		require.OK(t, err)
		r := f.refused("git:push", decide.Decision{Action: approval.ActionApprove, Hash: before.CurrentHash, Rev: before.Rev})
		if string(r.Seen) != string(before.Current) {
			t.Errorf("seen = %s", r.Seen)
		}
	})
	t.Run("the definition that the person saw is no longer stored", func(t *testing.T) {
		e := f.refused("git:log", decide.Decision{Action: approval.ActionApprove, Hash: tool.Hash(strings.Repeat("0", 64))})
		if e.Code != decide.DefinitionChanged || e.Seen != nil {
			t.Errorf("refused = %+v", e)
		}
	})
}

// If many people decide about the same revision, exactly one decision is carried out. The others
// are refused, and the audit has one line.
func TestDecideRaces(t *testing.T) {
	f := newQueue(t)
	for round, id := range []string{"git:log", "git:push", "db:drop", "db:query", "db:vacuum"} {
		seen := f.Record(id)
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for n := range errs {
			wg.Go(func() {
				ctx := decide.WithActor(context.Background(), decide.Actor{Name: fmt.Sprint("person ", n), Rights: identity.Everything()})
				actions := []string{approval.ActionApprove, approval.ActionBlock, approval.ActionDisable}
				_, errs[n] = f.service.Decide(ctx, gatewaytest.ID(t, id), decide.Decision{Action: actions[(n+round)%3], Hash: seen.CurrentHash, Rev: seen.Rev})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if e, ok := errors.AsType[*decide.Error](err); err == nil {
				won++
			} else if !ok || e.Status != http.StatusConflict || !strings.Contains(e.Detail, "was decided") {
				t.Errorf("%s: the refusal is %v", id, err)
			}
		}
		lines, err := f.Approvals.Audit(t.Context(), seen.Server, approval.Cursor{}, 1000)
		require.OK(t, err)
		decided := 0
		for _, l := range lines {
			if l.Tool == seen.Tool && l.Actor != approval.Sync {
				decided++
			}
		}
		if won != 1 || decided != 1 || f.Record(id).Rev != seen.Rev+1 {
			t.Errorf("%s: %d decided, the audit has %d lines, revision %d after %d", id, won, decided, f.Record(id).Rev, seen.Rev)
		}
	}
}

func TestDecideAll(t *testing.T) {
	f := newQueue(t)
	items := func(ids ...string) (out []decide.Item) {
		for _, id := range ids {
			r := f.Record(id)
			out = append(out, decide.Item{ID: r.ID(), Hash: r.CurrentHash, Rev: r.Rev})
		}
		return out
	}
	t.Run("each separately", func(t *testing.T) {
		chosen := items("git:log", "git:push", "db:drop")
		chosen[1].Rev++
		results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: approval.ActionBlock, Note: "not here", Tell: true}, chosen)
		require.OK(t, err)
		if r := results[0]; r.Err != nil || r.Tool.Status != "disabled_by_user" || r.Tool.Record.Note != "not here" || !r.Tool.Record.Tell {
			t.Errorf("first = %+v", r)
		}
		if r := results[1]; r.Err == nil || r.Err.Code != decide.RecordChanged {
			t.Errorf("second = %+v", r)
		}
		page, err := f.read("state=blocked")
		require.OK(t, err)
		if ids(page) != "db:drop git:log" || page.Tools[0].By != "ann" || page.Tools[0].Note != "not here" {
			t.Errorf("blocked: %+v", page.Tools)
		}
	})
	t.Run("blocked", func(t *testing.T) {
		blocked := items("git:log")
		blocked[0].Shown = decide.ShownSeen
		results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: approval.ActionApprove}, blocked)
		require.OK(t, err)
		if e := results[0].Err; e == nil || e.Code != decide.Blocked {
			t.Errorf("a blocked definition in a bulk approval: %+v", e)
		}
	})
	t.Run("one item twice", func(t *testing.T) {
		results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: approval.ActionDisable}, items("git:push", "git:push"))
		require.OK(t, err)
		if results[0].Err != nil || results[0].Tool.Status != "disabled_by_user" {
			t.Errorf("first = %+v", results[0])
		}
		if e := results[1].Err; e == nil || e.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Detail, "more than once") {
			t.Errorf("again = %+v", e)
		}
	})
	t.Run("refused as a whole", func(t *testing.T) {
		for want, tc := range map[string]struct {
			action string
			items  []decide.Item
		}{
			"for many items takes": {"unblock", items("git:push")},
			"Choose at least one":  {"approve", nil},
			"Choose at most 500":   {"approve", make([]decide.Item, decide.MaxItems+1)},
			"nothing was decided:": {"", items("git:push")},
		} {
			_, err := f.service.DecideAll(f.ctx, decide.Decision{Action: tc.action}, tc.items)
			if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Detail, want) {
				t.Errorf("%q with %d tools: %v, want %s", tc.action, len(tc.items), err, want)
			}
		}
	})
}

// An older program that knows no blocks may approve a blocked definition. The tool stays locked,
// and the page shows how to unlock it.
func TestBlockedByANewerProgram(t *testing.T) {
	f := newQueue(t)
	r := f.Record("git:log")
	f.decided("git:log", decide.Decision{Action: approval.ActionBlock, Hash: r.CurrentHash, Rev: r.Rev})
	r = f.Record("git:log")
	r.State, r.ApprovedHash, r.Approved = approval.Approved, r.CurrentHash, r.Current
	_, err := f.Approvals.Put(f.ctx, r, nil)
	require.OK(t, err)
	got, err := f.service.Tool(f.ctx, r.ID())
	require.OK(t, err)
	if got.Status != "disabled_by_user" || got.Record.State != approval.Blocked || !slices.Contains(got.Actions, "unblock") || !slices.Contains(got.Actions, "approve") {
		t.Errorf("%s, state %s, actions %q", got.Status, got.Record.State, got.Actions)
	}
}
