package approvaltest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func revCounts(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "counted"})
	for want := int64(1); want <= 3; want++ {
		r = put(t, s, r, nil)
		if r.Rev != want || get(t, s, r.ID()).Rev != want {
			t.Errorf("rev is %d, stored %d, want %d", r.Rev, get(t, s, r.ID()).Rev, want)
		}
	}
}

func revBeyond(t *testing.T, s approval.Store) {
	first := record(tool.ID{Server: "github", Name: "lost"})
	first.LostRev = 9
	for _, e := range []*approval.Entry{nil, entry(first, "recover")} {
		first.Tool += "-again"
		if e != nil {
			e.Tool = first.Tool
		}
		r := put(t, s, first, e)
		if r.Rev != 10 || r.LostRev != 0 || get(t, s, r.ID()).Rev != 10 {
			t.Errorf("rev after the lost rev 9 is %d, stored %d, want 10",
				r.Rev, get(t, s, r.ID()).Rev)
		}
		if r = put(t, s, r, nil); r.Rev != 11 {
			t.Errorf("the next rev is %d, want 11", r.Rev)
		}
		r.LostRev = 20
		old := r
		if r = put(t, s, r, nil); r.Rev != 21 {
			t.Errorf("rev of a record that was set back is %d, want 21", r.Rev)
		}
		conflicts(t, s, old, r)
	}
}

// conflicts checks that writing r is a conflict that leaves want in the store.
func conflicts(t *testing.T, s approval.Store, r, want approval.Record) {
	t.Helper()
	r.Note = "this must not be stored"
	for _, e := range []*approval.Entry{nil, entry(r, "lost")} {
		if _, err := s.Put(t.Context(), r, e); !errors.Is(err, approval.ErrConflict) {
			t.Errorf("Put at rev %d over rev %d = %v, want ErrConflict", r.Rev, want.Rev, err)
		}
	}
	same(t, "the record that came first", get(t, s, want.ID()), want)
	lines, err := s.Audit(t.Context(), r.Server, approval.Cursor{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range lines {
		if e.Action == "lost" {
			t.Error("the losing write left an audit line")
		}
	}
}

func staleRev(t *testing.T, s approval.Store) {
	first := put(t, s, record(tool.ID{Server: "github", Name: "stale"}), nil)
	second := put(t, s, first, nil)
	conflicts(t, s, first, second)
}

func secondFirst(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "twice"})
	conflicts(t, s, r, put(t, s, r, nil))
}

func revOfNothing(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "never"})
	r.Rev = 3
	for _, e := range []*approval.Entry{nil, entry(r, "lost")} {
		if _, err := s.Put(t.Context(), r, e); !errors.Is(err, approval.ErrConflict) {
			t.Errorf("Put at rev 3 without a record = %v, want ErrConflict", err)
		}
	}
	if _, err := s.Get(t.Context(), r.ID()); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

func racingFirst(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "raced"})
	winner(t, s, r, race(8, func(i int) error {
		mine := r
		mine.Note = fmt.Sprint(i)
		_, err := s.Put(t.Context(), mine, nil)
		return err
	}))
}

// winner checks that one of the writers won, the others got a conflict, and the store holds the
// record of the winner. It returns that record.
func winner(t *testing.T, s approval.Store, r approval.Record, errs []error) approval.Record {
	t.Helper()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("writers %d and %d both won rev %d", won, i, r.Rev+1)
		case !errors.Is(err, approval.ErrConflict):
			t.Errorf("writer %d: %v, want ErrConflict", i, err)
		}
	}
	held, err := s.Get(t.Context(), r.ID())
	if won < 0 { // each may have failed because of another, but then nothing was stored
		if r.Rev == 0 && !errors.Is(err, approval.ErrNotFound) || r.Rev > 0 && held.Rev != r.Rev {
			t.Errorf("nobody won, but rev is %d (%v)", held.Rev, err)
		}
		return r
	}
	if err != nil || held.Rev != r.Rev+1 || held.Note != fmt.Sprint(won) {
		t.Errorf("writer %d won rev %d, but the store holds rev %d of writer %s (%v)", won, r.Rev+1, held.Rev, held.Note, err)
	}
	return held
}

func racing(t *testing.T, s approval.Store) {
	r := put(t, s, record(tool.ID{Server: "github", Name: "raced"}), nil)
	for range 5 {
		r = winner(t, s, r, race(6, func(i int) error {
			mine := r
			mine.Note = fmt.Sprint(i)
			var e *approval.Entry
			if i%2 == 0 { // with and without a transaction
				e = entry(mine, "race")
			}
			_, err := s.Put(t.Context(), mine, e)
			return err
		}))
	}
	if r.Rev < 2 {
		t.Error("no writer ever won")
	}
}

func updatedAtGrows(t *testing.T, s approval.Store) {
	a := put(t, s, record(tool.ID{Server: "github", Name: "a"}), nil)
	if a.UpdatedAt.IsZero() || a.UpdatedAt.Location() != time.UTC {
		t.Errorf("UpdatedAt is %v, want a time in UTC", a.UpdatedAt)
	}
	for range 20 {
		next := put(t, s, a, nil)
		if !next.UpdatedAt.After(a.UpdatedAt) {
			t.Fatalf("UpdatedAt %v is not after %v", next.UpdatedAt, a.UpdatedAt)
		}
		if d := get(t, s, a.ID()).UpdatedAt; !d.Equal(next.UpdatedAt) {
			t.Fatalf("Put returned UpdatedAt %v, Get %v", next.UpdatedAt, d)
		}
		a = next
	}
}

