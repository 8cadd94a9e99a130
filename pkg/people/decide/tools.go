package decide

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// Callable is the status of a tool, a prompt or a resource that is not locked.
const Callable = "callable"

// NotListed is the status of an item that is not in the catalog, but has a record or was used.
const NotListed = "not_listed"

// StatusText returns the name of a status. [lock.None] is [Callable].
func StatusText(s lock.Status) string {
	if s == lock.None {
		return Callable
	}
	return string(s)
}

// CountOf returns how many items have the named status.
func CountOf(c lock.Counts, status string) int {
	switch status {
	case Callable:
		return c.Callable
	case string(lock.ServerDisabled):
		return c.ServerDisabled
	case string(lock.DisabledByConfig):
		return c.DisabledByConfig
	case string(lock.DisabledByUser):
		return c.DisabledByUser
	case string(lock.PendingApproval):
		return c.PendingApproval
	}
	return c.DisabledUnknown
}

// A Tool has all details of one tool, prompt or resource.
type Tool struct {
	ItemName
	Status      string           `json:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown,not_listed" doc:"not_listed: the catalog does not have it, only its record is left"`
	Remediation string           `json:"remediation,omitempty" doc:"text that agents see"`
	Denial      *Denial          `json:"denial,omitempty" doc:"the operator's rule that denies it, or may"`
	Tier        tool.Tier        `json:"tier" enum:"read,write,destructive"`
	Annotations tool.Annotations `json:"annotations" doc:"the server's annotations with the operator's overrides; for a prompt or a resource, the annotations that the gateway assumes"`
	Signature   string           `json:"signature,omitempty"`
	Record      *Record          `json:"record,omitempty"`
	Hash        tool.Hash        `json:"hash,omitempty" doc:"hash of the definition; an approval names it"`
	Definition  json.RawMessage  `json:"definition,omitempty" doc:"the definition that the server sent last"`
	Approved    json.RawMessage  `json:"approved_definition,omitempty" doc:"the definition that was approved last, if it is another"`
	Change      *Change          `json:"change,omitempty" doc:"difference between the approved and the current definition"`
	Findings    []Finding        `json:"findings,omitempty" doc:"findings in the current definition: new findings since the approved definition first, and severe ones first among these; approving a definition with a severe finding needs a note"`
	TakesTwo    bool             `json:"takes_two,omitempty" doc:"approving the current definition takes two people who signed in with the issuer"`
	Use         *usage.Week      `json:"use,omitempty" doc:"calls in the last seven days; absent: there were none, or only a query can tell"`
	Actions     []string         `json:"actions" nullable:"false" enum:"approve,block,unblock,disable,enable,undo" doc:"the decisions that are possible now"`
	Obstacle    *Obstruction     `json:"obstacle,omitempty" doc:"only if the query has for: why you cannot take that action on the item now; absent: you can"`

	Facts Facts `json:"-"` // used by [Obstacle]
}

// Unannotated reports whether a tool counts as destructive only because it has no annotations.
func (t Tool) Unannotated() bool { return isUnannotated(t.Kind, t.Annotations) }

// isUnannotated reports whether no hint says which tier a tool has.
func isUnannotated(kind string, a tool.Annotations) bool {
	return kind == tool.Tool.String() && a.ReadOnlyHint == nil && a.DestructiveHint == nil
}

// A Denial is an operator's rule that denies an item.
type Denial struct {
	policy.Denial
	Rules   []string `json:"rules,omitempty" doc:"where the rules are"`
	Unknown bool     `json:"unknown,omitempty" doc:"the rules could not be evaluated"`
}

// A Record is the approval record of an item.
type Record struct {
	State        approval.State `json:"state" enum:"approved,pending,changed,blocked"`
	Disabled     bool           `json:"disabled"`
	ApprovedHash tool.Hash      `json:"approved_hash,omitempty"`
	CurrentHash  tool.Hash      `json:"current_hash"`
	By           string         `json:"by,omitempty" doc:"who decided last"`
	At           time.Time      `json:"at,omitzero"`
	Note         string         `json:"note,omitempty"`
	Tell         bool           `json:"tell,omitempty" doc:"agents may see the note"`
	FirstSeen    time.Time      `json:"first_seen,omitzero"`
	ChangedAt    time.Time      `json:"changed_at,omitzero" doc:"when a sync first saw the current definition; absent: it is the first one, or that is not known"`
	Rev          int64          `json:"rev"`

	Lost    *approval.Loss `json:"lost,omitempty" doc:"the store lost the record or had an older version; the stricter version applies until somebody settles it"`
	Earlier *Earlier       `json:"approved_earlier,omitempty" doc:"the current definition waits, although it was approved earlier: another one was approved since"`

	Verdicts  []Verdict `json:"verdicts,omitempty" doc:"decisions about definitions of the item, the newest first"`
	Endorsed  *Verdict  `json:"endorsed,omitempty" doc:"the last approval by a person"`
	UndoUntil time.Time `json:"undo_until,omitzero" doc:"until when the last decision can be undone; absent: it cannot"`
	Proposed  *Verdict  `json:"proposed,omitempty" doc:"the approval of the current definition by the first of two people; it waits for the second"`
	Undoes    string    `json:"undoes,omitempty" doc:"the action that undo would revert"`
}

