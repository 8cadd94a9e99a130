package approvaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Run checks each promise of [approval.Store] in a subtest. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) approval.Store) {
	for _, promise := range []struct {
		name string
		held func(*testing.T, approval.Store)
	}{
		{"a tool without a record is not found", missing},
		{"a record comes back as it was put", roundTrip},
		{"a peek finds a record in the end", peek},
		{"definitions come back byte for byte", byteExact},
		{"two definitions of the greatest length fit", bigDefinitions},
		{"invalid records are refused", refused},
		{"odd names are kept apart", oddNames},
		{"rev counts writes", revCounts},
		{"rev continues after a lost rev", revBeyond},
		{"a write of an old rev is a conflict and stores nothing", staleRev},
		{"a first write of a record that exists is a conflict", secondFirst},
		{"a write of a record that does not exist is a conflict", revOfNothing},
		{"racing first writers have one winner", racingFirst},
		{"racing writers have one winner for each rev", racing},
		{"updated at grows with each write", updatedAtGrows},
		{"records are those of one server, whole, by tool", recordsOfServer},
		{"1,200 records come in one answer", recordsMany},
		{"records that nobody has written to are not read again", recordsUnless},
		{"changes since zero are all decisions", changesAll},
		{"changes say what is blocked and endorsed", changesOfVerdicts},
		{"changes are since a time, inclusive, oldest first", changesSince},
		{"changes have each tool once, with its current decision", changesOnce},
		{"changes have no tool without a decision", changesUndecided},
		{"a write without a decision does not move the decision", changesInPlace},
		{"4,000 decisions of one moment come in one answer", changesMany},
		{"a feed follows decisions, also one that is shown late", feedFollows},
		{"members of a newer program are kept", keepsUnknown},
		{"audit is newest first, at most limit, by server", auditOrder},
		{"audit continues after a cursor", auditPages},
		{"audit has the whole line, with its rev", auditWhole},
		{"audit is written with the record or not at all", auditAtomic},
		{"prompts and resources have records of their own", items},
		{"prompts and resources have audit lines of their own", itemLines},
		{"a feed distinguishes prompts and resources from tools", itemFeed},
		{"an ended context stores nothing", endedContext},
		{"each write of one call has its own result", writeAll},
		{"a record comes with documents", withDocuments},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.held(t, open(t)) })
	}
}

// RunLost checks that a store does not report a conflict if the answer to its own write was lost.
// open returns an empty store and loseNext. After a call of loseNext, the next write is kept but
// its answer is lost.
func RunLost(t *testing.T, open func(t *testing.T) (s approval.Store, loseNext func())) {
	for name, audited := range map[string]bool{"with an audit line": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s, loseNext := open(t)
			id := tool.ID{Server: "github", Name: "create_issue"}
			want := record(id)
			for range 2 { // a first write, then a later one
				var e *approval.Entry
				if audited {
					e = entry(want, "observe")
				}
				loseNext()
				got, err := s.Put(t.Context(), want, e)
				if err != nil {
					t.Fatalf("Put whose answer was lost: %v", err)
				}
				want.Rev++
				want.Format, want.UpdatedAt = 4, got.UpdatedAt
				same(t, "Put", got, want)
				same(t, "Get", get(t, s, id), want)
			}
			lines, err := s.Audit(t.Context(), id.Server, approval.Cursor{}, 10)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(lines); audited && n != 2 || !audited && n != 0 {
				t.Errorf("audit has %d lines after two writes: %+v", n, lines)
			}
			loseNext()
			stale := want
			stale.Rev--
			if _, err := s.Put(t.Context(), stale, nil); !errors.Is(err, approval.ErrConflict) {
				t.Errorf("Put of an old rev, its answer lost: %v, want ErrConflict", err)
			}
		})
	}
}

// start is the earliest time of the tests.
var start = time.Date(2026, 3, 14, 15, 9, 26, 535897932, time.UTC)

