package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Facts decide whether a person can decide about an item now. In a row they come from the state in
// this process, in a [Tool] from the store.
type Facts struct {
	ID        tool.ID
	Listed    bool // the catalog has it
	Status    lock.Status
	Denied    string           // the operator's rules that deny the item, in words; "": none
	Record    *approval.Record // nil: there is none
	Hash      tool.Hash        // of the definition that is shown
	Annotated bool             // as destructive, by the server or the operator
	Nested    bool             // the definition is nested too deeply to be approved
	TakesTwo  bool             // an approval takes two people
	Findings  []finding.Finding
	Actor     Actor
	Issuer    bool // people can sign in with an issuer here
	Now       time.Time
}

// An Obstruction says why somebody cannot carry out an action on an item now.
type Obstruction struct {
	Code   Code   `json:"code" doc:"stable"`
	Detail string `json:"detail" doc:"what is in the way, and who does what next"`
}

func obstruct(code Code, format string, args ...any) *Obstruction {
	return &Obstruction{code, fmt.Sprintf(format, args...)}
}

// Before returns the obstacle to an action on the item as it is shown; nil if there is none. The
// action has no note, and names the definition and the revision that are shown. many says that it
// is one of many decisions in one request.
func (f Facts) Before(action string, shown ViewMethod, many bool) *Obstruction {
	d := Decision{Action: action, Hash: f.Hash, Shown: shown, many: many}
	if f.Record != nil {
		d.Rev = f.Record.Rev
	}
	return Obstacle(f, d)
}

// Obstacle returns why d cannot be decided about the item now; nil if it can. The pages, the API
// and the commands all use it.
func Obstacle(f Facts, d Decision) *Obstruction {
	for _, in := range []func(Facts, Decision) *Obstruction{
		inRequest, inRights, inRecord, inState, inApproval,
	} {
		if o := in(f, d); o != nil {
			return o
		}
	}
	return nil
}

// inRequest returns what is wrong with the decision itself, for any item.
func inRequest(f Facts, d Decision) *Obstruction {
	switch {
	case !slices.Contains(Actions(), d.Action) && d.Action != ActionCarry:
		return obstruct(UnknownAction, "the request names no action. It takes %s",
			strings.Join(Actions(), ", "))
	case d.namesHash() && d.Hash == "":
		return &Obstruction{NoHash, noHashSentence(f.ID.Kind.String())}
	case d.Action == approval.ActionUndo && d.Rev == 0:
		return obstruct(NoRev, "the request does not name the revision that the decision made. "+
			"Read the %v, and name the rev that is shown", f.ID.Kind)
	case !utf8.ValidString(d.Note):
		return obstruct(NoteNotText, "the note is not UTF-8 text. Write it again")
	case len(d.Note) > approval.MaxNote:
		return obstruct(NoteTooLong, "the note has %d bytes. It takes at most %d",
			len(d.Note), approval.MaxNote)
	}
	return nil
}

// inRights returns why this person, or every person, cannot decide this. It needs no record.
func inRights(f Facts, d Decision) *Obstruction {
	kind, rights := f.ID.Kind, f.Actor.Rights
	switch {
	case rights.Role < identity.Approver:
		return &Obstruction{NoRole, roleSentence(f.Actor, identity.Approver)}
	case !rights.Decides(f.ID.Server):
		return obstruct(OtherServer, "you decide about items of %s, and this is one of %s. "+
			"Somebody who decides about %[2]s can",
			text.List(rights.Servers, maxNamed), f.ID.Server)
	case d.opens() && f.Denied != "":
		return obstruct(Denied, "an operator's rule denies this %v: %s. Only the operator "+
			"can change that, in mcp_config.json or policy.cedar", kind, f.Denied)
	}
	return nil
}

// inRecord returns why the item is not as the person saw it.
func inRecord(f Facts, d Decision) *Obstruction {
	kind, r := f.ID.Kind, f.Record
	switch {
	case r == nil && !f.Listed:
		return &Obstruction{UnknownItem, unknownSentence(kind)}
	case r == nil:
		return &Obstruction{NoRecord, noRecordSentence(kind)}
	case d.Hash != "" && d.Hash != r.CurrentHash && d.Action != approval.ActionUnblock:
		return obstruct(DefinitionChanged, "the definition changed since it was shown. "+
			"Read what it is now, and decide about that")
	case d.Rev != 0 && d.Rev != r.Rev:
		return &Obstruction{RecordChanged, recordChangedSentence(r)}
	}
	return nil
}

// inState returns why the item's state does not allow the action. A decision that settles a lost
// record never counts as made already.
func inState(f Facts, d Decision) *Obstruction {
	kind, r := f.ID.Kind, f.Record
	blocked := r.IsBlocked(r.CurrentHash)
	switch {
	case d.approves() && r.State == approval.Approved && !blocked && r.Lost == nil &&
		f.Status != lock.PendingApproval:
		return obstruct(AlreadyApproved, "this definition is approved already. There is nothing "+
			"to decide")
	case d.Action == approval.ActionBlock && blocked && r.Lost == nil:
		return obstruct(AlreadyBlocked, "this definition is blocked already. There is nothing to "+
			"decide")
	case d.Action == approval.ActionUnblock && !r.IsBlocked(d.Hash):
		return obstruct(NotBlocked, "this definition is not blocked. Read the %v again, "+
			"somebody may have unblocked it", kind)
	case d.Action == approval.ActionBlock && len(r.Blocked) >= approval.MaxBlocks:
		return obstruct(TooManyBlocks, "%d definitions of this %v are blocked, which is all that "+
			"is kept. Disable the %[2]v, or unblock one of them", approval.MaxBlocks, kind)
	case d.Action == approval.ActionUndo && !r.CanUndo(f.Now):
		return obstruct(NoUndo, "the decision about the %v cannot be undone any more. Only the "+
			"last one can be, for 10 minutes, unless a sync saw the definition change since. "+
			"Decide again", kind)
	}
	return nil
}

