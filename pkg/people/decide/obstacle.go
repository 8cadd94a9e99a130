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

// Facts are what [Obstacle] needs to know about an item and a person. The facts of a row come from
// the state in this process, and the facts of a [Tool] from the store.
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
	Code   Code   `json:"code" doc:"stable code"`
	Detail string `json:"detail" doc:"the reason, and who does what next"`
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

// Obstacle returns why d cannot be carried out on the item now; nil if it can. The pages, the API
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
		return obstruct(UnknownAction, "the request names no known action. It takes %s",
			strings.Join(Actions(), ", "))
	case d.namesHash() && d.Hash == "":
		return &Obstruction{NoHash, noHashSentence(f.ID.Kind.String())}
	case d.Action == approval.ActionUndo && d.Rev == 0:
		return obstruct(NoRev, "the request does not have the revision that the decision made. "+
			"Read the %v, and send the rev that it shows", f.ID.Kind)
	case !utf8.ValidString(d.Note):
		return obstruct(NoteNotText, "the note is not UTF-8 text. Write it again")
	case len(d.Note) > approval.MaxNote:
		return obstruct(NoteTooLong, "the note has %d bytes. It takes at most %d",
			len(d.Note), approval.MaxNote)
	}
	return nil
}

// inRights returns why this person, or everybody, cannot make this decision. It needs no record.
func inRights(f Facts, d Decision) *Obstruction {
	kind, rights := f.ID.Kind, f.Actor.Rights
	switch {
	case rights.Role < identity.Approver:
		return &Obstruction{NoRole, roleSentence(f.Actor, identity.Approver)}
	case !rights.Decides(f.ID.Server):
		return obstruct(OtherServer, "you decide about items of %s, and this item is of %s. Ask "+
			"somebody who decides about %[2]s",
			text.List(rights.Servers, maxNamed), f.ID.Server)
	case d.opens() && f.Denied != "":
		return obstruct(Denied, "an operator's rule denies this %v: %s. Only the operator "+
			"can change that, in mcp_config.json or policy.cedar", kind, f.Denied)
	}
	return nil
}

// inRecord returns how the item differs from what the person saw.
func inRecord(f Facts, d Decision) *Obstruction {
	kind, r := f.ID.Kind, f.Record
	switch {
	case r == nil && !f.Listed:
		return &Obstruction{UnknownItem, unknownSentence(kind)}
	case r == nil:
		return &Obstruction{NoRecord, noRecordSentence(kind)}
	case d.Hash != "" && d.Hash != r.CurrentHash && d.Action != approval.ActionUnblock:
		return obstruct(DefinitionChanged, "the definition changed since it was shown. Read the "+
			"current definition, and decide about it")
	case d.Rev != 0 && d.Rev != r.Rev:
		return &Obstruction{RecordChanged, recordChangedSentence(r)}
	}
	return nil
}

// inState returns why the item's state does not allow the action. It refuses to repeat an approval
// or a block, unless the decision settles a lost record.
func inState(f Facts, d Decision) *Obstruction {
	kind, r := f.ID.Kind, f.Record
	blocked := r.IsBlocked(r.CurrentHash)
	switch {
	case d.approves() && r.State == approval.Approved && !blocked && r.Loss == nil &&
		f.Status != lock.PendingApproval:
		return obstruct(AlreadyApproved, "this definition is approved already. There is nothing "+
			"to decide")
	case d.Action == approval.ActionBlock && blocked && r.Loss == nil:
		return obstruct(AlreadyBlocked, "this definition is blocked already. There is nothing to "+
			"decide")
	case d.Action == approval.ActionUnblock && !r.IsBlocked(d.Hash):
		return obstruct(NotBlocked, "this definition is not blocked. Read the %v again, "+
			"somebody may have unblocked it", kind)
	case d.Action == approval.ActionBlock && len(r.Blocked) >= approval.MaxBlocks:
		return obstruct(TooManyBlocks, "%d definitions of this %v are blocked, and no more can "+
			"be stored. Disable the %[2]v, or unblock one of them", approval.MaxBlocks, kind)
	case d.Action == approval.ActionUndo && !r.CanUndo(f.Now):
		return obstruct(NoUndo, "the decision about the %v can no longer be undone. Only the "+
			"last decision can be undone, for 10 minutes, and not after a sync saw the "+
			"definition change. Decide again", kind)
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
			"(review.four_eyes), but this gateway has no such sign-in. The operator sets it up, "+
			"or removes four_eyes from mcp_config.json")
	case f.TakesTwo && f.Actor.Subject == "":
		return obstruct(NotSignedIn, "approving it takes two people who are signed in with the "+
			"issuer, and you are %q, who is not. Sign in at /admin/login with the issuer, and "+
			"approve it there", f.Actor.Name)
	case f.TakesTwo && r.Proposed != nil && r.Proposed.Hash == r.CurrentHash &&
		r.Proposed.Subject == f.Actor.Subject:
		return obstruct(SamePerson, "you approved this definition already, as the first of two "+
			"people. The %v now needs another person who signs in with the issuer and decides "+
			"about its server", f.ID.Kind)
	case d.Action == ActionCarry && !carryable:
		return obstruct(NotCarried, "only a definition that waits because its server has another "+
			"version can be carried over, and this definition of the %v waits for another "+
			"reason. Read it, and approve it separately", f.ID.Kind)
	case d.many && r.IsBlocked(r.CurrentHash):
		return obstruct(Blocked, "somebody blocked this definition, and an approval of many "+
			"items cannot unblock it. Read it, and approve it separately")
	case d.many && d.Shown == "" && d.Action != ActionCarry:
		if why := closeLook(f); why != "" {
			return obstruct(NotShown, "the definition %s, and you have not seen its current "+
				"text. Read it, then approve it", why)
		}
	}
	return f.severe(d.Note)
}

// severe returns the obstacle if the definition has a severe finding and there is no note.
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
	return obstruct(Severe, "the definition %s. To approve it anyway, say why in the "+
		"note", text.List(severe, 2))
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

// factsOf returns the facts about an item. r is the item's record, or nil.
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

// Actions returns what the actor can do with the item. Without a record, the list is empty.
func (f Facts) Actions() []string {
	return slices.DeleteFunc(Actions(), func(action string) bool {
		switch o := f.Before(action, ShownOpened, false); {
		case f.Record == nil:
			return true
		case action == approval.ActionDisable: // no obstacle hides it: disabling only adds a lock
			return f.Record.Disabled
		case action == approval.ActionEnable:
			return !f.Record.Disabled || o != nil
		default:
			return o != nil && o.Code != Severe
		}
	})
}
