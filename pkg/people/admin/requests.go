package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// registerRequests adds the operations on agents' requests. The agent's user needs no role for the
// operations below /admin/ask.
func (a *api) registerRequests(h huma.API) {
	errs := []int{http.StatusNotFound, http.StatusConflict, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusNotImplemented}
	serve(a, h, get("list-requests", "/admin/requests", "List requests of agents, newest first"), a.listRequests)
	serve(a, h, get("get-request", "/admin/requests/{id}", "Get one request, with the current "+
		"lock, the arguments of a waiting call, and the lock that no decision here can "+
		"override"), a.getRequest)
	decision := post("decide-request", "/admin/requests/{id}/decide", "Decide about a request; approving and declining apply to all requests for the same definition")
	ask := post("ask", "/admin/ask/{code}", "Make the request that a link describes, or change it while it is open; only the agent's user may")
	withdraw := post("withdraw-request", "/admin/ask/{code}/withdraw", "Withdraw an open request; only the agent's user may")
	decision.Errors, ask.Errors, withdraw.Errors = errs, errs, errs
	serve(a, h, decision, a.decideRequest)
	serve(a, h, get("get-asking", "/admin/ask/{code}", "Get the request of a link, and what you may do with it"), a.asking)
	serve(a, h, ask, a.ask)
	serve(a, h, withdraw, a.withdraw)
}

// Requests are a list of requests.
type Requests struct {
	Requests []decide.Request `json:"requests" nullable:"false" doc:"the newest first, at most 500"`
	All      bool             `json:"all" doc:"false: requests are missing, because there are too many for one answer, or because some could not be read; the gateway's log says which of the two"`
}

type requestsInput struct {
	State string `query:"state" enum:"open,all" default:"open" doc:"open: requests that wait for a decision; all: all stored requests"`
}

func (a *api) listRequests(ctx context.Context, in *requestsInput) (Requests, error) {
	list, all, err := a.service.Requests(ctx, in.State != "all")
	return Requests{append([]decide.Request{}, list...), all}, err
}

type requestInput struct {
	ID string `path:"id" maxLength:"64" doc:"such as R-7KQ2M4XD"`
}

func (a *api) getRequest(ctx context.Context, in *requestInput) (decide.Request, error) {
	return a.service.Request(ctx, in.ID)
}

type decideRequestInput struct {
	ID   string `path:"id" maxLength:"64" doc:"such as R-7KQ2M4XD"`
	Body struct {
		Verdict request.Verdict `json:"verdict" enum:"approved,allowed,confirmed,declined,revoked" doc:"approved: for all agents; allowed: to this agent, for minutes; confirmed: one call, once; revoked: ends what was allowed or confirmed"`
		Hash    tool.Hash       `json:"hash,omitempty" doc:"hash of the definition that you saw; required, except for revoked"`
		Args    string          `json:"args,omitempty" doc:"for one call: hash of the arguments that you saw"`
		Tool    string          `json:"tool,omitempty" maxLength:"8192" doc:"id of the tool that you saw, server:tool; if the request is for another tool, nothing is decided"`
		Agent   request.Agent   `json:"agent,omitzero" doc:"agent that you saw, as in the request; if the request is from another agent, nothing is decided"`
		Minutes int             `json:"minutes,omitempty" doc:"for allowed: 1 to 43,200"`
		Reason  string          `json:"reason,omitempty" doc:"at most 500 characters; required to decline, and to unlock a definition with a severe finding. The agent sees it; for approved it is the note"`
		Shown   ViewMethod      `json:"shown,omitempty" enum:"opened,printed,hash,seen,lock_file,none" default:"hash" doc:"for approved: how you saw the definition, for the audit"`
	}
}

func (a *api) decideRequest(ctx context.Context, in *decideRequestInput) (decide.Request, error) {
	b := in.Body
	dec := decide.RequestDecision{Verdict: b.Verdict, Hash: b.Hash, Args: b.Args, Tool: b.Tool, Minutes: b.Minutes, Reason: b.Reason, Shown: b.Shown.way()}
	if b.Agent != (request.Agent{}) {
		dec.Agent = b.Agent.Key()
	}
	return a.service.DecideRequest(ctx, in.ID, dec)
}

type askInput struct {
	Code string `path:"code" maxLength:"8192" doc:"id of a request, or the code in a link without an id"`
}

func (a *api) asking(ctx context.Context, in *askInput) (decide.Asking, error) {
	return a.service.Asking(ctx, in.Code)
}

type wantInput struct {
	Code string `path:"code" maxLength:"8192" doc:"id of a request, or the code in a link without an id"`
	Body struct {
		Why     string `json:"why,omitempty" doc:"reason for the request, at most 500 characters"`
		Minutes int    `json:"minutes,omitempty" doc:"how long the agent needs the tool, 1 to 43,200; 0: no limit"`
	}
}

func (a *api) ask(ctx context.Context, in *wantInput) (decide.Asking, error) {
	return a.service.Ask(ctx, in.Code, decide.Want{Why: in.Body.Why, Minutes: in.Body.Minutes})
}

type withdrawInput struct {
	Code string `path:"code" maxLength:"8192" doc:"id of a request, or the code in a link without an id"`
	Body struct{}
}

func (a *api) withdraw(ctx context.Context, in *withdrawInput) (decide.Asking, error) {
	return a.service.Withdraw(ctx, in.Code)
}
