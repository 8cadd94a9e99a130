package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

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

type serverInput struct {
	Server string `path:"server"`
}

func (a *api) getServer(ctx context.Context, in *serverInput) (decide.ServerDetail, error) {
	return a.desk.Server(ctx, in.Server)
}

func (a *api) config(ctx context.Context, _ *struct{}) (decide.Config, error) {
	return a.desk.Config(ctx), nil
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

type historyInput struct {
	ToolPath
	decide.Paging
}

func (a *api) history(ctx context.Context, in *historyInput) (decide.History, error) {
	return a.desk.History(ctx, in.id(), in.Paging)
}

// Seen is what a person saw before deciding, and what they say. A decision about a record that is
// another by now is not carried out.
type Seen struct {
	Rev  int64  `json:"rev,omitempty" minimum:"1" doc:"of the record that was seen; if it is another by now, nothing is decided. Without it the decision is taken whatever others decided meanwhile"`
	Note string `json:"note,omitempty" maxLength:"4096" doc:"why; to approve a definition with a severe finding it is required"`
	Tell bool   `json:"tell,omitempty" doc:"agents may be told the note, as what you said"`
}

func (s Seen) decision(action string, hash tool.Hash) decide.Decision {
	return decide.Decision{Action: action, Hash: hash, Rev: s.Rev, Note: s.Note, Tell: s.Tell}
}

type hashInput struct {
	ToolPath
	Body struct {
		Seen
		Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen"`
	}
}

// decideHash returns the operation that decides about one definition of a tool.
func (a *api) decideHash(action string) func(context.Context, *hashInput) (decide.Tool, error) {
	return func(ctx context.Context, in *hashInput) (decide.Tool, error) {
		return a.desk.Decide(ctx, in.id(), in.Body.decision(action, in.Body.Hash))
	}
}

type toolInput struct {
	ToolPath
	Body *struct {
		Seen
		Hash tool.Hash `json:"hash,omitempty" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen; if it is another by now, nothing is decided"`
	}
}

// decideTool returns the operation that decides about a tool whatever its definition is.
func (a *api) decideTool(action string) func(context.Context, *toolInput) (decide.Tool, error) {
	return func(ctx context.Context, in *toolInput) (decide.Tool, error) {
		if in.Body == nil {
			return a.desk.Decide(ctx, in.id(), decide.Decision{Action: action})
		}
		return a.desk.Decide(ctx, in.id(), in.Body.decision(action, in.Body.Hash))
	}
}

type undoInput struct {
	ToolPath
	Body struct {
		Rev int64 `json:"rev" minimum:"1" doc:"that the decision made"`
	}
}

func (a *api) undo(ctx context.Context, in *undoInput) (decide.Tool, error) {
	return a.desk.Decide(ctx, in.id(), decide.Decision{Action: approval.ActionUndo, Rev: in.Body.Rev})
}

type bulkInput struct {
	Body struct {
		Action string     `json:"action" enum:"approve,block,disable,enable"`
		Items  []BulkItem `json:"items" minItems:"1" maxItems:"500" nullable:"false"`
		Note   string     `json:"note,omitempty" maxLength:"4096" doc:"why, for all of them"`
		Tell   bool       `json:"tell,omitempty" doc:"agents may be told the note, as what you said"`
	}
}

// A BulkItem is one of many tools, as it was seen.
type BulkItem struct {
	ID   string    `json:"id" doc:"server:tool"`
	Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen"`
	Rev  int64     `json:"rev,omitempty" minimum:"1" doc:"of the record that was seen; if it is another by now, nothing is decided about this tool"`
}

// A BulkResult is what became of one of many tools.
type BulkResult struct {
	ID     string `json:"id"`
	Result string `json:"result" enum:"done,refused,failed"`
	Status string `json:"status,omitempty" doc:"of the tool after it"`
	Rev    int64  `json:"rev,omitempty" doc:"of the record after it; an undo names it"`
	Detail string `json:"detail,omitempty" doc:"why nothing was decided about it"`
}

type bulkOutputBody struct {
	Tools []BulkResult `json:"tools" nullable:"false" doc:"in the order of the request"`
	Count int          `json:"done" doc:"about how many it was decided"`
}

// decideAll decides about each tool by itself: one that changed meanwhile does not stop the others.
func (a *api) decideAll(ctx context.Context, in *bulkInput) (out bulkOutputBody, err error) {
	items := make([]decide.Item, len(in.Body.Items))
	for n, t := range in.Body.Items {
		id, err := tool.ParseID(t.ID)
		if err != nil {
			return out, problem(http.StatusUnprocessableEntity, "item "+strconv.Itoa(n+1)+" does not name a tool as server:tool, and nothing was decided")
		}
		items[n] = decide.Item{ID: id, Hash: t.Hash, Rev: t.Rev}
	}
	results, err := a.desk.DecideAll(ctx, decide.Decision{Action: in.Body.Action, Note: in.Body.Note, Tell: in.Body.Tell}, items)
	if err != nil {
		return out, err
	}
	out.Tools = make([]BulkResult, len(items))
	for n, r := range results {
		one := BulkResult{ID: in.Body.Items[n].ID, Result: "refused"}
		switch {
		case r.Err == nil:
			one.Result, one.Status, one.Rev = "done", r.Tool.Status, r.Tool.Record.Rev
			out.Count++
		case r.Err.Status >= http.StatusInternalServerError:
			one.Result = "failed"
		}
		if r.Err != nil {
			one.Detail = r.Err.Detail
		}
		out.Tools[n] = one
	}
	return out, nil
}
