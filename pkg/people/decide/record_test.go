package decide_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestRecord(t *testing.T) {
	f, kept := newFixture(t), new(audittest.Mem)
	f.Decide.Events = kept
	service := decide.New(f.States, f.Approvals, f.Decide)
	ctx, cancel := context.WithCancel(decide.WithActor(t.Context(), decide.Actor{Name: "ann", Source: "192.0.2.7"}))
	cancel() // the person no longer waits
	line := func(l audit.Line) audit.Line {
		t.Helper()
		require.OK(t, service.Record(ctx, l))
		lines := kept.Lines()
		last := lines[len(lines)-1]
		last.Cursor = ""
		return last
	}

	t.Run("in the name of the actor", func(t *testing.T) {
		want := audit.Line{V: 1, Time: f.Clock.Now().UTC(), Kind: audit.KindEvent, Actor: "ann", Action: audit.ActionTokenMade, Subject: "token:ci", Source: "192.0.2.7"}
		got := line(audit.Line{Action: audit.ActionTokenMade, Subject: "token:ci"})
		got.Time = want.Time // each read of the clock advances it
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("in the name of a person who is signing in", func(t *testing.T) {
		if got := line(audit.Line{Action: audit.ActionLogin, Actor: "kim"}); got.Actor != "kim" || got.Source != "192.0.2.7" {
			t.Errorf("actor %q from %q", got.Actor, got.Source)
		}
	})
	t.Run("a long text", func(t *testing.T) {
		got := line(audit.Line{Action: audit.ActionStop, Note: strings.Repeat("é", audit.MaxText), Subject: "\xff"})
		if len(got.Note) > audit.MaxText || len(got.Note) < audit.MaxText-1 || !utf8.ValidString(got.Note) || got.Subject != "" {
			t.Errorf("a note of %d bytes about %q", len(got.Note), got.Subject)
		}
	})
	t.Run("a store that fails", func(t *testing.T) {
		kept.OnPut = func(audit.Line) error { return errors.New("no room") }
		err := service.Record(ctx, audit.Line{Action: audit.ActionStop, Subject: "server:git"})
		if log := f.Log.String(); err == nil || !strings.Contains(log, "a deed is not in the audit") || !strings.Contains(log, "server:git") || !strings.Contains(log, "no room") {
			t.Errorf("Record = %v; the log:\n%s", err, log)
		}
	})
	t.Run("without a store for events", func(t *testing.T) {
		f.Decide.Events = nil
		if err := decide.New(f.States, f.Approvals, f.Decide).Record(ctx, audit.Line{Action: audit.ActionStop}); err != nil {
			t.Error(err)
		}
	})
}
