package admin

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// toolsInput is the query of a list of tools. The desk reads it, for the pages as well, so that a
// value which no tool can have is refused in the same words.
type toolsInput struct {
	decide.Paging
	decide.Filter
	query url.Values
}

// Resolve implements [huma.Resolver].
func (in *toolsInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.query = u.Query()
	return nil
}

func (a *api) listTools(ctx context.Context, in *toolsInput) (decide.Page, error) {
	f, p, err := decide.ReadQuery(in.query, defaultLimit)
	if err != nil {
		return decide.Page{}, err
	}
	return a.desk.List(ctx, f, p)
}

// defaultLimit is how many tools a page has if the request does not say.
const defaultLimit = 50

type serversOutputBody struct {
	Servers []decide.Server  `json:"servers" nullable:"false"`
	State   decide.Freshness `json:"state"`
	decide.Next
}

func (a *api) listServers(ctx context.Context, in *decide.Paging) (out serversOutputBody, err error) {
	out.Servers, out.Next, err = a.desk.Servers(ctx, *in)
	out.State = a.desk.Freshness(ctx)
	return out, err
}

func (a *api) health(ctx context.Context, _ *struct{}) (decide.Health, error) {
	return a.desk.Health(ctx), nil
}

type auditInput struct {
	decide.Paging
	Server string `query:"server" doc:"only entries about tools of this server; it need not be configured any more"`
}

type auditOutputBody struct {
	Entries []approval.Entry `json:"entries" nullable:"false"`
	decide.Next
}

func (a *api) audit(ctx context.Context, in *auditInput) (out auditOutputBody, err error) {
	out.Entries, out.Next, err = a.desk.Audit(ctx, in.Server, in.Paging)
	return out, err
}

// A ToolPath names the tool that a request is about. It is exported because huma does not read the
// parameters of an unexported embedded struct.
type ToolPath struct {
	Server string `path:"server"`
	Tool   string `path:"tool"`
}

func (in ToolPath) id() tool.ID { return tool.ID{Server: in.Server, Name: in.Tool} }

func (a *api) getTool(ctx context.Context, in *ToolPath) (decide.Tool, error) {
	return a.desk.Tool(ctx, in.id())
}

// Seen is what a person saw before deciding. A decision about a record that is another by now is
// not carried out.
type Seen struct {
	Rev int64 `json:"rev,omitempty" minimum:"1" doc:"of the record that was seen; if it is another by now, nothing is decided. Without it the decision is taken whatever others decided meanwhile"`
}

type approveInput struct {
	ToolPath
	Body struct {
		Seen
		Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen"`
		Note string    `json:"note,omitempty" maxLength:"4096"`
	}
}

func (a *api) approveTool(ctx context.Context, in *approveInput) (decide.Tool, error) {
	return a.desk.Decide(ctx, in.id(), decide.Decision{Action: approval.ActionApprove, Hash: in.Body.Hash, Rev: in.Body.Rev, Note: in.Body.Note})
}

type noteInput struct {
	ToolPath
	Body *struct {
		Seen
		Note string `json:"note,omitempty" maxLength:"4096" doc:"why"`
	}
}

// decideTool returns the operation that disables or enables a tool.
func (a *api) decideTool(action string) func(context.Context, *noteInput) (decide.Tool, error) {
	return func(ctx context.Context, in *noteInput) (decide.Tool, error) {
		d := decide.Decision{Action: action}
		if in.Body != nil {
			d.Rev, d.Note = in.Body.Rev, in.Body.Note
		}
		return a.desk.Decide(ctx, in.id(), d)
	}
}

type approveServerInput struct {
	Server string `path:"server"`
	Body   struct {
		Tools []NamedHash `json:"tools" minItems:"1" maxItems:"1000" nullable:"false"`
		Note  string      `json:"note,omitempty" maxLength:"4096"`
	}
}

// A NamedHash is a tool of the server, and the hash of its definition that was seen.
type NamedHash struct {
	Name string    `json:"name" minLength:"1"`
	Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$"`
	Seen
}

// An Approved is what became of one tool of a bulk approval.
type Approved struct {
	Name   string `json:"name"`
	Result string `json:"result" enum:"approved,refused,failed"`
	Status string `json:"status,omitempty" doc:"of the tool after it"`
	Detail string `json:"detail,omitempty" doc:"why it was not approved"`
}

type approveServerOutputBody struct {
	Tools []Approved `json:"tools" nullable:"false" doc:"in the order of the request"`
	Count int        `json:"approved" doc:"how many were"`
}

// approveServer approves each tool by itself: one that changed meanwhile does not stop the others.
func (a *api) approveServer(ctx context.Context, in *approveServerInput) (out approveServerOutputBody, err error) {
	if !a.desk.HasServer(ctx, in.Server) {
		return out, problem(http.StatusNotFound, "no server of this name is configured")
	}
	items := make([]decide.Item, len(in.Body.Tools))
	for n, t := range in.Body.Tools {
		items[n] = decide.Item{ID: tool.ID{Server: in.Server, Name: t.Name}, Hash: t.Hash, Rev: t.Rev}
	}
	out.Tools = make([]Approved, len(items))
	for n, r := range a.desk.DecideAll(ctx, approval.ActionApprove, in.Body.Note, items) {
		one := Approved{Name: items[n].ID.Name, Result: "approved", Status: r.Tool.Status}
		switch {
		case r.Err == nil:
			out.Count++
		case r.Err.Status >= http.StatusInternalServerError:
			one.Result, one.Detail = "failed", r.Err.Detail
		default:
			one.Result, one.Detail = "refused", r.Err.Detail
		}
		out.Tools[n] = one
	}
	return out, nil
}