// record returns a record that is not stored yet, with every field set.
func record(id tool.ID) approval.Record {
	return approval.Record{
		Server: id.Server, Tool: id.Name, Kind: id.Kind, URL: "https://mcp.example.com/mcp",
		State: approval.Changed, Disabled: true,
		ApprovedHash: "aa11", CurrentHash: "bb22",
		Approved: json.RawMessage(`{"name":"a"}`), Current: json.RawMessage(`{"name":"a","description":"b"}`),
		By: "ada", At: start, Note: "until the audit is over",
		FirstSeen: start.Add(-time.Hour), ChangedAt: start.Add(-time.Minute), DecidedAt: start,
		ApprovedBefore: []approval.Remembered{{Hash: "aa11", By: "ada", At: start}},
		Loss: &approval.Loss{
			At: start, Catalog: approval.Version{Disabled: true, ApprovedHash: "aa11", By: "ada", At: start, Note: "then", Rev: 7},
			Store: &approval.Version{ApprovedHash: "bb22", By: "bob", At: start, Rev: 2},
		},
		Tell:     true,
		Blocked:  []approval.Remembered{{Hash: "cc33", By: "ada", At: start, Note: "it asks for <keys> & more"}},
		Endorsed: approval.Remembered{Hash: "aa11", By: "ada", At: start, Two: true},
		Proposed: &approval.Proposal{Hash: "bb22", By: "bob", Subject: "auth0|<b&b>", At: start, Note: "the \"first\" of two"},
		Release:  approval.Release{URL: "cmd:1", Family: "f0", Version: "@acme/x@1.2.4"},
		Prior:    &approval.PriorApproval{Hash: "aa11", Version: "@acme/x@1.2.3", URL: "cmd:1", At: start},
		Undo: &approval.Undo{
			Rev: 3, Disabled: true, ApprovedHash: "dd44", By: "bob", At: start.Add(-time.Minute), Note: "for now", Tell: true,
			Blocked:        []approval.Remembered{{Hash: "ee55", By: "bob", At: start, Note: "no"}},
			Endorsed:       approval.Remembered{Hash: "dd44", By: "bob", At: start},
			ApprovedBefore: []approval.Remembered{{Hash: "dd44", By: "bob", At: start}},
			Loss:           &approval.Loss{At: start, Catalog: approval.Version{ApprovedHash: "aa11", By: "ada", At: start, Rev: 2}},
			Proposed:       &approval.Proposal{Hash: "aa11", By: "cy", Subject: "7", At: start},
			Approved:       json.RawMessage(`{"name":"d"}`),
		},
	}
}

func entry(r approval.Record, action string) *approval.Entry {
	return &approval.Entry{
		Server: r.Server, Tool: r.Tool, Kind: r.Kind, Actor: "ada", Action: action,
		Hash: r.CurrentHash, Note: "seen in review", Shown: "hash", At: start,
	}
}

func put(t *testing.T, s approval.Store, r approval.Record, e *approval.Entry) approval.Record {
	t.Helper()
	r, err := s.Put(t.Context(), r, e)
	if err != nil {
		t.Fatalf("Put(%q): %v", r.ID(), err)
	}
	return r
}

func get(t *testing.T, s approval.Store, id tool.ID) approval.Record {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get(%q): %v", id, err)
	}
	return r
}

func changes(t *testing.T, s approval.Store, since time.Time) []approval.Decision {
	t.Helper()
	rs, err := AllChanges(t.Context(), s, since)
	if err != nil {
		t.Fatalf("Changes(%v): %v", since, err)
	}
	return rs
}

