package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// registerUsage adds the operations on the usage.
func (a *api) registerUsage(h huma.API) {
	read := get("usage", "/admin/usage", "Get the usage of tools by agents over time, and by "+
		"tool and agent if that is known")
	read.Errors = []int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented, http.StatusServiceUnavailable}
	serve(a, h, read, a.usage)
	ask := post("ask-usage", "/admin/usage", "Start a charged query of the log for tools and "+
		"agents; the answer has the id with which you read the result")
	ask.DefaultStatus = http.StatusAccepted
	ask.Errors = []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusNotImplemented, http.StatusBadGateway}
	serve(a, h, ask, a.askUsage)
	agents := get("agents", "/admin/agents", "List the agents that called in the last month, have a token or requested access, the newest call first")
	agents.Errors = append(agents.Errors, http.StatusUnprocessableEntity)
	serve(a, h, agents, func(ctx context.Context, in *agentsInput) (decide.SeenAgents, error) {
		return a.service.SeenAgents(ctx, in.AgentQuery, in.Paging)
	})
}

type agentsInput struct {
	decide.AgentQuery
	decide.Paging
}

type usageInput struct {
	Range string `query:"range" default:"24h" doc:"1h, 24h, 7d or 30d"`
	Query string `query:"query" maxLength:"200" doc:"id of a started query for the same range"`
}

func (a *api) usage(ctx context.Context, in *usageInput) (decide.Usage, error) {
	return a.service.Usage(ctx, in.Range, in.Query)
}

type askUsageInput struct {
	Body struct {
		Range string `json:"range" doc:"1h, 24h, 7d or 30d"`
	}
}

func (a *api) askUsage(ctx context.Context, in *askUsageInput) (decide.StartedQuery, error) {
	return a.service.AskUsage(ctx, in.Body.Range)
}
