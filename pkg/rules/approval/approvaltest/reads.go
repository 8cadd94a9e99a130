package approvaltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// undecided returns a record that a sync made.
func undecided(id tool.ID) approval.Record {
	r := record(id)
	r.State, r.Disabled, r.ApprovedHash, r.Approved = approval.Pending, false, "", nil
	r.By, r.Note, r.At, r.DecidedAt = approval.Sync, "", time.Time{}, time.Time{}
	return r
}

func recordsOfServer(t *testing.T, s approval.Store) {
	var want []approval.Record
	for _, name := range []string{"c", "b", "a", "TOOL#a", "BASELINE"} {
		want = append(want, put(t, s, record(tool.ID{Server: "git", Name: name}), nil))
	}
	want = append(want, put(t, s, undecided(tool.ID{Server: "git", Name: "new"}), nil))
	for _, other := range []string{"gi", "git2", "git#", "Git", "g"} {
		put(t, s, record(tool.ID{Server: other, Name: "a"}), nil)
	}
	slices.SortFunc(want, func(a, b approval.Record) int { return bytes.Compare([]byte(a.Tool), []byte(b.Tool)) })
	same(t, "Records", records(t, s, "git"), want)
}

func recordsUnless(t *testing.T, s approval.Store) {
	read := func(server, mark string) ([]approval.Record, string) {
		t.Helper()
		all, now, err := s.RecordsIfChanged(t.Context(), server, mark)
		switch {
		case errors.Is(err, approval.ErrUnchanged) && (mark == "" || all != nil || now != ""):
			t.Fatalf("RecordsIfChanged(%q, %q) = %d records, mark %q and ErrUnchanged", server, mark, len(all), now)
		case errors.Is(err, approval.ErrUnchanged):
			return nil, mark
		case err != nil || now == "" || now == mark:
			t.Fatalf("RecordsIfChanged(%q, %q) = mark %q, %v", server, mark, now, err)
		}
		same(t, "RecordsIfChanged("+server+")", all, records(t, s, server))
		return all, now
	}
	unchanged := func(step, server, mark string) {
		t.Helper()
		if all, _ := read(server, mark); all != nil {
			t.Errorf("%s: %d records of %s are read again", step, len(all), server)
		}
	}
	changed := func(step, server, mark string) string {
		t.Helper()
		_, now := read(server, mark)
		if now == mark {
			t.Errorf("%s: the records of %s count as unchanged", step, server)
		}
		return now
	}
	git := tool.ID{Server: "git", Name: "push"}
	_, none := read("git", "")
	unchanged("no record", "git", none)
	first := put(t, s, record(git), nil)
	one := changed("a first record", "git", none)
	unchanged("one record", "git", one)
	for _, other := range []string{"gi", "git2", "git#", "Git", "g"} {
		put(t, s, record(tool.ID{Server: other, Name: "push"}), nil)
	}
	unchanged("records of others", "git", one)
	changed("the mark of another server", "git2", one)
	second := put(t, s, first, entry(first, "observe"))
	two := changed("the same record, written again", "git", one)
	changed("an old mark", "git", none)
	if _, err := s.Put(t.Context(), first, nil); !errors.Is(err, approval.ErrConflict) {
		t.Fatalf("Put of an old rev = %v", err)
	}
	_, two = read("git", two) // the refused Put may have made a new mark
	unchanged("after that", "git", two)
	for _, kind := range []tool.Kind{tool.Prompt, tool.Resource} {
		put(t, s, record(tool.ID{Server: "git", Name: "push", Kind: kind}), nil)
		two = changed("a "+kind.String(), "git", two)
	}
	put(t, s, second, nil)
	two = changed("one record of many", "git", two)
	unchanged("after all", "git", two)
	if _, _, err := s.RecordsIfChanged(t.Context(), "git", "some text"); err != nil {
		t.Errorf("RecordsIfChanged with an unknown mark: %v", err)
	}
}

