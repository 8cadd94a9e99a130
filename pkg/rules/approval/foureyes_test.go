package approval_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func kim() approval.Author { return approval.Author{Actor: "kim", Subject: "sub-kim", Note: "read it"} }
func sam() approval.Author { return approval.Author{Actor: "sam", Subject: "sub-sam"} }

// waiting returns the record of a definition without any decision.
func waiting() approval.Record {
	r, _, _ := approval.Observe(nil, seen("h1", approval.Manual, false, noon))
	return r.Next(noon)
}

func isApproved(r approval.Record) bool {
	_, approved := approval.Facts(&r, approval.Manual, r.CurrentHash)
	return approved == lock.Yes
}

// must returns the record of a transition, as a store keeps it, and fails the test if the
// transition fails.
func must(t *testing.T) func(approval.Record, approval.Entry, error) approval.Record {
	return func(r approval.Record, _ approval.Entry, err error) approval.Record {
		t.Helper()
		require.OK(t, err)
		return r.Next(r.DecidedAt)
	}
}

func TestApproveByTwo(t *testing.T) {
	pending := waiting()
	at := noon.Add(time.Minute)
	first, e, err := approval.ApproveFourEyes(pending, "h1", kim(), at)
	if err != nil || isApproved(first) || first.State != approval.Pending || e.Action != "propose" || e.Actor != "kim" || e.Hash != "h1" || e.Note != "read it" {
		t.Fatalf("the first approval: %+v, %+v, %v", first, e, err)
	}
	if d := cmp.Diff(&approval.Proposal{Hash: "h1", By: "kim", Subject: "sub-kim", At: at, Note: "read it"}, first.Proposed); d != "" {
		t.Errorf("proposed (-want +got):\n%s", d)
	}
	first = first.Next(at)
	if first.Format != 4 {
		t.Errorf("got format %d, want 4, which older programs refuse", first.Format)
	}
	renamedKim := kim()
	renamedKim.Actor = "kimberly"
	for name, author := range map[string]approval.Author{"the same person": kim(), "the same person under another name": renamedKim} {
		if _, _, err := approval.ApproveFourEyes(first, "h1", author, at); !errors.Is(err, approval.ErrSamePerson) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := approval.ApproveFourEyes(first, "h1", approval.Author{Actor: "token:ci"}, at); !errors.Is(err, approval.ErrNoSubject) {
		t.Errorf("an author without a subject: %v", err)
	}
	if _, _, err := approval.ApproveFourEyes(first, "h2", sam(), at); !errors.Is(err, approval.ErrStale) {
		t.Errorf("another definition: %v", err)
	}
	second, e, err := approval.ApproveFourEyes(first, "h1", sam(), at)
	if err != nil || !isApproved(second) || second.Proposed != nil || e.Action != "approve" || !second.Endorsed.Two || second.Endorsed.By != "sam" || second.Next(at).Format != 1 {
		t.Errorf("the second approval: %+v, %+v, %v", second, e, err)
	}
	undone := must(t)(approval.UndoDecision(second.Next(at), second.Rev+1, "kim", at))
	if isApproved(undone) || undone.Proposed == nil || undone.Proposed.Subject != "sub-kim" {
		t.Errorf("after an undo of the second approval: %+v", undone)
	}
	gone := must(t)(approval.UndoDecision(first, first.Rev, "kim", at))
	if gone.Proposed != nil || gone.State != approval.Pending {
		t.Errorf("after an undo of the first approval: %+v", gone)
	}
}

// Every other event about a definition makes the first approval void, unless the event does not
// concern the definition.
func TestProposalVoid(t *testing.T) {
	first := must(t)(approval.ApproveFourEyes(waiting(), "h1", kim(), noon))
	observe := func(r approval.Record, d approval.Observation) approval.Record {
		next, _, _ := approval.Observe(&r, d)
		return next.Next(noon)
	}
	moved := seen("h1", approval.Manual, false, noon)
	moved.URL = "https://other.example.com"
	renamed := seen("h1", approval.Manual, false, noon)
	renamed.ID.Server, renamed.From = "renamed", &first
	byName, _, _ := approval.Observe(nil, renamed)
	changed := observe(first, seen("h2", approval.Manual, false, noon))
	blocked := must(t)(approval.Block(first, "h1", sam(), noon))
	disabled := must(t)(approval.Disable(first, sam(), noon))
	for name, tt := range map[string]struct {
		r     approval.Record
		stays bool
	}{
		"seen again":   {observe(first, seen("h1", approval.Manual, false, noon)), true},
		"changed":      {changed, false},
		"changed back": {observe(changed, seen("h1", approval.Manual, false, noon)), false},
		"moved":        {observe(first, moved), false},
		"renamed":      {byName, false},
		"blocked":      {blocked, false},
		"unblocked":    {must(t)(approval.Unblock(blocked, "h1", kim(), noon)), false},
		"disabled":     {disabled, true}, // does not concern the definition
		"enabled":      {must(t)(approval.Enable(disabled, kim(), noon)), true},
		"approved":     {must(t)(approval.Approve(first, "h1", sam(), noon)), false},
	} {
		if stays := tt.r.Proposed != nil; stays != tt.stays {
			t.Errorf("%s: %+v", name, tt.r.Proposed)
		}
	}
}

// A program without the four-eyes rule keeps the JSON member, although it does not know it.
func TestProposalOfOlderProgram(t *testing.T) {
	first := must(t)(approval.ApproveFourEyes(waiting(), "h1", kim(), noon))
	older := must(t)(approval.Approve(first, "h1", kim(), noon.Add(time.Minute)))
	if older.Proposed, older.Format = first.Proposed, first.Format; isApproved(older) {
		t.Error("the approval of one person is enough")
	}
	if next := must(t)(approval.ApproveFourEyes(older, "h1", sam(), noon.Add(2*time.Minute))); !isApproved(next) {
		t.Errorf("the approval of the second person is not enough: %+v", next)
	}
}

// An approval by one person, from before the rule, does not count as two.
func TestRememberTakesTwo(t *testing.T) {
	alone := must(t)(approval.Approve(waiting(), "h1", kim(), noon))
	together := must(t)(approval.ApproveFourEyes(must(t)(approval.ApproveFourEyes(waiting(), "h1", kim(), noon)), "h1", sam(), noon))
	for name, r := range map[string]approval.Record{"alone": alone, "together": together} {
		away, _, _ := approval.Observe(&r, seen("h2", approval.Manual, false, noon))
		other := must(t)(approval.Approve(away, "h2", sam(), noon))
		for _, two := range []bool{false, true} {
			d := seen("h1", approval.Manual, false, noon)
			d.Remember, d.TwoPeople = true, two
			if back, _, _ := approval.Observe(&other, d); isApproved(back) != (name == "together" || !two) {
				t.Errorf("approved %s, takes two %v: approved again %v", name, two, isApproved(back))
			}
		}
	}
}

// If a definition needs two approvals, no sequence of decisions by one person makes it approved.
// This holds for every change at the server and every loss of the store.
func TestOnePersonOpensNothing(t *testing.T) {
	opened := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 6))
		now, people := noon, []approval.Author{kim()}
		if seed%4 == 0 {
			people = append(people, sam()) // shows that the test can fail
		}
		r := waiting()
		var trace []string
		versions := []approval.Record{r}
		for range 30 {
			now = soon(rng, now)
			author, h := people[rng.IntN(len(people))], hashes[rng.IntN(2)]
			var next approval.Record
			var err error
			var did string
			switch rng.IntN(9) {
			case 0, 1, 2:
				did, h = "approve", r.CurrentHash
				next, _, err = approval.ApproveFourEyes(r, h, author, now)
			case 3:
				did, h = "block", r.CurrentHash
				next, _, err = approval.Block(r, h, author, now)
			case 4:
				did = "unblock"
				next, _, err = approval.Unblock(r, h, author, now)
			case 5:
				did = "disable or enable"
				if next, _, err = approval.Disable(r, author, now); r.Disabled {
					next, _, err = approval.Enable(r, author, now)
				}
			case 6:
				did = "undo"
				next, _, err = approval.UndoDecision(r, r.Rev, author.Actor, now)
			case 7:
				did = "lose and settle"
				known := inCatalog(versions[rng.IntN(len(versions))])
				stored := &versions[rng.IntN(len(versions))]
				if !approval.IsLost(stored, &known) {
					continue
				}
				lost, _ := approval.Recover(stored, &known, now)
				settle := approval.KeepRestored
				if rng.IntN(2) == 0 {
					settle = approval.AcceptStore
				}
				if next, _, err = settle(lost, author.Actor, now); err == nil {
					next = approval.WithoutApproval(lost, next)
				}
			default:
				did = "observe"
				d := seen(h, approval.Manual, rng.IntN(2) == 0, now)
				d.Remember, d.TwoPeople = true, true
				next, _, _ = approval.Observe(&r, d)
			}
			trace = append(trace, fmt.Sprint(author.Actor, " ", did, " ", h, " ", err))
			if err != nil {
				continue
			}
			r = next.Next(now)
			versions = append(versions, r)
			if isApproved(r) {
				if opened++; len(people) == 1 {
					t.Fatalf("one person alone approved the tool: %q", trace)
				}
			}
		}
	}
	if opened == 0 {
		t.Error("two people never got it approved")
	}
}

// An issuer may give two people the same name. The audit line of the second approval says that they
// are different people.
func TestTwoOfOneName(t *testing.T) {
	first, second := kim(), kim()
	second.Subject = first.Subject + "-other"
	second.Note = "read it"
	r, _, err := approval.ApproveFourEyes(waiting(), hashes[0], first, noon)
	require.OK(t, err)
	r, e, err := approval.ApproveFourEyes(r, hashes[0], second, noon)
	if err != nil || r.State != approval.Approved || e.Note != "a different person with the name of the proposer: read it" || r.Note != "read it" {
		t.Errorf("%v, %q, %q, %v", r.State, e.Note, r.Note, err)
	}
	second.Note = strings.Repeat("n", approval.MaxNote)
	r, _, _ = approval.ApproveFourEyes(waiting(), hashes[0], first, noon)
	r, e, err = approval.ApproveFourEyes(r, hashes[0], second, noon)
	if err != nil || approval.CheckPut(r.Next(noon), &e) != nil {
		t.Errorf("with the longest note: %v, %v", err, approval.CheckPut(r.Next(noon), &e))
	}
}
