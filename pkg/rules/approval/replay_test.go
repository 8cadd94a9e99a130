package approval_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// known is the time of the record in the tests of [approval.Replay].
var known = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	hashA = tool.Hash("aaaa")
	hashB = tool.Hash("bbbb")
)

// did returns a decision, made this many seconds after known.
func did(second int, action string, hash tool.Hash) approval.Past {
	return approval.Past{Action: action, Hash: hash, By: "ann", At: known.Add(time.Duration(second) * time.Second), Sure: true}
}

func undid(second int, action string, hash tool.Hash) approval.Past {
	p := did(second, "undo", hash)
	p.Note = action + " by bob was undone"
	return p
}

func unsure(p approval.Past) approval.Past { p.Sure = false; return p }

func later(p approval.Past) approval.Past { p.Stretch = 1; return p }

func actions(past []approval.Past) (out []string) {
	for _, p := range past {
		out = append(out, p.Action)
	}
	return out
}

// access returns, as a word, what a record lets an agent do with the definition A.
func access(r approval.Record) string {
	s := string(r.State)
	if r.Disabled {
		s += ", disabled"
	}
	return s
}

func TestReplay(t *testing.T) {
	open := approval.Record{Server: "s", Tool: "t", CurrentHash: hashA, ApprovedHash: hashA, State: approval.Approved}
	waiting := approval.Record{Server: "s", Tool: "t", CurrentHash: hashA, State: approval.Pending}
	off := open
	off.Disabled = true
	blocked := waiting
	blocked.Blocked, blocked.State = []approval.Remembered{{Hash: hashA, By: "eve"}}, approval.Blocked
	type pasts = []approval.Past
	for name, test := range map[string]struct {
		from             approval.Record
		past             pasts
		want             string
		closing, opening []string
	}{
		"nothing":                            {open, nil, "approved", nil, nil},
		"a block":                            {open, pasts{did(1, "block", hashA)}, "blocked", []string{"block"}, nil},
		"a block of another definition":      {open, pasts{did(1, "block", hashB)}, "approved", []string{"block"}, nil},
		"a block that the record has":        {blocked, pasts{did(1, "block", hashA)}, "blocked", nil, nil},
		"a disable":                          {open, pasts{did(1, "disable", hashA)}, "approved, disabled", []string{"disable"}, nil},
		"a disable that the record has":      {off, pasts{did(1, "disable", hashA)}, "approved, disabled", nil, nil},
		"as old as the record":               {open, pasts{did(0, "disable", hashA)}, "approved", nil, nil},
		"older than the record":              {open, pasts{did(-1, "disable", hashA)}, "approved", nil, nil},
		"disable, enable":                    {open, pasts{did(1, "disable", hashA), did(2, "enable", hashA)}, "approved", nil, nil},
		"not in order":                       {open, pasts{did(2, "enable", hashA), did(1, "disable", hashA)}, "approved", nil, nil},
		"enable, disable":                    {open, pasts{did(1, "enable", hashA), did(2, "disable", hashA)}, "approved, disabled", []string{"disable"}, nil},
		"disable, enable at one moment":      {open, pasts{did(1, "disable", hashA), did(1, "enable", hashA)}, "approved, disabled", []string{"disable"}, nil},
		"block, approve at one moment":       {open, pasts{did(1, "block", hashA), did(1, "approve", hashA)}, "blocked", []string{"block"}, nil},
		"an enable alone":                    {off, pasts{did(1, "enable", hashA)}, "approved, disabled", nil, []string{"enable"}},
		"an enable that is not sure":         {open, pasts{did(1, "disable", hashA), unsure(did(2, "enable", hashA))}, "approved, disabled", []string{"disable"}, []string{"enable"}},
		"an enable after a gap":              {open, pasts{did(1, "disable", hashA), later(did(2, "enable", hashA))}, "approved, disabled", []string{"disable"}, []string{"enable"}},
		"an approval":                        {waiting, pasts{did(1, "approve", hashA)}, "pending", nil, []string{"approve"}},
		"an approval, then a block":          {waiting, pasts{did(1, "approve", hashA), did(2, "block", hashA)}, "blocked", []string{"block"}, nil},
		"an approval of another definition":  {open, pasts{did(1, "approve", hashB)}, "pending", nil, []string{"approve"}},
		"an approval that the record has":    {open, pasts{did(1, "approve", hashA)}, "approved", nil, nil},
		"block, approve":                     {open, pasts{did(1, "block", hashA), did(2, "approve", hashA)}, "approved", nil, nil},
		"block, approve after a gap":         {open, pasts{did(1, "block", hashA), later(did(2, "approve", hashA))}, "blocked", []string{"block"}, []string{"approve"}},
		"block, unblock":                     {open, pasts{did(1, "block", hashA), did(2, "unblock", hashA)}, "pending", []string{"block"}, nil},
		"an unblock alone":                   {blocked, pasts{did(1, "unblock", hashA)}, "blocked", nil, []string{"unblock"}},
		"block, undo":                        {open, pasts{did(1, "block", hashA), undid(2, "block", hashA)}, "approved", nil, nil},
		"block, undo that is not sure":       {open, pasts{did(1, "block", hashA), unsure(undid(2, "block", hashA))}, "blocked", []string{"block"}, []string{"undo"}},
		"disable, undo":                      {open, pasts{did(1, "disable", hashA), undid(2, "disable", hashA)}, "approved", nil, nil},
		"undo of an earlier disable":         {off, pasts{undid(1, "disable", hashA)}, "approved, disabled", nil, []string{"undo"}},
		"undo of an earlier approval":        {open, pasts{undid(1, "approve", hashA)}, "pending", []string{"undo"}, nil},
		"undo of an earlier enable":          {open, pasts{undid(1, "enable", hashA)}, "approved, disabled", []string{"undo"}, nil},
		"undo of an earlier unblock":         {open, pasts{undid(1, "unblock", hashA)}, "blocked", []string{"undo"}, nil},
		"undo of something unknown":          {open, pasts{undid(1, "", hashA)}, "pending, disabled", []string{"undo"}, nil},
		"disable, enable, undo":              {open, pasts{did(1, "disable", hashA), did(2, "enable", hashA), undid(3, "enable", hashA)}, "approved, disabled", []string{"disable"}, nil},
		"approve, undo":                      {waiting, pasts{did(1, "approve", hashA), undid(2, "approve", hashA)}, "pending", nil, nil},
		"a person chose the store's version": {open, pasts{did(1, "approvals-accept", hashA)}, "pending", []string{"approvals-accept"}, nil},
		"actions that are not of people":     {open, pasts{did(1, "change", hashA), did(2, "invented", hashA)}, "approved", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := approval.Replay(test.from, known, test.past)
			if s := access(got.Record); s != test.want {
				t.Errorf("access is %q, want %q", s, test.want)
			}
			if diff := cmp.Diff(test.closing, actions(got.Closing)); diff != "" {
				t.Errorf("closing (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.opening, actions(got.Opening)); diff != "" {
				t.Errorf("opening (-want +got):\n%s", diff)
			}
			if changed := !cmp.Equal(test.from, got.Record); changed != got.Changed {
				t.Errorf("Changed is %t, but the record changed: %t", got.Changed, changed)
			}
		})
	}
}

