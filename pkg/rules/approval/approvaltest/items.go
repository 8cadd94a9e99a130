package approvaltest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// alike returns items of one server, sorted by id, with equal or similar names.
func alike() []tool.ID {
	long := "file:///" + strings.Repeat("a", tool.MaxURI-9)
	ids := []tool.ID{
		{Server: "s", Name: "x"}, {Server: "s", Name: "prompt"}, {Server: "s", Name: "resource"}, {Server: "s", Name: "zz"},
		{Server: "s", Name: "x", Kind: tool.Prompt}, {Server: "s", Name: "y", Kind: tool.Prompt},
		{Server: "s", Name: "x", Kind: tool.Resource}, {Server: "s", Name: "file:///{+path}", Kind: tool.Resource},
		{Server: "s", Name: long + "b", Kind: tool.Resource}, {Server: "s", Name: long + "c", Kind: tool.Resource},
	}
	slices.SortFunc(ids, tool.ID.Compare)
	return ids
}

func items(t *testing.T, s approval.Store) {
	var want []approval.Record
	for _, id := range alike() {
		r := record(id)
		r.Note, r.Proposed = id.Key(), nil // a record with a proposal gets format 4
		want = append(want, put(t, s, r, entry(r, "observe")))
	}
	put(t, s, record(tool.ID{Server: "s2", Name: "x", Kind: tool.Prompt}), nil)
	for _, r := range want {
		same(t, "Get", get(t, s, r.ID()), r)
		if form := r.Format; (form == 3) != (r.Kind != tool.Tool) {
			t.Errorf("the record of %.40s has format %d", r.ID(), form)
		}
	}
	same(t, "Records", records(t, s, "s"), want)
	for _, id := range []tool.ID{
		{Server: "s", Name: "zz", Kind: tool.Prompt}, {Server: "s", Name: "y"}, {Server: "s", Name: "y", Kind: tool.Resource}, {Server: "s2", Name: "x"},
	} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("Get(%q) = %v, want ErrNotFound", id, err)
		}
	}
	again := want[len(want)-1]
	again.Note = "again"
	same(t, "the next revision", put(t, s, again, nil).Rev, again.Rev+1)
	for _, bad := range []tool.ID{
		{Server: "s", Name: "x", Kind: "skill"}, {Server: "s", Name: strings.Repeat("u", tool.MaxURI+1), Kind: tool.Resource},
		{Server: "s", Name: "a:" + strings.Repeat("&", tool.MaxURI/2), Kind: tool.Resource}, // takes too many bytes in JSON
		{Server: "s", Name: strings.Repeat("n", approval.MaxName+1), Kind: tool.Prompt},
	} {
		if _, err := s.Put(t.Context(), record(bad), nil); err == nil {
			t.Errorf("a record of %.40q was stored", bad)
		}
	}
	r := record(tool.ID{Server: "s", Name: "new"})
	e := entry(r, "observe")
	if e.Kind = tool.Prompt; e.ID() == r.ID() {
		t.Fatal("the audit line has the id of the tool, want the id of the prompt")
	}
	if _, err := s.Put(t.Context(), r, e); err == nil {
		t.Error("a tool's record was stored with the audit line of a prompt")
	}
}

func itemLines(t *testing.T, s approval.Store) {
	want := map[tool.ID]bool{}
	for _, id := range alike() {
		r := put(t, s, record(id), entry(record(id), "observe"))
		put(t, s, r, entry(r, "approve"))
		want[id] = true
	}
	got := map[tool.ID]int{}
	var at approval.Cursor
	for {
		lines, err := s.Audit(t.Context(), "s", at, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range lines {
			got[e.ID()]++
			if at.Before(e.Cursor()) == (at == e.Cursor()) {
				t.Errorf("the line of %.40s comes at %v, after %v", e.ID(), e.Cursor(), at)
			}
			at = e.Cursor()
		}
		if len(lines) < 3 {
			break
		}
	}
	for id := range want {
		if got[id] != 2 {
			t.Errorf("the audit has %d lines of %.40s, want 2", got[id], id)
		}
	}
	same(t, "items with lines", len(got), len(want))
}

func itemFeed(t *testing.T, s approval.Store) {
	var want []approval.Decision
	for i, id := range alike() {
		r := record(id)
		r.DecidedAt = start.Add(time.Duration(i) * time.Second)
		if i%2 == 0 { // without blocks or an endorsement
			r.Blocked, r.Endorsed, r.ApprovedBefore = nil, approval.Remembered{}, nil
		}
		want = append(want, put(t, s, r, nil).Decision())
	}
	put(t, s, undecided(tool.ID{Server: "s", Name: "new", Kind: tool.Prompt}), nil)
	same(t, "Changes", changes(t, s, time.Time{}), want)
	same(t, "Changes since the fourth", changes(t, s, want[3].DecidedAt), want[3:])
	var f approval.Feed
	f.Rebase(start.Add(-time.Hour), start, func(tool.ID) (int64, bool) { return 0, true })
	f.Read(t.Context(), s, start.Add(time.Hour))
	for _, d := range want {
		same(t, "the feed's record", f.Decisions.Record(d.ID, nil).Decision(), d)
	}
	if r := f.Decisions.Record(tool.ID{Server: "s", Name: "y"}, nil); r != nil {
		t.Errorf("the feed returns a prompt for the tool of the same name: %+v", r)
	}
}