func records(t *testing.T, s approval.Store, server string) []approval.Record {
	t.Helper()
	rs, err := s.Records(t.Context(), server)
	if err != nil {
		t.Fatalf("Records(%q): %v", server, err)
	}
	return rs
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func missing(t *testing.T, s approval.Store) {
	if _, err := s.Get(t.Context(), tool.ID{Server: "github", Name: "none"}); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
	if rs := changes(t, s, time.Time{}); len(rs) != 0 {
		t.Errorf("an empty store has changes: %v", rs)
	}
	if rs := records(t, s, "github"); len(rs) != 0 {
		t.Errorf("an empty store has records: %v", rs)
	}
	if lines, err := s.Audit(t.Context(), "github", approval.Cursor{}, 10); err != nil || len(lines) != 0 {
		t.Errorf("an empty store has audit %v, %v", lines, err)
	}
}

func roundTrip(t *testing.T, s approval.Store) {
	full := record(tool.ID{Server: "github", Name: "full"})
	bare := approval.Record{Server: "github", Tool: "bare", State: approval.Pending}
	for _, want := range []approval.Record{full, bare} {
		got := put(t, s, want, nil)
		if want.Format = 1; want.Proposed != nil {
			want.Format = 4 // an earlier program would misread it
		}
		want.Rev, want.UpdatedAt = 1, got.UpdatedAt
		same(t, "Put", got, want)
		same(t, "Get", get(t, s, want.ID()), want)
	}
}

func byteExact(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "exact"})
	r.Approved = json.RawMessage("{ \"z\" : 9007199254740993,\n\t\"a\":\"<&>\u2028\\u00e9\\/\",\"n\":1.0e+2 }")
	r.Current = json.RawMessage("\n" + string(r.Approved) + "  ")
	r.Undo.Approved = json.RawMessage(" " + string(r.Approved))
	put(t, s, r, nil)
	got := get(t, s, r.ID())
	same(t, "approved before", string(got.Undo.Approved), string(r.Undo.Approved))
	same(t, "approved", string(got.Approved), string(r.Approved))
	same(t, "current", string(got.Current), string(r.Current))
	same(t, "Records", records(t, s, "github"), []approval.Record{got})
}

func bigDefinitions(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: strings.Repeat("s", approval.MaxName), Name: strings.Repeat("t", approval.MaxName)})
	r.Approved = json.RawMessage(`"` + strings.Repeat("é", tool.MaxDefinition/2-1) + `"`)
	r.Current = json.RawMessage(`"` + strings.Repeat("\x01", tool.MaxDefinition-2) + `"`) // not JSON: a store does not look inside
	r.Note = strings.Repeat("\x01", approval.MaxNote)
	r.By = strings.Repeat("b", approval.MaxActor)
	want := put(t, s, r, entry(r, "observe"))
	same(t, "Get", get(t, s, r.ID()), want)
}

func refused(t *testing.T, s approval.Store) {
	good := tool.ID{Server: "github", Name: "good"}
	for name, change := range map[string]func(*approval.Record, *approval.Entry){
		"no server":           func(r *approval.Record, e *approval.Entry) { r.Server, e.Server = "", "" },
		"no tool":             func(r *approval.Record, e *approval.Entry) { r.Tool, e.Tool = "", "" },
		"colon in the server": func(r *approval.Record, e *approval.Entry) { r.Server, e.Server = "a:b", "a:b" },
		"name not UTF-8":      func(r *approval.Record, e *approval.Entry) { r.Tool, e.Tool = "\xff", "\xff" },
		"definition too long": func(r *approval.Record, _ *approval.Entry) { r.Current = make([]byte, tool.MaxDefinition+1) },
		"note too long":       func(r *approval.Record, _ *approval.Entry) { r.Note = strings.Repeat("n", approval.MaxNote+1) },
		"verdict's note too long": func(r *approval.Record, _ *approval.Entry) {
			r.Blocked = []approval.Remembered{{Hash: "cc33", Note: strings.Repeat("n", 1000)}}
		},
		"nobody proposes": func(r *approval.Record, _ *approval.Entry) { r.Proposed = &approval.Proposal{Hash: "aa11", By: "ada"} },
		"a long subject":  func(r *approval.Record, _ *approval.Entry) { r.Undo.Proposed.Subject = strings.Repeat("s", 257) },
		"too many blocks": func(r *approval.Record, _ *approval.Entry) { r.Blocked = make([]approval.Remembered, 51) },
		"undo of a definition too long": func(r *approval.Record, _ *approval.Entry) {
			r.Undo.Approved = make([]byte, tool.MaxDefinition+1)
		},
		"undo that makes the record too long": func(r *approval.Record, _ *approval.Entry) {
			r.Approved, r.Current = make([]byte, tool.MaxDefinition), make([]byte, tool.MaxDefinition)
			r.Undo.Approved, r.Note = make([]byte, tool.MaxDefinition), strings.Repeat("n", approval.MaxNote)
			r.Undo.Note, r.URL = r.Note, strings.Repeat("u", 8<<10)
		},
		"audit without actor": func(_ *approval.Record, e *approval.Entry) { e.Actor = "" },
		"audit of another":    func(_ *approval.Record, e *approval.Entry) { e.Tool = "other" },
	} {
		r := record(good)
		e := entry(r, "observe")
		change(&r, e)
		if _, err := s.Put(t.Context(), r, e); err == nil || errors.Is(err, approval.ErrConflict) {
			t.Errorf("%s: Put = %v, want an error other than a conflict", name, err)
		}
	}
	if rs, ds := records(t, s, good.Server), changes(t, s, time.Time{}); len(rs)+len(ds) != 0 {
		t.Errorf("refused writes left %d records and %d decisions", len(rs), len(ds))
	}
}

