package approval_test

import (
	"encoding/json"
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

var (
	noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	id   = tool.ID{Server: "github", Name: "create_issue"}
)

// seen returns an observation of the tool with the definition whose hash is h.
func seen(h tool.Hash, mode approval.Mode, baseline bool, now time.Time) approval.Observation {
	return approval.Observation{
		ID: id, URL: "https://mcp.example.com", Definition: definition(h), Hash: h,
		Mode: mode, Baseline: baseline, Now: now,
	}
}

func definition(h tool.Hash) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{ "is": %q }`, h)) }

// decidedRecord returns a record with the given hashes, decided by ada at noon.
func decidedRecord(state approval.State, approved, current tool.Hash) approval.Record {
	r := approval.Record{
		Server: id.Server, Tool: id.Name, URL: "https://mcp.example.com", State: state,
		ApprovedHash: approved, CurrentHash: current, Current: definition(current),
		By: "ada", At: noon, Note: "fine", FirstSeen: noon, DecidedAt: noon, Rev: 4, UpdatedAt: noon,
	}
	if approved != "" {
		r.Approved = definition(approved)
	}
	return r
}

func TestObserveNew(t *testing.T) {
	for _, test := range []struct {
		name     string
		mode     approval.Mode
		baseline bool
		state    approval.State
		action   string
	}{
		{"manual waits", approval.Manual, false, approval.Pending, "observe"},
		{"manual has no baseline", approval.Manual, true, approval.Pending, "observe"},
		{"on_change approves the first list", approval.OnChange, true, approval.Approved, "baseline"},
		{"on_change lets a later tool wait", approval.OnChange, false, approval.Pending, "observe"},
		{"off approves nothing", approval.Off, false, approval.Pending, "observe"},
		{"off has no baseline", approval.Off, true, approval.Pending, "observe"},
		{"an unknown mode waits", "", true, approval.Pending, "observe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, e, changed := approval.Observe(nil, seen("h1", test.mode, test.baseline, noon))
			if !changed {
				t.Error("Observe reports no change")
			}
			want := approval.Record{
				Server: id.Server, Tool: id.Name, URL: "https://mcp.example.com", State: test.state,
				CurrentHash: "h1", Current: definition("h1"), FirstSeen: noon,
			}
			if test.state == approval.Approved {
				want.ApprovedHash, want.Approved, want.By, want.At = "h1", definition("h1"), "sync", noon
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
			wantEntry := &approval.Entry{Server: id.Server, Tool: id.Name, Actor: "sync", Action: test.action, Hash: "h1", At: noon}
			if d := cmp.Diff(wantEntry, e); d != "" {
				t.Errorf("audit line (-want +got):\n%s", d)
			}
		})
	}
}

func TestObserveKnown(t *testing.T) {
	const (
		minute = time.Minute
		day    = 24 * time.Hour
	)
	for _, test := range []struct {
		name      string
		record    approval.Record
		hash      tool.Hash
		after     time.Duration
		state     approval.State
		approved  tool.Hash
		action    string // "": no audit line
		unchanged bool
	}{
		{"the same definition is no change", decidedRecord(approval.Approved, "h1", "h1"), "h1", minute, approval.Approved, "h1", "", true},
		{"the same definition a year later is no change", decidedRecord(approval.Approved, "h1", "h1"), "h1", 365 * day, approval.Approved, "h1", "", true},
		{"another definition of an approved tool is a change", decidedRecord(approval.Approved, "h1", "h1"), "h2", minute, approval.Changed, "h1", "change", false},
		{"a third definition stays a change", decidedRecord(approval.Changed, "h1", "h2"), "h3", minute, approval.Changed, "h1", "change", false},
		{"a changed tool seen again is no change", decidedRecord(approval.Changed, "h1", "h2"), "h2", minute, approval.Changed, "h1", "", true},
		{"the approved definition again is approved", decidedRecord(approval.Changed, "h1", "h2"), "h1", minute, approval.Approved, "h1", "restore", false},
		{"a waiting tool seen again waits", decidedRecord(approval.Pending, "", "h1"), "h1", minute, approval.Pending, "", "", true},
		{"another definition of a waiting tool waits", decidedRecord(approval.Pending, "", "h1"), "h2", minute, approval.Pending, "", "change", false},
		{"a tool that was gone for a year is compared with its record", decidedRecord(approval.Approved, "h1", "h1"), "h2", 365 * day, approval.Changed, "h1", "change", false},
		{"a definition without a hash is ignored", decidedRecord(approval.Approved, "h1", "h1"), "", day, approval.Approved, "h1", "", true},
	} {
		for _, mode := range []approval.Mode{approval.Manual, approval.OnChange, approval.Off} {
			for _, baseline := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s baseline %v", test.name, mode, baseline), func(t *testing.T) {
					now := noon.Add(test.after)
					got, e, changed := approval.Observe(&test.record, seen(test.hash, mode, baseline, now))
					if changed == test.unchanged {
						t.Errorf("changed = %v", changed)
					}
					want := test.record // the last actor and time stay
					want.State, want.ApprovedHash = test.state, test.approved
					if !test.unchanged {
						want.CurrentHash, want.Current, want.ChangedAt = test.hash, definition(test.hash), now
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("record (-want +got):\n%s", d)
					}
					if got := action(e); got != test.action {
						t.Errorf("audit line %q, want %q", got, test.action)
					}
				})
			}
		}
	}
}

func action(e *approval.Entry) string {
	if e == nil {
		return ""
	}
	return e.Action
}

func TestObserveAtAnotherURL(t *testing.T) {
	const there = "https://other.example.com"
	for _, test := range []struct {
		name       string
		from, to   string
		want       approval.State
		wantURL    string
		wantAction string
	}{
		{"an approval at the old URL no longer counts", "https://mcp.example.com", there, approval.Pending, there, "move"},
		{"a record without a URL gets the URL", "", there, approval.Approved, there, ""},
		{"an observation without a URL changes nothing", there, "", approval.Approved, there, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := decidedRecord(approval.Approved, "h1", "h1")
			r.URL, r.Disabled = test.from, true
			d := seen("h1", approval.OnChange, false, noon)
			d.URL = test.to
			got, e, _ := approval.Observe(&r, d)
			if got.State != test.want || got.URL != test.wantURL || action(e) != test.wantAction || !got.Disabled {
				t.Errorf("state %q at %q by %q, disabled %v; want %q at %q by %q, disabled true",
					got.State, got.URL, action(e), got.Disabled, test.want, test.wantURL, test.wantAction)
			}
			if _, approved := approval.Facts(&got, approval.OnChange, "h1"); (approved == lock.Yes) != (test.want == approval.Approved) {
				t.Errorf("approved = %v in state %q", approved, got.State)
			}
		})
	}
}

func TestApprove(t *testing.T) {
	later := noon.Add(time.Hour)
	for _, test := range []struct {
		name   string
		record approval.Record
		hash   tool.Hash
		stale  bool
	}{
		{"a waiting tool", decidedRecord(approval.Pending, "", "h1"), "h1", false},
		{"a changed tool", decidedRecord(approval.Changed, "h1", "h2"), "h2", false},
		{"an approved tool again", decidedRecord(approval.Approved, "h1", "h1"), "h1", false},
		{"the earlier definition of a changed tool", decidedRecord(approval.Changed, "h1", "h2"), "h1", true},
		{"a hash that was never seen", decidedRecord(approval.Pending, "", "h1"), "h9", true},
		{"no hash", decidedRecord(approval.Pending, "", "h1"), "", true},
		{"no hash, and a record without a hash", decidedRecord(approval.Pending, "", ""), "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.record
			got, e, err := approval.Approve(test.record, test.hash, approval.Author{Actor: "bob", Note: "read it"}, later)
			if test.stale {
				if !errors.Is(err, approval.ErrStale) {
					t.Fatalf("Approve = %v, want ErrStale", err)
				}
				return
			}
			require.OK(t, err)
			want := before
			want.State, want.ApprovedHash, want.Approved = approval.Approved, test.hash, before.Current
			want.By, want.At, want.DecidedAt, want.Note = "bob", later, later, "read it"
			want.ApprovedBefore = []approval.Remembered{{Hash: test.hash, By: "bob", At: later}}
			if before.State == approval.Changed {
				want.ApprovedBefore = append(want.ApprovedBefore, approval.Remembered{Hash: before.ApprovedHash})
			}
			want.Endorsed = want.ApprovedBefore[0]
			want.Undo = &approval.Undo{Action: "approve", Rev: 4, By: "ada", At: noon, Note: "fine"}
			if want.Undo.Same = before.State == approval.Approved; !want.Undo.Same {
				want.Undo.ApprovedHash, want.Undo.Approved = before.ApprovedHash, before.Approved
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
			wantEntry := approval.Entry{Server: id.Server, Tool: id.Name, Actor: "bob", Action: "approve", Hash: test.hash, Note: "read it", At: later}
			if before.ApprovedHash != test.hash {
				wantEntry.From = before.ApprovedHash
			}
			if d := cmp.Diff(wantEntry, e); d != "" {
				t.Errorf("audit line (-want +got):\n%s", d)
			}
		})
	}
}

func TestDecisionFields(t *testing.T) {
	r := decidedRecord(approval.Pending, "", "h1")
	for _, test := range []struct{ name, actor, note string }{
		{"no actor", "", ""},
		{"an actor too long", strings.Repeat("a", approval.MaxActor+1), ""},
		{"a note too long", "bob", strings.Repeat("n", approval.MaxNote+1)},
		{"a note that is not text", "bob", "\xff"},
	} {
		_, _, approve := approval.Approve(r, "h1", approval.Author{Actor: test.actor, Note: test.note}, noon)
		_, _, disable := approval.Disable(r, approval.Author{Actor: test.actor, Note: test.note}, noon)
		_, _, enable := approval.Enable(r, approval.Author{Actor: test.actor, Note: test.note}, noon)
		if approve == nil || disable == nil || enable == nil {
			t.Errorf("%s: Approve %v, Disable %v, Enable %v; want an error of each", test.name, approve, disable, enable)
		}
	}
}

func TestFacts(t *testing.T) {
	approved := decidedRecord(approval.Approved, "h1", "h1")
	changed := decidedRecord(approval.Changed, "h1", "h2")
	waiting := decidedRecord(approval.Pending, "", "h1")
	torn := decidedRecord(approval.Changed, "h1", "h1") // no transition makes this record
	for _, test := range []struct {
		name   string
		record *approval.Record
		mode   approval.Mode
		hash   tool.Hash
		want   lock.Fact
	}{
		{"approved at this hash", &approved, approval.OnChange, "h1", lock.Yes},
		{"approved at this hash, manual", &approved, approval.Manual, "h1", lock.Yes},
		{"approved at another hash", &approved, approval.OnChange, "h2", lock.No},
		{"changed since", &changed, approval.OnChange, "h2", lock.No},
		{"changed since, with the approved hash", &changed, approval.OnChange, "h1", lock.No},
		{"waiting", &waiting, approval.Manual, "h1", lock.No},
		{"no record", nil, approval.Manual, "h1", lock.No},
		{"no record, on_change", nil, approval.OnChange, "h1", lock.No},
		{"hashes agree but the state does not", &torn, approval.Manual, "h1", lock.No},
		{"no hash", &approved, approval.OnChange, "", lock.Unknown},
		{"approval off, no record", nil, approval.Off, "h1", lock.Yes},
		{"approval off, changed", &changed, approval.Off, "h2", lock.Yes},
		{"approval off, no hash", &waiting, approval.Off, "", lock.Yes},
		{"no mode", &approved, "", "h1", lock.Unknown},
		{"an unknown mode", &approved, "sometimes", "h1", lock.Unknown},
	} {
		if user, got := approval.Facts(test.record, test.mode, test.hash); got != test.want || user != lock.No {
			t.Errorf("%s: disabled %v, approved %v; want %v, %v", test.name, user, got, lock.No, test.want)
		}
		if test.record == nil {
			continue
		}
		off := *test.record
		off.Disabled = true
		if user, got := approval.Facts(&off, test.mode, test.hash); got != test.want || user != lock.Yes {
			t.Errorf("%s, disabled: disabled %v, approved %v; want %v, %v", test.name, user, got, lock.Yes, test.want)
		}
	}
}
