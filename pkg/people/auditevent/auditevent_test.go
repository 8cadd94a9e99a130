package auditevent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A sink keeps lines in memory.
type sink struct {
	lines []audit.Line
	err   error
}

func (s *sink) Write(_ context.Context, l audit.Line) error {
	s.lines = append(s.lines, l)
	return s.err
}

func TestAudited(t *testing.T) {
	out, log := &sink{}, &local.Buffer{}
	store := auditevent.Audited(&approvaltest.Mem{Now: func() time.Time { return audittest.Start }}, audit.NewLog(out), slog.New(slog.NewTextHandler(log, nil)))
	r := approval.Record{Server: "git", Tool: "git_push", State: approval.Pending, CurrentHash: "h1"}
	put := func(action string) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := &approval.Entry{Server: "git", Tool: "git_push", Actor: "kim", Action: action, Hash: "h1", From: "h0", Note: "read it", Source: "192.0.2.7", At: audittest.Start}
		next, err := store.Put(ctx, r, e)
		if err == nil {
			r = next
		}
		return err
	}
	require.OK(t, put(approval.ActionObserve))
	require.OK(t, put(approval.ActionBaseline))
	require.OK(t, put(approval.ActionApprove))
	stale := r
	r.Rev--
	if err := put(approval.ActionDisable); !errors.Is(err, approval.ErrConflict) {
		t.Errorf("Put = %v, want ErrConflict", err)
	}
	r = stale
	var actions []string
	for _, l := range out.lines {
		actions = append(actions, l.Action)
	}
	if d := cmp.Diff([]string{"baseline", "approve"}, actions); d != "" {
		t.Fatalf("lines (-want +got):\n%s", d)
	}
	want := audit.Line{V: 1, Time: r.UpdatedAt, Kind: audit.KindEvent, Actor: "kim", Action: "approve", Tool: "git:git_push", Hash: "h1", From: "h0", Note: "read it", Source: "192.0.2.7"}
	if d := cmp.Diff(want, out.lines[1]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	out.err = errors.New("no room")
	if err := put(approval.ActionDisable); err != nil || !strings.Contains(log.String(), "no room") || !strings.Contains(log.String(), "git:git_push") {
		t.Errorf("Put = %v, want no error and a logged failure; log: %s", err, log)
	}
}

// Only one process records a version, and a version that returns later is recorded again.
func TestFiles(t *testing.T) {
	kept, out, log := new(audittest.Mem), &sink{}, &local.Buffer{}
	now := audittest.Start
	var told []string
	start := func() *auditevent.Files {
		return &auditevent.Files{
			Events: kept, Audit: audit.NewLog(out), Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(log, nil)),
			Refused: func(_ context.Context, r auditevent.Refused) {
				told = append(told, fmt.Sprintf("%s %s %d %t", r.Key, r.Hash, r.Faults, r.Stays))
			},
		}
	}
	_, err := config.Parse([]byte(`{"mcpServers": {"a": {"url": "https://u:swordfish@a.example.com/mcp", "x": 1}, "b c": {}}}`))
	faults, ok := errors.AsType[config.Faults](err)
	if !ok || len(faults) < 2 {
		t.Fatalf("faults = %v", err)
	}
	_, syntax := policy.Parse([]byte("forbid ("))
	good, refused := state.Part{Version: "v1", InUse: true}, state.Part{Version: "v1", InUse: true, Stored: "v2", Stale: true, Err: err}
	one, two := start(), start()
	see := func(f *auditevent.Files, config, policy state.Part) {
		now = now.Add(time.Minute)
		f.See(t.Context(), state.Health{Config: config, Policy: policy})
	}
	see(one, good, state.Part{})
	see(two, good, state.Part{})
	see(two, refused, state.Part{Stored: "p1", Stale: true, Err: syntax})
	see(one, refused, state.Part{Stored: "p1", Stale: true, Err: syntax})
	see(start(), refused, state.Part{})
	see(one, state.Part{Version: "v1", InUse: true, Stale: true, Err: errors.New("cannot be read")}, state.Part{})
	see(two, state.Part{Version: "v1", InUse: true, Stale: true, Err: fmt.Errorf("x: %w", object.ErrGone)}, state.Part{Version: "p2", InUse: true})
	see(one, good, state.Part{Version: "p2", InUse: true})
	var got []string
	for _, l := range kept.Lines() {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", l.Actor, l.Action, l.Subject, l.Hash, l.Note))
	}
	want := []string{
		"config config_taken file:config/mcp_config.json v1 ",
		fmt.Sprintf("config config_refused file:config/mcp_config.json v2 %d faults; an earlier version stays in use", len(faults)),
		"config policy_refused file:config/policy.cedar p1 1 fault; none is in use",
		"config config_refused file:config/mcp_config.json  the file is gone; an earlier version stays in use",
		"config policy_taken file:config/policy.cedar p2 ",
		"config config_taken file:config/mcp_config.json v1 ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(out.lines) != len(want) {
		t.Errorf("%d lines were written, want %d", len(out.lines), len(want))
	}
	refusals := []string{
		fmt.Sprintf("config/mcp_config.json v2 %d true", len(faults)), "config/policy.cedar p1 1 false", "config/mcp_config.json  1 true",
	}
	if d := cmp.Diff(refusals, told); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
	kept.OnPut = func(audit.Line) error { return errors.New("no room") }
	see(one, refused, state.Part{})
	kept.OnPut = nil
	see(one, refused, state.Part{})
	if lines := kept.Lines(); len(lines) != len(want)+1 || !strings.Contains(log.String(), "no room") {
		t.Errorf("the failed record is written %d times later, want once; log: %s", len(lines)-len(want), log)
	}
}

// After many writes in one call, each stored write has its line. A store without batches returns
// ErrUnsupported.
func TestAuditedTogether(t *testing.T) {
	out := &sink{}
	kept, err := bolt.Open(filepath.Join(t.TempDir(), "approvals.db"), nil)
	require.OK(t, err)
	t.Cleanup(func() { require.OK(t, kept.Close()) })
	var all []approval.Write
	for i, action := range []string{approval.ActionBaseline, approval.ActionObserve, approval.ActionBaseline} {
		r := approval.Record{Server: "git", Tool: string(rune('a' + i)), State: approval.Pending}
		if i == 2 {
			r.Rev = 7 // this revision does not exist
		}
		all = append(all, approval.Write{Record: r, Entry: &approval.Entry{Server: "git", Tool: r.Tool, Actor: approval.Sync, Action: action}})
	}
	together := func(s approval.Store) ([]approval.Written, error) {
		return s.(approval.Batcher).PutAll(t.Context(), all)
	}
	written, err := together(auditevent.Audited(kept, audit.NewLog(out), slog.New(slog.DiscardHandler)))
	require.OK(t, err)
	if written[0].Err != nil || written[1].Err != nil || !errors.Is(written[2].Err, approval.ErrConflict) {
		t.Errorf("PutAll = %+v, want two stored and a conflict", written)
	}
	if len(out.lines) != 1 || out.lines[0].Tool != "git:a" || out.lines[0].Time.IsZero() {
		t.Errorf("lines = %+v, want one for git:a", out.lines)
	}
	if _, err := together(auditevent.Audited(new(approvaltest.Mem), audit.NewLog(out), slog.New(slog.DiscardHandler))); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("PutAll of a store without batches = %v, want ErrUnsupported", err)
	}
}