func oddNames(t *testing.T, s approval.Store) {
	ids := []tool.ID{
		{Server: "a", Name: "b"}, {Server: "a", Name: "B"}, {Server: "a", Name: "b:c"}, {Server: "a", Name: "a:b"},
		{Server: "a", Name: "BASELINE"}, {Server: "a#b", Name: "c"}, {Server: "a", Name: "#b"}, {Server: "SRV#a", Name: "TOOL#b"},
		{Server: "a/b", Name: "../c"}, {Server: " ", Name: " "}, {Server: "a", Name: "b "}, {Server: "été", Name: "工具"},
		{Server: "a", Name: "b", Kind: tool.Prompt}, {Server: "a", Name: "b", Kind: tool.Resource}, {Server: "a", Name: "TOOL#b", Kind: tool.Prompt},
		{Server: "a#b", Name: "c", Kind: tool.Resource}, {Server: "été", Name: "x:/\x00工具#", Kind: tool.Resource}, {Server: "🏰", Name: "\x00", Kind: tool.Prompt},
		{Server: "e\u0301te\u0301", Name: "工具"}, {Server: "🏰", Name: "\x00"}, {Server: "a", Name: "\x00b"}, {Server: "a%2F", Name: "*?[]\"'\\"},
	}
	for _, id := range ids {
		r := record(id)
		r.Note = fmt.Sprintf("%q", id)
		put(t, s, r, entry(r, "observe"))
	}
	for _, id := range ids {
		if r := get(t, s, id); r.ID() != id || r.Note != fmt.Sprintf("%q", id) {
			t.Errorf("Get(%q) is the record of %q, with the note %s", id, r.ID(), r.Note)
		}
		lines, err := s.Audit(t.Context(), id.Server, approval.Cursor{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range lines {
			found = found || e.ID() == id
			if e.Server != id.Server {
				t.Errorf("Audit(%q) has a line of %q", id.Server, e.Server)
			}
		}
		if !found {
			t.Errorf("Audit(%q) has no line of %q", id.Server, id.Name)
		}
	}
	for _, d := range changes(t, s, time.Time{}) {
		same(t, "Changes", d, get(t, s, d.ID).Decision())
	}
	if n := len(changes(t, s, time.Time{})); n != len(ids) {
		t.Errorf("%d decisions about %d names", n, len(ids))
	}
}

func endedContext(t *testing.T, s approval.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := record(tool.ID{Server: "github", Name: "late"})
	if _, err := s.Put(ctx, r, entry(r, "observe")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if _, err := s.Get(ctx, r.ID()); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want context.Canceled", err)
	}
	if _, _, err := s.GetWith(ctx, r.ID(), document.Key{Part: "STOP", ID: "STOP"}); !errors.Is(err, context.Canceled) {
		t.Errorf("GetWith = %v, want context.Canceled", err)
	}
	if _, err := s.Records(ctx, r.Server); !errors.Is(err, context.Canceled) {
		t.Errorf("Records = %v, want context.Canceled", err)
	}
	if _, _, err := s.Changes(ctx, time.Time{}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Changes = %v, want context.Canceled", err)
	}
	if _, err := s.Audit(ctx, r.Server, approval.Cursor{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Audit = %v, want context.Canceled", err)
	}
	if _, err := s.Get(t.Context(), r.ID()); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("the write of an ended context was stored: %v", err)
	}
}

// race runs n writers at the same time and returns their errors.
func race(n int, write func(i int) error) []error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = write(i)
		})
	}
	close(gate)
	wg.Wait()
	return errs
}
