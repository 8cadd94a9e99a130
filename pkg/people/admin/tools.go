package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// toolsInput is the query of a list of tools, prompts and resources. Package decide parses it, so
// the API and the pages refuse invalid values in the same words.
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
	return a.service.List(ctx, f, p)
}

// defaultLimit is the default number of items on a page.
const defaultLimit = 50

type serversOutputBody struct {
	Servers []decide.Server  `json:"servers" nullable:"false"`
	State   decide.Freshness `json:"state"`
	decide.Next
}

func (a *api) listServers(ctx context.Context, in *decide.Paging) (out serversOutputBody, err error) {
	out.Servers, out.Next, err = a.service.Servers(ctx, *in)
	out.State = a.service.Freshness(ctx)
	return out, err
}

type serverInput struct {
	Server string `path:"server"`
}

func (a *api) getServer(ctx context.Context, in *serverInput) (decide.ServerDetail, error) {
	return a.service.Server(ctx, in.Server)
}

func (a *api) config(ctx context.Context, _ *struct{}) (decide.Config, error) {
	return a.service.Config(ctx), nil
}

func (a *api) health(ctx context.Context, _ *struct{}) (decide.Health, error) {
	return a.service.Health(ctx), nil
}

type bulkInput struct {
	Body struct {
		Action string     `json:"action" enum:"approve,block,disable,enable,undo,carry" doc:"undo reverts the last decision and needs the rev that it made; carry approves only definitions that were approved in another version of the same server"`
		Items  []BulkItem `json:"items" nullable:"false" doc:"1 to 500"`
		Note   string     `json:"note,omitempty" doc:"why, for all items, at most 4096 bytes"`
		Tell   bool       `json:"tell,omitempty" doc:"agents may see the note, with your name"`
		Shown  ViewMethod `json:"shown,omitempty" enum:"opened,printed,hash,seen,lock_file,none" default:"hash" doc:"for an approval: how you saw the definitions. none: definitions that have findings, are annotated as destructive or changed since their approval are refused"`
	}
}

// A BulkItem is one of many items in a request, as the person saw it.
type BulkItem struct {
	ID   string    `json:"id" doc:"server:tool, server:prompt:name or server:resource:uri"`
	Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"hash of the definition that you saw"`
	Rev  int64     `json:"rev,omitempty" minimum:"1" doc:"revision of the record that you saw; if the record has changed since, nothing is decided about this item"`
}

// A BulkResult says what happened to one of many items.
type BulkResult struct {
	ID     string      `json:"id"`
	Result string      `json:"result" enum:"done,refused,failed"`
	Status string      `json:"status,omitempty" doc:"status of the item after the decision"`
	Rev    int64       `json:"rev,omitempty" doc:"revision of the record after the decision; an undo names it"`
	Code   decide.Code `json:"code,omitempty" doc:"stable code of the reason why nothing was decided about this item"`
	Detail string      `json:"detail,omitempty" doc:"the same in words"`
}

// A BulkAnswer says what happened to many items.
type BulkAnswer struct {
	Tools []BulkResult `json:"tools" nullable:"false" doc:"in the order of the request"`
	Count int          `json:"done" doc:"number of items that were decided"`
}

// decideAll decides about each item separately: if an item has changed since, only that item fails.
func (a *api) decideAll(ctx context.Context, in *bulkInput) (out BulkAnswer, err error) {
	items := make([]decide.Item, len(in.Body.Items))
	for n, t := range in.Body.Items {
		id, err := tool.ParseID(t.ID)
		if err != nil {
			return out, problem(http.StatusUnprocessableEntity, "item "+strconv.Itoa(n+1)+" does not name a tool as server:tool, a prompt as server:prompt:name or a resource as server:resource:uri, and nothing was decided")
		}
		items[n] = decide.Item{ID: id, Hash: t.Hash, Rev: t.Rev, Shown: in.Body.Shown.way()}
	}
	results, err := a.service.DecideAll(ctx, decide.Decision{Action: in.Body.Action, Note: in.Body.Note, Tell: in.Body.Tell}, items)
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
			one.Code, one.Detail = r.Err.Code, r.Err.Detail
		}
		out.Tools[n] = one
	}
	return out, nil
}