func auditOrder(t *testing.T, s approval.Store) {
	var want []approval.Entry
	for i := range 6 {
		r := record(tool.ID{Server: "github", Name: fmt.Sprintf("tool%d", 9-i)})
		e := entry(r, "approve")
		e.Note = fmt.Sprint(i)
		e.At = start.Add(-time.Duration(i) * time.Hour) // the caller's time must not matter
		r = put(t, s, r, e)
		e.Rev, e.Written = r.Rev, r.UpdatedAt
		want = append([]approval.Entry{*e}, want...)
		other := record(tool.ID{Server: "git", Name: "other" + fmt.Sprint(i)})
		put(t, s, other, entry(other, "observe"))
	}
	for _, limit := range []int{1, 2, 5, 6, 100, 5000} {
		got, err := s.Audit(t.Context(), "github", approval.Cursor{}, limit)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("Audit(%d)", limit), got, want[:min(limit, len(want))])
	}
	for _, limit := range []int{0, -1} {
		if got, err := s.Audit(t.Context(), "github", approval.Cursor{}, limit); err != nil || len(got) != 0 {
			t.Errorf("Audit(%d) = %v, %v, want nothing", limit, got, err)
		}
	}
}

// auditPages reads the audit page by page, and from positions between lines.
func auditPages(t *testing.T, s approval.Store) {
	var want []approval.Entry
	for i := range 7 {
		r := record(tool.ID{Server: "github", Name: fmt.Sprintf("tool%d", i%3)})
		if i >= 3 {
			var err error
			if r, err = s.Get(t.Context(), r.ID()); err != nil {
				t.Fatal(err)
			}
		}
		e := entry(r, "disable")
		r = put(t, s, r, e)
		e.Rev, e.Written = r.Rev, r.UpdatedAt
		want = append([]approval.Entry{*e}, want...)
		other := record(tool.ID{Server: "git", Name: fmt.Sprintf("other%d", i)})
		put(t, s, other, entry(other, "observe"))
	}
	audit := func(after approval.Cursor, limit int) []approval.Entry {
		lines, err := s.Audit(t.Context(), "github", after, limit)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for _, limit := range []int{1, 2, 3, 7} {
		var got []approval.Entry
		after := approval.Cursor{}
		for range 8 {
			page := audit(after, limit)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1].Cursor()
		}
		same(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
	newest, oldest, third := want[0].Cursor(), want[6].Cursor(), want[2].Cursor()
	for name, tt := range map[string]struct {
		after approval.Cursor
		want  []approval.Entry
	}{
		"before the first line":       {approval.Cursor{Written: newest.Written.Add(time.Hour)}, want},
		"just before the first line":  {approval.Cursor{Written: newest.Written.Add(1)}, want},
		"after the last line":         {oldest, []approval.Entry{}},
		"long after the last line":    {approval.Cursor{Written: oldest.Written.Add(-time.Hour), Tool: "z"}, []approval.Entry{}},
		"at equal time, a later tool": {approval.Cursor{Written: third.Written, Tool: third.Tool + "0"}, want[2:]},
		"at equal time, no tool":      {approval.Cursor{Written: third.Written}, want[3:]},
	} {
		same(t, name, append([]approval.Entry{}, audit(tt.after, 100)...), tt.want)
	}
}

func auditWhole(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "audited"})
	var want []approval.Entry
	for i, action := range []string{"observe", "approve", "disable"} {
		e := entry(r, action)
		r = put(t, s, r, e)
		if e.Rev != 0 {
			t.Errorf("Put wrote rev %d into the caller's line", e.Rev)
		}
		line := *e
		line.Rev, line.Written = int64(i+1), r.UpdatedAt
		want = append([]approval.Entry{line}, want...)
	}
	got, err := s.Audit(t.Context(), "github", approval.Cursor{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Audit", got, want)
}

// auditAtomic lets writers with audit lines race. It checks that each rev has exactly one line,
// the line of the writer that won.
func auditAtomic(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "atomic"})
	for range 4 {
		winners := race(4, func(i int) error {
			mine := r
			mine.Note = fmt.Sprint(i)
			e := entry(mine, "race")
			e.Note = mine.Note
			_, err := s.Put(t.Context(), mine, e)
			return err
		})
		next := winner(t, s, r, winners)
		lines, err := s.Audit(t.Context(), "github", approval.Cursor{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(lines)) != next.Rev {
			t.Fatalf("rev %d has %d audit lines: %+v", next.Rev, len(lines), lines)
		}
		if next.Rev > r.Rev && (lines[0].Rev != next.Rev || lines[0].Note != next.Note) {
			t.Errorf("the newest line is of rev %d by writer %s; rev %d is of writer %s", lines[0].Rev, lines[0].Note, next.Rev, next.Note)
		}
		r = next
	}
	if r.Rev == 0 {
		t.Error("no writer ever won")
	}
}
