package admin

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

// callable is the status of a tool that is not locked.
const callable = "callable"

func statusText(s lock.Status) string {
	if s == lock.None {
		return callable
	}
	return string(s)
}

// A Summary is one tool in a list.
type Summary struct {
	ID      string    `json:"id" doc:"server:tool"`
	Server  string    `json:"server"`
	Name    string    `json:"name"`
	Status  string    `json:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown"`
	Tier    tool.Tier `json:"tier" enum:"read,write,destructive"`
	Hash    tool.Hash `json:"hash" doc:"of the definition that the catalog holds; an approval names it"`
	Title   string    `json:"title,omitempty"`
	Summary string    `json:"summary,omitempty" doc:"first sentence of the description"`
}

type toolsInput struct {
	Paging
	Server string `query:"server" doc:"only tools of this server"`
	Status string `query:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown" doc:"only tools with this status"`
}

type toolsOutputBody struct {
	Tools []Summary `json:"tools" nullable:"false" doc:"by id"`
	Total int       `json:"total" doc:"how many there are on all pages"`
	Next
}

func (a *api) listTools(ctx context.Context, in *toolsInput) (out toolsOutputBody, err error) {
	v := a.states.Load(ctx).View(a.o.Agent)
	if in.Server != "" && !hasServer(v, in.Server) {
		return out, problem(http.StatusNotFound, "no server of this name is configured")
	}
	chosen := choose(v, in.Server, in.Status)
	page, next, err := cut(in.Paging, "tools", chosen, func(i int) string { return v.ID(i).String() })
	out.Tools, out.Total, out.Next = make([]Summary, len(page)), len(chosen), next
	for n, i := range page {
		t := v.Tool(i)
		out.Tools[n] = Summary{
			ID: t.ID.String(), Server: t.ID.Server, Name: t.ID.Name, Status: statusText(v.Status(i)), Tier: v.Tier(i), Hash: t.Definition.Hash,
			Title: t.Definition.Title, Summary: tool.FirstSentence(t.Definition.Description),
		}
	}
	return out, err
}

// choose returns the numbers of the tools of a server ("": all) with a status ("": any), by id.
func choose(v *state.View, server, status string) []int {
	var out []int
	for i := range v.Tools().All() {
		if (server == "" || v.ID(i).Server == server) && (status == "" || statusText(v.Status(i)) == status) {
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

// A ToolPath names the tool that a request is about. It is exported because huma does not read the
// parameters of an unexported embedded struct.
type ToolPath struct {
	Server string `path:"server"`
	Tool   string `path:"tool"`
}

func (in ToolPath) id() tool.ID { return tool.ID{Server: in.Server, Name: in.Tool} }

// getTool reads the tool's record from the store and shows it beside the catalog's.
func (a *api) getTool(ctx context.Context, in *ToolPath) (Tool, error) {
	id := in.id()
	v := a.states.Load(ctx).View(a.o.Agent)
	_, listed := v.Find(id)
	r, err := a.approvals.Get(ctx, id)
	switch {
	case err == nil:
		return a.show(v, id, &r), nil
	case !errors.Is(err, approval.ErrNotFound):
		return Tool{}, err
	case !listed:
		return Tool{}, problem(http.StatusNotFound, "no tool of this name is known")
	}
	return a.show(v, id, nil), nil
}

// show combines the catalog and the record of a tool; one of the two may be missing.
func (a *api) show(v *state.View, id tool.ID, r *approval.Record) Tool {
	out := Tool{ID: id.String(), Server: id.Server, Name: id.Name, Status: "not_listed"}
	if i, ok := v.Find(id); ok {
		t := v.Tool(i)
		status := lock.Classify(v.FactsAt(i, r))
		out.Status = statusText(status)
		out.Remediation = lock.Remediation(status, approval.Link(a.o.BaseURL, id))
		if d := v.Verdict(i); d.Denied != lock.No {
			out.Denial = &Denial{d.Denial, d.Rules, d.Denied == lock.Unknown}
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