// many puts n records of a server, eight at once, and returns the names of their tools.
func many(t *testing.T, s approval.Store, server string, n int, of func(tool.ID) approval.Record) []string {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("tool%04d", i))
	}
	for _, err := range race(8, func(w int) error {
		for i := w; i < n; i += 8 {
			if _, err := s.Put(t.Context(), of(tool.ID{Server: server, Name: names[i]}), nil); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func recordsMany(t *testing.T, s approval.Store) {
	big := bytes.Repeat([]byte("definition "), 200) // 1,200 of them take three pages of a store that returns 1 MB at a time
	want := many(t, s, "many", 1200, func(id tool.ID) approval.Record {
		r := record(id)
		r.Current = big
		return r
	})
	var got []string
	for _, r := range records(t, s, "many") {
		got = append(got, r.Tool)
	}
	same(t, "tools", got, want)
}

// decided puts n records, whose decisions are one second apart, and returns the decisions.
func decided(t *testing.T, s approval.Store, n int) []approval.Decision {
	t.Helper()
	var all []approval.Decision
	for i := range n {
		r := record(tool.ID{Server: fmt.Sprintf("server%d", i%7), Name: fmt.Sprintf("tool%d", i)})
		r.DecidedAt = start.Add(time.Duration(i) * time.Second)
		all = append(all, put(t, s, r, nil).Decision())
	}
	return all
}

func changesAll(t *testing.T, s approval.Store) {
	all := decided(t, s, 10)
	same(t, "Changes", changes(t, s, time.Time{}), all)
}

func changesOfVerdicts(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "refused"})
	r.State, r.CurrentHash = approval.Blocked, "cc33"
	r.Blocked = []approval.Remembered{{Hash: "cc33", By: "ada", At: start}, {Hash: "bb22", By: "ada", At: start}}
	r = put(t, s, r, nil)
	want := approval.Decision{
		ID: r.ID(), Rev: 1, State: approval.Blocked, Disabled: true, Blocked: []tool.Hash{"cc33", "bb22"}, Endorsed: "aa11",
		ApprovedHash: "aa11", CurrentHash: "cc33", DecidedAt: start,
	}
	same(t, "Changes", changes(t, s, time.Time{}), []approval.Decision{want})

	r.State, r.Blocked, r.Endorsed, r.ApprovedBefore = approval.Changed, nil, approval.Remembered{}, nil
	put(t, s, r, nil)
	want.Rev, want.State, want.Blocked, want.Endorsed = 2, approval.Changed, nil, ""
	same(t, "Changes without blocks or endorsement", changes(t, s, time.Time{}), []approval.Decision{want})
}

func changesSince(t *testing.T, s approval.Store) {
	all := decided(t, s, 10)
	for i, d := range all {
		same(t, fmt.Sprintf("Changes since decision %d", i), changes(t, s, d.DecidedAt), all[i:])
		same(t, fmt.Sprintf("Changes since just after decision %d", i), len(changes(t, s, d.DecidedAt.Add(1))), len(all)-i-1)
		same(t, "the same in another zone", changes(t, s, d.DecidedAt.In(time.FixedZone("east", 5*3600))), all[i:])
	}
	same(t, "Changes since the last year", changes(t, s, start.AddDate(-1, 0, 0)), all)
	if late := changes(t, s, all[9].DecidedAt.Add(time.Hour)); len(late) != 0 {
		t.Errorf("Changes since an hour later: %v", late)
	}
}

func changesOnce(t *testing.T, s approval.Store) {
	all := decided(t, s, 5)
	r := get(t, s, all[1].ID)
	r.DecidedAt, r.Disabled, r.State, r.ApprovedHash = start.Add(time.Hour), false, approval.Approved, r.CurrentHash
	again := put(t, s, r, nil).Decision()
	same(t, "Changes", changes(t, s, time.Time{}), []approval.Decision{all[0], all[2], all[3], all[4], again})
	same(t, "Changes since the second decision", changes(t, s, again.DecidedAt), []approval.Decision{again})
}

func changesUndecided(t *testing.T, s approval.Store) {
	r := put(t, s, undecided(tool.ID{Server: "github", Name: "new"}), nil)
	r.CurrentHash = "cc33"
	r = put(t, s, r, entry(r, approval.ActionChange))
	if ds := changes(t, s, time.Time{}); len(ds) != 0 {
		t.Errorf("Changes = %v of a tool that nobody decided about", ds)
	}
	r.DecidedAt = start
	want := put(t, s, r, entry(r, approval.ActionApprove)).Decision()
	same(t, "Changes after the first decision", changes(t, s, time.Time{}), []approval.Decision{want})
}

func changesInPlace(t *testing.T, s approval.Store) {
	all := decided(t, s, 3)
	r := get(t, s, all[0].ID)
	r.State, r.CurrentHash, r.Approved = approval.Changed, "cc33", nil
	all[0] = put(t, s, r, entry(r, approval.ActionChange)).Decision()
	same(t, "Changes", changes(t, s, time.Time{}), all)
	same(t, "Changes since the others", changes(t, s, all[1].DecidedAt), all[1:])
	same(t, "Get", get(t, s, r.ID()).DecidedAt, r.DecidedAt)
}

func changesMany(t *testing.T, s approval.Store) {
	want := many(t, s, "many", 4000, record) // over 1 MB, all with the same time
	var got []string
	for _, d := range changes(t, s, start) {
		got = append(got, d.ID.Name)
	}
	slices.Sort(got)
	same(t, "tools", got, want)
}

func keepsUnknown(t *testing.T, s approval.Store) {
	r := record(tool.ID{Server: "github", Name: "newer"})
	r.Format = approval.Format + 1
	r.Unknown = rawjson.Members{"grants": json.RawMessage(`[{"agent":"a<b","until":9007199254740993}]`), "stop": json.RawMessage(`true`)}
	want := put(t, s, r, nil)
	same(t, "Put", want.Unknown, r.Unknown)
	// A decision of this program keeps the members that it does not know.
	next, e, err := approval.Disable(get(t, s, r.ID()), approval.Author{Actor: "ada"}, start.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, next, &e)
	got := get(t, s, r.ID())
	same(t, "Unknown", got.Unknown, r.Unknown)
	same(t, "Format", got.Format, r.Format)
	same(t, "Records", records(t, s, "github"), []approval.Record{got})
}

func peek(t *testing.T, s approval.Store) {
	id := tool.ID{Server: "github", Name: "create_issue"}
	if _, err := s.Peek(t.Context(), id); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Peek of nothing: %v, want ErrNotFound", err)
	}
	want := put(t, s, record(id), nil)
	for end := time.Now().Add(5 * time.Second); ; {
		got, err := s.Peek(t.Context(), id)
		if err == nil {
			same(t, "Peek", got, want)
			return
		}
		if !errors.Is(err, approval.ErrNotFound) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// feedFollows reads decisions while they are made. The store shows one of them late.
func feedFollows(t *testing.T, s approval.Store) {
	all := decided(t, s, 10)
	put(t, s, undecided(tool.ID{Server: "github", Name: "new"}), nil)
	now := start.Add(time.Minute)
	var f approval.Feed
	follows := func(want []approval.Decision) {
		t.Helper()
		f.Read(t.Context(), s, now)
		if f.Err != nil || f.Decisions.Len() != len(want) {
			t.Fatalf("the feed has %d decisions, %v; want %d", f.Decisions.Len(), f.Err, len(want))
		}
		for _, d := range want {
			same(t, "the feed's record", f.Decisions.Record(d.ID, nil).Decision(), d)
		}
	}
	f.Rebase(all[4].DecidedAt.Add(10*time.Second), now, func(tool.ID) (int64, bool) { return 0, true })
	follows(all[4:])
	late := record(tool.ID{Server: "github", Name: "late"})
	late.DecidedAt = now.Add(-10 * time.Second)
	again := get(t, s, all[5].ID)
	again.DecidedAt, again.Disabled = now.Add(time.Second), false
	now = now.Add(2 * time.Second)
	all = append(all, put(t, s, late, nil).Decision(), put(t, s, again, nil).Decision())
	follows(append([]approval.Decision{all[4]}, all[6:]...))
	f.Rebase(now, now, func(id tool.ID) (int64, bool) { return get(t, s, id).Rev, true })
	follows(all[11:]) // the read begins 10 s before the catalog's time, so it returns this decision again
}
