package approval_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestUndo(t *testing.T) {
	base := approved(t, observed(nil, "h1"), "ada", noon.Add(-time.Hour))
	base.Note, base.Tell = "fine", true
	base = observed(&base, "h2").Next(noon)
	author := approval.Author{Actor: "bob", Note: "because", Tell: true}
	for name, decide := range map[string]func(approval.Record) (approval.Record, approval.Entry, error){
		"approve": func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Approve(r, "h2", author, noon)
		},
		"block": func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Block(r, "h2", author, noon)
		},
		"disable": func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Disable(r, author, noon)
		},
		"enable": func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Enable(r, author, noon)
		},
	} {
		t.Run(name, func(t *testing.T) {
			next, _, err := decide(base)
			require.OK(t, err)
			next = next.Next(noon)
			got, e, err := approval.UndoDecision(next, next.Rev, "carl", noon.Add(approval.UndoTime))
			require.OK(t, err)
			want := base
			want.Rev, want.UpdatedAt, want.Format, want.DecidedAt = got.Rev, got.UpdatedAt, got.Format, noon.Add(approval.UndoTime)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
			wantEntry := approval.Entry{
				Server: id.Server, Tool: id.Name, Actor: "carl", Action: "undo", Hash: "h2",
				Note: name + " by bob was undone", At: noon.Add(approval.UndoTime),
			}
			if d := cmp.Diff(wantEntry, e); d != "" {
				t.Errorf("audit line (-want +got):\n%s", d)
			}
		})
	}
}

func TestUndoRefused(t *testing.T) {
	r := observed(nil, "h1").Next(noon)
	r = approved(t, r, "ada", noon).Next(noon)
	undone, _, err := approval.UndoDecision(r, r.Rev, "ada", noon)
	require.OK(t, err)
	undone = undone.Next(noon)
	changed := observed(&r, "h2").Next(noon)
	unnoticed := r // written by a program without undo, which kept unknown members
	unnoticed.Rev++
	for name, test := range map[string]struct {
		record approval.Record
		rev    int64
		after  time.Duration
		want   error
	}{
		"too late":                 {r, r.Rev, approval.UndoTime + 1, approval.ErrNoUndo},
		"before the decision":      {r, r.Rev, -time.Hour, approval.ErrNoUndo},
		"another revision":         {r, r.Rev - 1, 0, approval.ErrConflict},
		"an undo":                  {undone, undone.Rev, 0, approval.ErrNoUndo},
		"a sync wrote since":       {changed, changed.Rev, 0, approval.ErrNoUndo},
		"an older program wrote":   {unnoticed, unnoticed.Rev, 0, approval.ErrNoUndo},
		"nothing was ever decided": {observed(nil, "h1").Next(noon), 1, 0, approval.ErrNoUndo},
	} {
		_, _, err := approval.UndoDecision(test.record, test.rev, "ada", noon.Add(test.after))
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if can := test.record.CanUndo(noon.Add(test.after)); can && errors.Is(test.want, approval.ErrNoUndo) {
			t.Errorf("%s: CanUndo reports true", name)
		}
	}
	if _, _, err := approval.UndoDecision(r, r.Rev, "", noon); err == nil {
		t.Error("UndoDecision without an actor succeeds")
	}
}

// An undo restores the approved definition byte for byte if the record had room for it. If the
// record had no room, the decision stays, and CanUndo reports false.
func TestUndoOfLongDefinitions(t *testing.T) {
	text := func(c string, n int) []byte { return []byte(strings.Repeat(c, n)) }
	for _, test := range []struct {
		size, rest int
		want       bool
	}{
		{100 << 10, 4 << 10, true},
		{tool.MaxDefinition, 1 << 10, true},
		{tool.MaxDefinition, 4 << 10, false},
	} {
		r := decidedRecord(approval.Changed, "h1", "h2")
		r.URL, r.Note = strings.Repeat("u", 2*test.rest), strings.Repeat("n", test.rest)
		r.Approved, r.Current = text("a", test.size), text("b", test.size)
		next, _, err := approval.Approve(r, "h2", approval.Author{Actor: "bob"}, noon)
		if err != nil || next.State != approval.Approved {
			t.Fatalf("Approve of %d bytes = %s, %v", test.size, next.State, err)
		}
		if next = next.Next(noon); next.CanUndo(noon) != test.want {
			t.Fatalf("CanUndo of %d and %d bytes = %v", test.size, test.rest, next.CanUndo(noon))
		}
		if test.want {
			if back, _, err := approval.UndoDecision(next, next.Rev, "bob", noon); err != nil || string(back.Approved) != string(r.Approved) {
				t.Errorf("the restored definition has %d bytes (%v)", len(back.Approved), err)
			}
		}
	}
}
