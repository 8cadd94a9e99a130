package approvaltest

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// writeAll checks the promises of an [approval.Batcher]. It skips a store that is no Batcher.
func writeAll(t *testing.T, s approval.Store) {
	b, ok := s.(approval.Batcher)
	if !ok {
		return
	}
	of := func(name string) approval.Record { return record(tool.ID{Server: "git", Name: name}) }
	stored := put(t, s, of("stored"), nil)
	fresh, later, stale, bad := of("fresh"), stored, of("stored"), of("bad")
	later.Note = "said later"
	bad.Note = "\xff"
	_ = put(t, s, of("other"), nil)
	other := of("other") // still at rev 0, but the stored record is at rev 1
	var all []approval.Write
	for _, r := range []approval.Record{fresh, other, bad, later} {
		all = append(all, approval.Write{Record: r, Entry: entry(r, "observe")})
	}
	_, mark, err := s.RecordsIfChanged(t.Context(), "git", "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.PutAll(t.Context(), all)
	if err != nil || len(out) != len(all) {
		t.Fatalf("PutAll = %d outcomes, %v, want %d", len(out), err, len(all))
	}
	for i, want := range []struct {
		ok, conflict bool
	}{{ok: true}, {conflict: true}, {}, {ok: true}} {
		if got := out[i].Err; (got == nil) != want.ok || errors.Is(got, approval.ErrConflict) != want.conflict {
			t.Errorf("write %d ended with %v, want stored %t, a conflict %t", i, got, want.ok, want.conflict)
		}
	}
	if all, _, err := s.RecordsIfChanged(t.Context(), "git", mark); err != nil || len(all) != 3 {
		t.Errorf("RecordsIfChanged after PutAll = %d records, %v, want all three", len(all), err)
	}
	same(t, "the new record", get(t, s, fresh.ID()), out[0].Record)
	same(t, "the record that was stored before", get(t, s, later.ID()), out[3].Record)
	if r := get(t, s, later.ID()); r.Rev != stored.Rev+1 || r.Note != later.Note {
		t.Errorf("the later record is at rev %d with note %q, want %d and %q",
			r.Rev, r.Note, stored.Rev+1, later.Note)
	}
	if _, err := s.Get(t.Context(), bad.ID()); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Get of the refused record = %v, want ErrNotFound", err)
	}
	lines, err := s.Audit(t.Context(), "git", approval.Cursor{}, 10)
	if err != nil || len(lines) != 2 {
		t.Errorf("the audit has %d lines, %v, want the lines of the two stored records",
			len(lines), err)
	}
	again, err := b.PutAll(t.Context(), []approval.Write{{Record: stale}})
	if err != nil || len(again) != 1 || !errors.Is(again[0].Err, approval.ErrConflict) {
		t.Errorf("PutAll of an old rev alone = %+v, %v, want a conflict", again, err)
	}
}