// A Verdict is a decision about one definition.
type Verdict struct {
	Hash    tool.Hash `json:"hash"`
	Verdict string    `json:"verdict" enum:"approved,blocked,proposed"`
	By      string    `json:"by,omitempty" doc:"absent: not known"`
	At      time.Time `json:"at,omitzero"`
	Note    string    `json:"note,omitempty" doc:"the beginning of the note"`
}

// verdictsOf returns the stored decisions about definitions of an item.
func verdictsOf(r *approval.Record) (out []Verdict) {
	for _, m := range r.Blocked {
		out = append(out, verdictOf(m, StateBlocked))
	}
	for _, m := range r.ApprovedBefore {
		out = append(out, verdictOf(m, StateApproved))
	}
	slices.SortStableFunc(out, func(a, b Verdict) int { return b.At.Compare(a.At) })
	return out
}

func verdictOf(m approval.Remembered, verdict string) Verdict {
	return Verdict{Hash: m.Hash, Verdict: verdict, By: m.By, At: m.At, Note: m.Note}
}

// An Earlier is an earlier approval.
type Earlier struct {
	By string    `json:"by,omitempty" doc:"absent: not known"`
	At time.Time `json:"at,omitzero"`
}

// Tool reads the item's record from the store and combines it with the catalog's.
func (d *Service) Tool(ctx context.Context, id tool.ID) (Tool, error) {
	v := d.View(ctx)
	r, err := d.record(ctx, id)
	if err != nil {
		return Tool{}, err
	}
	if _, listed := v.Find(id); r == nil && !listed {
		return Tool{}, errNoItem(id.Kind)
	}
	out := d.show(ctx, v, id, r)
	out.Use = d.useOf(ctx, id)
	return out, nil
}

// show combines the catalog and the record of an item; one of the two may be missing.
func (d *Service) show(ctx context.Context, v *state.View, id tool.ID, r *approval.Record) Tool {
	out := Tool{Status: NotListed, Actions: []string{}, Facts: d.factsOf(ctx, v, id, r)}
	if i, ok := v.Find(id); ok {
		t := v.Tool(i)
		out.Status = StatusText(out.Facts.Status)
		out.Remediation = lock.RemediationOf(id.Kind.String(), out.Facts.Status, approval.Link(d.o.BaseURL, id))
		if rule := v.Verdict(i); rule.Denied != lock.No {
			out.Denial = &Denial{rule.Denial, rule.Rules, rule.Denied == lock.Unknown}
		}
		out.Tier, out.Annotations, out.Signature = v.Tier(i), v.Hints(i), t.Signature
		out.Hash, out.Definition = t.Definition.Hash, t.Definition.Raw
	}
	if r == nil {
		out.ItemName = itemNameOf(id, tool.KeptItem(id.Kind, out.Definition))
		return out
	}
	out.Record = &Record{
		State: r.State, Disabled: r.Disabled, ApprovedHash: r.ApprovedHash, CurrentHash: r.CurrentHash,
		By: r.By, At: r.At, Note: r.Note, Tell: r.Tell, FirstSeen: r.FirstSeen, ChangedAt: r.ChangedAt, Rev: r.Rev, Lost: r.Loss,
		Verdicts: verdictsOf(r),
	}
	if r.IsBlocked(r.CurrentHash) { // an older program without blocks wrote the state
		out.Record.State = approval.Blocked
	}
	if m := r.Endorsement(); m.Hash != "" {
		endorsed := verdictOf(m, StateApproved)
		out.Record.Endorsed = &endorsed
	}
	if r.CanUndo(d.o.Now()) {
		out.Record.UndoUntil, out.Record.Undoes = r.At.Add(approval.UndoTime), r.Undo.Action
	}
	out.Record.Proposed, out.TakesTwo = proposedOf(r), out.Facts.TakesTwo
	if m, ok := r.Earlier(); ok {
		out.Record.Earlier = &Earlier{m.By, m.At}
	}
	// The record is written before the catalog, so its definition is never older.
	out.Hash, out.Definition = r.CurrentHash, r.Current
	if r.ApprovedHash != "" && r.ApprovedHash != r.CurrentHash {
		out.Approved = r.Approved
	}
	now := tool.KeptItem(id.Kind, out.Definition)
	if out.ItemName = itemNameOf(id, now); len(out.Approved) > 0 {
		out.Change = d.Change(tool.KeptItem(id.Kind, out.Approved), now)
	}
	out.Findings = shownFindings(v, r)
	anybody := out.Facts
	anybody.Actor, anybody.TakesTwo = Actor{Rights: identity.Everything()}, false
	out.Actions = anybody.Actions()
	return out
}