// inApproval returns why the decision cannot approve the definition.
func inApproval(f Facts, d Decision) *Obstruction {
	if !d.approves() {
		return nil
	}
	r := f.Record
	_, carryable := r.Carryable()
	switch {
	case f.Nested:
		return obstruct(TooDeep, "this definition is nested too deeply, and nobody can approve "+
			"it. The %v stays locked until its server lists a definition of at most 200 levels. "+
			"You can disable it or block the definition", f.ID.Kind)
	case f.TakesTwo && !f.Issuer:
		return obstruct(NoIssuer, "approving it takes two people who sign in with an issuer "+
			"(review.four_eyes), and nobody signs in with one here. "+
			"The operator sets up that sign-in, or takes four_eyes out of mcp_config.json")
	case f.TakesTwo && f.Actor.Subject == "":
		return obstruct(NotSignedIn, "approving it takes two people, each signed in with the "+
			"issuer, and you are here as %q without that. Sign in at /admin/login with the "+
			"issuer, and approve it there", f.Actor.Name)
	case f.TakesTwo && r.Proposed != nil && r.Proposed.Hash == r.CurrentHash &&
		r.Proposed.Subject == f.Actor.Subject:
		return obstruct(SamePerson, "you approved this definition already, as the first of two "+
			"people. The %v takes another one who signs in with the issuer and decides about its "+
			"server", f.ID.Kind)
	case d.Action == ActionCarry && !carryable:
		return obstruct(NotCarried, "this definition of the %v is not one that waits only because "+
			"its server is another version. Read it, and approve it on its own", f.ID.Kind)
	case d.many && r.IsBlocked(r.CurrentHash):
		return obstruct(Blocked, "somebody blocked this definition, and an approval of many lifts "+
			"no block. Read it, and approve it on its own")
	case d.many && d.Shown == "" && d.Action != ActionCarry:
		if why := closeLook(f); why != "" {
			return obstruct(NotShown, "the definition %s, and was not shown to you as it is now. "+
				"Read it, and approve it then", why)
		}
	}
	return f.severe(d.Note)
}

// severe refuses to open a definition with a severe finding if there is no note.
func (f Facts) severe(note string) *Obstruction {
	var severe []string
	for _, found := range f.Findings {
		if found.Severe {
			severe = append(severe, found.Message())
		}
	}
	if len(severe) == 0 || !text.Blank(note) {
		return nil
	}
	return obstruct(Severe, "the definition %s. If it is to be approved all the same, "+
		"say why in the note", text.List(severe, 2))
}

// closeLook returns why a person must look at the definition before an approval of many can include
// it; "" if they need not. Missing annotations are no reason.
func closeLook(f Facts) string {
	switch {
	case f.Record.State == approval.Changed:
		return "changed since it was approved"
	case len(f.Findings) > 0:
		return "has " + text.Count(len(f.Findings), "finding")
	case f.Annotated:
		return "is annotated as destructive"
	}
	return ""
}

// factsOf returns the facts about an item whose record is r; nil if there is none.
func (d *Service) factsOf(ctx context.Context, v *state.View, id tool.ID, r *approval.Record) Facts {
	f := Facts{ID: id, Record: r, Actor: ActorOf(ctx), Issuer: d.o.Issuer, Now: d.o.Now()}
	var now tool.Definition
	i, listed := v.Find(id)
	if f.Listed = listed; listed {
		f.Status, f.Denied = lock.Classify(v.FactsAt(i, r)), rulesIn(v.Verdict(i))
		f.Annotated = v.Tier(i) == tool.Destructive && isTrue(v.Hints(i).DestructiveHint)
		now = v.Tool(i).Definition
	}
	if r != nil && len(r.Current) > 0 {
		// The record is written before the catalog, so its definition is never older.
		now = tool.KeptItem(r.Kind, r.Current)
		now.Hash = r.CurrentHash
		f.Annotated = f.Annotated || now.Annotations.Tier() == tool.Destructive && isTrue(now.Annotations.DestructiveHint)
	}
	f.Hash, f.TakesTwo = now.Hash, v.NeedsFourEyes(id.Server, now)
	if f.Nested = tool.CheckDepth(now.Raw) != nil; r != nil {
		f.Findings = findingsOf(v, r)
	}
	return f
}

func isTrue(b *bool) bool { return b != nil && *b }

// Actions returns what the actor can do with the item. Without a record that is nothing.
func (f Facts) Actions() []string {
	return slices.DeleteFunc(Actions(), func(action string) bool {
		switch o := f.Before(action, ShownOpened, false); {
		case f.Record == nil:
			return true
		case action == approval.ActionDisable: // everybody may disable, since it locks what is locked
			return f.Record.Disabled
		case action == approval.ActionEnable:
			return !f.Record.Disabled || o != nil
		default:
			return o != nil && o.Code != Severe
		}
	})
}
