package admin

import (
	"cmp"
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An ItemPath names the tool, prompt or resource of a request. It is exported because huma does not
// read parameters of an unexported embedded struct.
type ItemPath struct {
	Server string `path:"server"`
	Name   string `path:"name" doc:"name; for a resource the SHA-256 of its URI in lower-case hex"`
}

// A kindAPI serves the items of one kind.
type kindAPI struct {
	*api
	kind tool.Kind
}

// registerKind adds the operations on one item of a kind.
func (a *api) registerKind(h huma.API, kind tool.Kind) {
	k, name, path := kindAPI{a, kind}, kind.String(), "/admin/"+kind.String()+"s/{server}/{name}"
	history, undo := "get-"+name+"-history", "undo-"+name
	if kind == tool.Tool {
		history, undo = "get-history", "undo-decision"
	}
	serve(a, h, get("get-"+name, path, "Get one "+name+": its lock, its record, and both definitions if it changed"), k.get)
	serve(a, h, get(history, path+"/history", "List the history of one "+name+", newest first"), k.history)
	for _, hash := range []struct{ action, summary string }{
		{approval.ActionApprove, "Approve the definition with this hash"},
		{approval.ActionBlock, "Refuse the definition with this hash permanently; other " +
			"definitions wait for approval as usual"},
		{approval.ActionUnblock, "Remove a block without an approval"},
	} {
		serve(a, h, post(hash.action+"-"+name, path+"/"+hash.action, hash.summary), k.decideHash(hash.action))
	}
	serve(a, h, post("disable-"+name, path+"/disable", "Lock a "+name+" until somebody enables it"), k.decide(approval.ActionDisable))
	serve(a, h, post("enable-"+name, path+"/enable", "Enable a disabled "+name+" without an approval"), k.decide(approval.ActionEnable))
	serve(a, h, post(undo, path+"/undo", "Undo the last decision, within 10 minutes"), k.undo)
}

func (k kindAPI) find(ctx context.Context, in ItemPath) (tool.ID, error) {
	return k.service.Find(ctx, k.kind, in.Server, in.Name)
}

type getInput struct {
	ItemPath
	For string `query:"for" enum:"approve,block,unblock,disable,enable,undo,carry" doc:"the answer says why you cannot take this action now"`
}

func (k kindAPI) get(ctx context.Context, in *getInput) (out decide.Tool, err error) {
	id, err := k.find(ctx, in.ItemPath)
	if err != nil {
		return out, err
	}
	if out, err = k.service.Tool(ctx, id); err == nil && in.For != "" {
		out.Obstacle = out.Facts.Before(in.For, decide.ShownHash, false)
	}
	return out, err
}

type historyInput struct {
	ItemPath
	decide.Paging
}

func (k kindAPI) history(ctx context.Context, in *historyInput) (out decide.History, err error) {
	id, err := k.find(ctx, in.ItemPath)
	if err != nil {
		return out, err
	}
	return k.service.History(ctx, id, in.Paging)
}

// DecisionBody has what the person saw, and their note. If it has a revision, and the record has
// another revision now, the API refuses the decision.
type DecisionBody struct {
	Rev  int64  `json:"rev,omitempty" minimum:"1" doc:"revision of the record that you saw; if the record has changed since, nothing is decided. Without rev, the decision applies even if others have decided since"`
	Note string `json:"note,omitempty" doc:"why, at most 4096 bytes; required to approve a definition with a severe finding"`
	Tell bool   `json:"tell,omitempty" doc:"agents may see the note, with your name"`

	Shown ViewMethod `json:"shown,omitempty" enum:"opened,printed,hash,seen,lock_file,none" default:"hash" doc:"for an approval: how you saw the definition, for the audit"`
}

func (b DecisionBody) decision(action string, hash tool.Hash) decide.Decision {
	return decide.Decision{Action: action, Hash: hash, Rev: b.Rev, Note: b.Note, Tell: b.Tell, Shown: b.Shown.way()}
}

// ViewMethod says how a person saw a definition. The default is hash, because a person who sends
// the hash must have seen the definition. "none" says that they have not seen it.
type ViewMethod string

func (m ViewMethod) way() decide.ViewMethod {
	if m == "none" {
		return ""
	}
	return cmp.Or(decide.ViewMethod(m), decide.ShownHash)
}

// carryOut decides about the item that the request's path names.
func (k kindAPI) carryOut(ctx context.Context, in ItemPath, d decide.Decision) (out decide.Tool, err error) {
	id, err := k.find(ctx, in)
	if err != nil {
		return out, err
	}
	return k.service.Decide(ctx, id, d)
}

type hashInput struct {
	ItemPath
	Body struct {
		DecisionBody
		Hash tool.Hash `json:"hash,omitempty" pattern:"^([0-9a-f]{64})?$" doc:"hash of the definition that you saw; required"`
	}
}

// decideHash returns the operation that decides about one definition of an item.
func (k kindAPI) decideHash(action string) func(context.Context, *hashInput) (decide.Tool, error) {
	return func(ctx context.Context, in *hashInput) (decide.Tool, error) {
		return k.carryOut(ctx, in.ItemPath, in.Body.decision(action, in.Body.Hash))
	}
}

type itemInput struct {
	ItemPath
	Body *struct {
		DecisionBody
		Hash tool.Hash `json:"hash,omitempty" pattern:"^[0-9a-f]{64}$" doc:"hash of the definition that you saw; if the record has changed since, nothing is decided"`
	}
}

// decide returns the operation that decides about an item with any definition.
func (k kindAPI) decide(action string) func(context.Context, *itemInput) (decide.Tool, error) {
	return func(ctx context.Context, in *itemInput) (decide.Tool, error) {
		if in.Body == nil {
			return k.carryOut(ctx, in.ItemPath, decide.Decision{Action: action})
		}
		return k.carryOut(ctx, in.ItemPath, in.Body.decision(action, in.Body.Hash))
	}
}

type undoInput struct {
	ItemPath
	Body struct {
		Rev int64 `json:"rev,omitempty" minimum:"0" doc:"revision that the decision made; required"`
	}
}

func (k kindAPI) undo(ctx context.Context, in *undoInput) (decide.Tool, error) {
	return k.carryOut(ctx, in.ItemPath, decide.Decision{Action: approval.ActionUndo, Rev: in.Body.Rev})
}