// For any content of the audit, Replay never makes a record less strict. If lines are missing or
// doubtful, the record is at least as strict as with certain lines.
func TestReplayNeverOpens(t *testing.T) {
	verbs := []string{"disable", "enable", "block", "unblock", "approve", "propose", "undo disable", "undo enable", "undo block", "undo unblock", "undo approve", "undo ?", "approvals-accept"}
	for _, from := range []approval.Record{
		{CurrentHash: hashA, ApprovedHash: hashA, State: approval.Approved},
		{CurrentHash: hashA, ApprovedHash: hashA, State: approval.Approved, Disabled: true},
		{CurrentHash: hashA, ApprovedHash: hashB, State: approval.Changed},
		{CurrentHash: hashA, State: approval.Blocked, Blocked: []approval.Remembered{{Hash: hashA, By: "eve"}}},
	} {
		for n := range len(verbs) * len(verbs) * len(verbs) * 8 {
			var past []approval.Past
			doubt := n % 8
			for i, rest := 0, n/8; i < 3; i, rest = i+1, rest/len(verbs) {
				p := did(i+1, verbs[rest%len(verbs)], hashA)
				if action, isUndo := cutUndo(p.Action); isUndo {
					p = undid(i+1, action, hashA)
				}
				p.Sure = doubt&(1<<i) == 0
				past = append(past, p)
			}
			got := approval.Replay(from, known, past).Record
			if from.Disabled && !got.Disabled || got.ApprovedHash != "" && got.ApprovedHash != from.ApprovedHash || len(got.Blocked) < len(from.Blocked) {
				t.Fatalf("%v makes %+v less strict: %+v", past, from, got)
			}
			for i := range past {
				past[i].Sure = true
			}
			sure := approval.Replay(from, known, past).Record
			if sure.Disabled && !got.Disabled || sure.ApprovedHash == "" && got.ApprovedHash != "" || len(got.Blocked) < len(sure.Blocked) {
				t.Fatalf("from %+v, doubtful lines of %v make %+v, which is less strict than %+v", from, past, got, sure)
			}
		}
	}
}

func cutUndo(verb string) (action string, isUndo bool) {
	if len(verb) > 5 && verb[:5] == "undo " {
		return verb[5:], true
	}
	return "", false
}

// One record has the result of both the settlement and the replay, so a crash cannot separate them.
func TestKeepReplayed(t *testing.T) {
	r := approval.Record{Server: "s", Tool: "t", CurrentHash: hashA, ApprovedHash: hashA, State: approval.Approved, Rev: 3, UpdatedAt: known}
	lost, _ := approval.Recover(nil, &r, known.Add(time.Hour))
	lost.UpdatedAt = known.Add(time.Hour) // as the store writes it
	past := []approval.Past{did(-5, "disable", hashA), did(5, "block", hashA)}
	next, e, re, err := approval.KeepReplayed(lost, past, "kim", known.Add(2*time.Hour))
	if err != nil || next.Loss != nil || access(next) != "blocked" || next.By != "kim" || !slices.Equal(actions(re.Closing), []string{"block"}) {
		t.Errorf("the result is %+v, %+v, %v", next, re, err)
	}
	if want := "applies again by the audit: block by ann at 2026-11-23T12:00:05Z"; e.Note != want {
		t.Errorf("the audit says %q, want %q", e.Note, want)
	}
	r.UpdatedAt, r.DecidedAt = known.Add(time.Hour), known // a sync wrote it since
	if next, _, re, err := approval.KeepReplayed(r, append(past, did(90, "disable", hashA)), "kim", known.Add(2*time.Hour)); err != nil || !re.Changed || access(next) != "approved, disabled" {
		t.Errorf("after the store was set back: %+v, %v", re, err)
	}
	next.UpdatedAt = known.Add(2 * time.Hour)
	if _, _, re, err := approval.KeepReplayed(next, past, "kim", known.Add(3*time.Hour)); err != nil || re.Changed {
		t.Errorf("a second time: %+v, %v", re, err)
	}
}
