package approval_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// blocked returns r with its current definition blocked by carl.
func blocked(t *testing.T, r approval.Record, at time.Time) approval.Record {
	t.Helper()
	next, _, err := approval.Block(r, r.CurrentHash, approval.Author{Actor: "carl", Note: "it reads keys"}, at)
	require.OK(t, err)
	return next
}

func TestBlock(t *testing.T) {
	later := noon.Add(time.Hour)
	endorsed := approved(t, decidedRecord(approval.Pending, "", "h1"), "ada", noon)
	for _, test := range []struct {
		name     string
		record   approval.Record
		hash     tool.Hash
		err      error
		approved tool.Hash // after the event
	}{
		{"a waiting tool", decidedRecord(approval.Pending, "", "h1"), "h1", nil, ""},
		{"a changed tool keeps its approval", decidedRecord(approval.Changed, "h1", "h2"), "h2", nil, "h1"},
		{"an approved tool loses its approval", endorsed, "h1", nil, ""},
		{"a blocked tool again", blocked(t, decidedRecord(approval.Pending, "", "h1"), noon), "h1", nil, ""},
		{"the earlier definition of a changed tool", decidedRecord(approval.Changed, "h1", "h2"), "h1", approval.ErrStale, ""},
		{"no hash", decidedRecord(approval.Pending, "", ""), "", approval.ErrStale, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, e, err := approval.Block(test.record, test.hash, approval.Author{Actor: "bob", Note: "no", Tell: true}, later)
			if !errors.Is(err, test.err) {
				t.Fatalf("Block = %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			want := []approval.Remembered{{Hash: test.hash, By: "bob", At: later, Note: "no"}}
			if d := cmp.Diff(want, got.Blocked); d != "" {
				t.Errorf("blocked (-want +got):\n%s", d)
			}
			if got.State != approval.Blocked || got.ApprovedHash != test.approved || got.Endorsed.Hash != "" || got.By != "bob" || !got.Tell || !got.DecidedAt.Equal(later) {
				t.Errorf("record = %+v", got)
			}
			if _, was := got.Earlier(); was {
				t.Error("Earlier reports an approval of a blocked definition")
			}
			wantEntry := approval.Entry{Server: id.Server, Tool: id.Name, Actor: "bob", Action: "block", Hash: test.hash, Note: "no", Tell: true, At: later}
			if test.record.ApprovedHash != test.approved {
				wantEntry.From = test.record.ApprovedHash
			}
			if d := cmp.Diff(wantEntry, e); d != "" {
				t.Errorf("audit line (-want +got):\n%s", d)
			}
			if form := got.Next(later).Format; form != 2 {
				t.Errorf("got format %d, want 2, which older programs cannot misread", form)
			}
		})
	}
}

// Only a person can make a blocked definition callable.
func TestBlockedDefinition(t *testing.T) {
	r := blocked(t, decidedRecord(approval.Changed, "h1", "h2"), noon)
	fresh := observed(&r, "h3")
	if user, _ := approval.Facts(&fresh, approval.Off, "h3"); fresh.State != approval.Changed || user != lock.No {
		t.Errorf("a new definition is %s, disabled %v; want it to wait", fresh.State, user)
	}
	back, e, _ := approval.Observe(&fresh, seen("h2", approval.OnChange, false, noon))
	if back.State != approval.Blocked || e == nil || e.Action != "change" || e.Note != "blocked by carl on 2026-03-14" {
		t.Errorf("listed again, the blocked definition is %s, audit line %+v", back.State, e)
	}
	if good, e, _ := approval.Observe(&back, seen("h1", approval.OnChange, false, noon)); good.State != approval.Approved || action(e) != "restore" {
		t.Errorf("listed again, the approved definition is %s by %q", good.State, action(e))
	}
	if yes := approved(t, back, "dora", noon); yes.State != approval.Approved || len(yes.Blocked) > 0 {
		t.Errorf("after an approval the state is %s, blocked %+v", yes.State, yes.Blocked)
	}
	if on, _, err := approval.Enable(back, approval.Author{Actor: "dora"}, noon); err != nil || on.State != approval.Blocked {
		t.Errorf("after Enable the state is %s (%v)", on.State, err)
	}
	for name, h := range map[string]tool.Hash{"the current one": "h2", "an earlier one": "h2"} {
		from := back
		if name == "an earlier one" {
			from = fresh
		}
		free, e, err := approval.Unblock(from, h, approval.Author{Actor: "dora", Note: "looked again"}, noon)
		if err != nil || free.State != approval.Changed || len(free.Blocked) > 0 || e.Action != "unblock" || e.Hash != h || e.Note != "looked again" {
			t.Errorf("%s unblocked: %s, %+v, %v", name, free.State, e, err)
		}
	}
	if _, _, err := approval.Unblock(back, "h1", approval.Author{Actor: "dora"}, noon); !errors.Is(err, approval.ErrNotBlocked) {
		t.Errorf("Unblock of a definition that is not blocked = %v", err)
	}
}

func TestBlockUnderAnotherName(t *testing.T) {
	d := seen("h1", approval.OnChange, true, noon)
	blocked := []approval.Remembered{{Hash: "h1", By: "carl", At: noon}}
	d.Others = []*approval.Record{{}, {Blocked: blocked}, {}}
	first, e, _ := approval.Observe(nil, d)
	if first.State != approval.Blocked || first.ApprovedHash != "" || first.By != "" || e.Action != "observe" || e.Note != "blocked, as under another name of its server" {
		t.Errorf("the first list approved a blocked definition: %+v, %+v", first, e)
	}
	other := decidedRecord(approval.Approved, "h1", "h1")
	d.URL = "https://other.example.com"
	if moved, _, _ := approval.Observe(&other, d); moved.State != approval.Blocked {
		t.Errorf("after two servers swapped their names: %s, want blocked", moved.State)
	}
}

func TestBlocksAreAtMost50(t *testing.T) {
	r := decidedRecord(approval.Pending, "", "h0")
	long := approval.Author{Actor: strings.Repeat("\x01", 200), Note: strings.Repeat("<&>", 1000)}
	for i := range 50 {
		r = observed(&r, tool.Hash(fmt.Sprint("n", i)))
		next, _, err := approval.Block(r, r.CurrentHash, long, noon.Add(time.Duration(i)))
		require.OK(t, err)
		r = next
	}
	if _, _, err := approval.Block(r, r.CurrentHash, long, noon); err != nil {
		t.Errorf("the last definition cannot be blocked again: %v", err)
	}
	r = observed(&r, "more")
	if _, _, err := approval.Block(r, "more", long, noon); !errors.Is(err, approval.ErrBlocks) {
		t.Errorf("the 51st block = %v, want ErrBlocks", err)
	}

	// If two sets of blocks have more than 50 blocks together, some are dropped. Therefore the tool
	// is disabled.
	d := seen("n3", approval.Off, false, noon)
	from := blocked(t, decidedRecord(approval.Pending, "", "n3"), noon.Add(time.Hour))
	from.Blocked = append(from.Blocked, approval.Remembered{Hash: "m1", At: noon.Add(time.Hour)})
	d.From = &from
	all, e, _ := approval.Observe(&r, d)
	if len(all.Blocked) != 50 || !all.Disabled || action(e) != "rename" || all.Check() != nil {
		t.Errorf("%d blocks, disabled %v, %v", len(all.Blocked), all.Disabled, all.Check())
	}
}

func TestRemember(t *testing.T) {
	r := approved(t, observed(nil, "h1"), "alice", noon)
	r = approved(t, observed(&r, "h2"), "bob", noon.Add(time.Hour))
	auto := func(r approval.Record, h tool.Hash) (approval.Record, *approval.Entry) {
		d := seen(h, approval.OnChange, false, noon.Add(2*time.Hour))
		d.Remember = true
		next, e, _ := approval.Observe(&r, d)
		return next, e
	}
	got, e := auto(r, "h1")
	if got.State != approval.Approved || got.By != approval.Sync || string(got.Approved) != string(definition("h1")) ||
		got.Endorsed != (approval.Remembered{Hash: "h1", By: "alice", At: noon}) || e.Action != "remember" || e.Actor != "sync" || e.Note != "approved by alice on 2026-03-14" {
		t.Errorf("the definition that alice approved: %+v, audit line %+v", got, e)
	}
	if _, _, changed := approval.Observe(&got, approval.Observation{ID: id, URL: got.URL, Hash: "h1", Definition: definition("h1"), Remember: true, Now: noon}); changed {
		t.Error("a second sync writes the record again")
	}
	waits := observed(&r, "h1")
	if got, e := auto(waits, "h1"); got.State != approval.Approved || action(e) != "remember" {
		t.Errorf("with the new setting, a waiting definition is %s by %q", got.State, action(e))
	}

	first := approved(t, observed(func() *approval.Record { r := observed(nil, "h1"); return &r }(), "h2"), "bob", noon)
	lost := waits
	lost.Loss = &approval.Loss{At: noon}
	no := blocked(t, waits, noon)
	free, _, err := approval.Unblock(no, "h1", approval.Author{Actor: "carl"}, noon)
	require.OK(t, err)
	for name, test := range map[string]struct {
		from approval.Record
		hash tool.Hash
		want approval.State
	}{
		"a new definition waits":                            {r, "h9", approval.Changed},
		"a baseline that was replaced waits":                {first, "h1", approval.Changed},
		"a lost record waits for a person":                  {lost, "h1", approval.Changed},
		"a definition that was blocked since stays blocked": {no, "h1", approval.Blocked},
		"an unblocked definition waits":                     {free, "h1", approval.Changed},
		"without the setting it waits":                      {waits, "h1", approval.Changed},
		"the definition that was approved last is restored": {waits, "h2", approval.Approved},
	} {
		if got, _ := auto(test.from, test.hash); name != "without the setting it waits" && got.State != test.want {
			t.Errorf("%s: %s", name, got.State)
		}
		if got := observed(&test.from, test.hash); got.State != test.want {
			t.Errorf("%s, without the setting: %s", name, got.State)
		}
	}
}

// Agents read a note while its definition is listed, or while the tool is disabled.
func TestTell(t *testing.T) {
	author := approval.Author{Actor: "bob", Note: "use staging", Tell: true}
	no, _, err := approval.Block(decidedRecord(approval.Pending, "", "h1"), "h1", author, noon)
	require.OK(t, err)
	off, _, err := approval.Disable(decidedRecord(approval.Approved, "h1", "h1"), author, noon)
	require.OK(t, err)
	mute, e, err := approval.Disable(decidedRecord(approval.Approved, "h1", "h1"), approval.Author{Actor: "bob", Tell: true}, noon)
	if err != nil || mute.Tell || e.Tell {
		t.Errorf("Tell is set without a note: %v, %v (%v)", mute.Tell, e.Tell, err)
	}
	if again := observed(&no, "h1"); !again.Tell {
		t.Error("agents do not see the note of a blocked definition")
	}
	if other := observed(&no, "h2"); other.Tell || other.Note != "use staging" {
		t.Errorf("the note about another definition: %q, Tell %v", other.Note, other.Tell)
	}
	if other := observed(&off, "h2"); !other.Tell {
		t.Error("agents do not see the note of a disabled tool after its definition changed")
	}
	if on, _, err := approval.Enable(off, approval.Author{Actor: "bob"}, noon); err != nil || on.Tell || on.Note != "" {
		t.Errorf("agents see the earlier note after another decision: %+v, %v", on, err)
	}
}

func TestEndorsement(t *testing.T) {
	person := approved(t, observed(nil, "h1"), "ada", noon)
	if m := person.Endorsement(); m != (approval.Remembered{Hash: "h1", By: "ada", At: noon}) {
		t.Errorf("endorsed %+v", m)
	}
	older := person // as written by a program without the field
	older.Endorsed = approval.Remembered{}
	if m := older.Endorsement(); m.Hash != "h1" || m.By != "ada" {
		t.Errorf("the record of an older program is endorsed as %+v", m)
	}
	if m := observed(nil, "h1").Endorsement(); m.Hash != "" {
		t.Errorf("a baseline is endorsed: %+v", m)
	}
	if m := observed(&person, "h2").Endorsement(); m.Hash != "h1" {
		t.Errorf("endorsed %+v after a change", m)
	}
	moved := seen("h1", approval.OnChange, false, noon)
	moved.URL = "https://other.example.com"
	if next, _, _ := approval.Observe(&person, moved); next.Endorsement().Hash != "" {
		t.Errorf("endorsed at another URL: %+v", next.Endorsement())
	}
}

func TestFactsOfBlocked(t *testing.T) {
	r := blocked(t, decidedRecord(approval.Changed, "h1", "h2"), noon)
	gone := observed(&r, "h3") // the catalog may still show h2
	listed := inCatalog(r)
	for name, test := range map[string]struct {
		record *approval.Record
		hash   tool.Hash
		want   lock.Fact
	}{
		"the current definition":                                 {&r, "h2", lock.Yes},
		"a definition that the server no longer lists":           {&gone, "h2", lock.Yes},
		"another definition":                                     {&gone, "h3", lock.No},
		"the current definition, with the catalog's record":      {&listed, "h2", lock.Yes},
		"another definition, with the catalog's record":          {&listed, "h3", lock.No},
		"a definition without a hash":                            {&gone, "", lock.Unknown},
		"a definition without a hash, with the catalog's record": {&listed, "", lock.Unknown},
	} {
		for _, mode := range modes {
			if user, _ := approval.Facts(test.record, mode, test.hash); user != test.want {
				t.Errorf("%s, %s: disabled is %v, want %v", name, mode, user, test.want)
			}
		}
	}
}
