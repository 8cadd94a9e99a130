package decide

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Callable is the status of a tool that is not locked.
const Callable = "callable"

// StatusText returns the name of a status, also of that of a tool that is not locked.
func StatusText(s lock.Status) string {
	if s == lock.None {
		return Callable
	}
	return string(s)
}

// Choose returns the numbers of the tools that f chooses, by id.
func Choose(v *state.View, f Filter) []int {
	var out []int
	for i := range v.Tools().All() {
		if (f.Server == "" || v.ID(i).Server == f.Server) && (f.Status == "" || StatusText(v.Status(i)) == f.Status) {
			out = append(out, i)
		}
	}
	return out
}

func hasServer(v *state.View, name string) bool {
	return slices.ContainsFunc(v.Servers(), func(s state.Server) bool { return s.Config.Name == name })
}

// A Tool is everything that is known of one tool.
type Tool struct {
	ID          string           `json:"id" doc:"server:tool"`
	Server      string           `json:"server"`
	Name        string           `json:"name"`
	Status      string           `json:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown,not_listed" doc:"not_listed: the catalog does not have it, only its record is left"`
	Remediation string           `json:"remediation,omitempty" doc:"what agents are told"`
	Denial      *Denial          `json:"denial,omitempty" doc:"the operator's rule that denies it, or may"`
	Tier        tool.Tier        `json:"tier" enum:"read,write,destructive"`
	Annotations tool.Annotations `json:"annotations" doc:"the server's, with the operator's over them"`
	Signature   string           `json:"signature,omitempty"`
	Record      *Record          `json:"record,omitempty"`
	Hash        tool.Hash        `json:"hash,omitempty" doc:"of the definition; an approval names it"`
	Definition  json.RawMessage  `json:"definition,omitempty" doc:"as the server sent it last"`
	Approved    json.RawMessage  `json:"approved_definition,omitempty" doc:"the one approved last, if it is another"`
}

// A Denial is what an operator's rule says of a tool.
type Denial struct {
	policy.Denial
	Rules   []string `json:"rules,omitempty" doc:"where the rules stand"`
	Unknown bool     `json:"unknown,omitempty" doc:"the rules could not be evaluated"`
}

// A Record is what was decided about a tool.
type Record struct {
	State        approval.State `json:"state" enum:"approved,pending,changed"`
	Disabled     bool           `json:"disabled"`
	ApprovedHash tool.Hash      `json:"approved_hash,omitempty"`
	CurrentHash  tool.Hash      `json:"current_hash"`
	By           string         `json:"by,omitempty" doc:"who decided last"`
	At           time.Time      `json:"at,omitzero"`
	Note         string         `json:"note,omitempty"`
	FirstSeen    time.Time      `json:"first_seen,omitzero"`
	Rev          int64          `json:"rev"`

	Lost    *approval.Lost `json:"lost,omitempty" doc:"the store had lost the record, or had an older one; the stricter of the two versions holds until somebody settles it"`
	Earlier *Earlier       `json:"approved_earlier,omitempty" doc:"the current definition waits, and was approved once: another was approved since"`
}

// An Earlier is an approval that was given once.
type Earlier struct {
	By string    `json:"by,omitempty" doc:"missing: not known"`
	At time.Time `json:"at,omitzero"`
}

// Tool reads the tool's record from the store and shows it beside the catalog's.
func (d *Desk) Tool(ctx context.Context, id tool.ID) (Tool, error) {
	v := d.View(ctx)
	_, listed := v.Find(id)
	r, err := d.approvals.Get(ctx, id)
	switch {
	case err == nil:
		return d.show(v, id, &r), nil
	case !errors.Is(err, approval.ErrNotFound):
		return Tool{}, err
	case !listed:
		return Tool{}, refuse(http.StatusNotFound, "no tool of this name is known")
	}
	return d.show(v, id, nil), nil
}

// show combines the catalog and the record of a tool; one of the two may be missing.
func (d *Desk) show(v *state.View, id tool.ID, r *approval.Record) Tool {
	out := Tool{ID: id.String(), Server: id.Server, Name: id.Name, Status: "not_listed"}
	if i, ok := v.Find(id); ok {
		t := v.Tool(i)
		status := lock.Classify(v.FactsAt(i, r))
		out.Status = StatusText(status)
		out.Remediation = lock.Remediation(status, approval.Link(d.o.BaseURL, id))
		if rule := v.Verdict(i); rule.Denied != lock.No {
			out.Denial = &Denial{rule.Denial, rule.Rules, rule.Denied == lock.Unknown}
		}
		out.Tier, out.Annotations, out.Signature = v.Tier(i), v.Hints(i), t.Signature
		out.Hash, out.Definition = t.Definition.Hash, t.Definition.Raw
	}
	if r == nil {
		return out
	}
	out.Record = &Record{
		State: r.State, Disabled: r.Disabled, ApprovedHash: r.ApprovedHash, CurrentHash: r.CurrentHash,
		By: r.By, At: r.At, Note: r.Note, FirstSeen: r.FirstSeen, Rev: r.Rev, Lost: r.Lost,
	}
	if m, ok := r.Earlier(); ok {
		out.Record.Earlier = &Earlier{m.By, m.At}
	}
	// The record is written before the catalog, so its definition is never the older one.
	out.Hash, out.Definition = r.CurrentHash, r.Current
	if r.ApprovedHash != "" && r.ApprovedHash != r.CurrentHash {
		out.Approved = r.Approved
	}
	return out
}
