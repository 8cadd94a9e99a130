package admin

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// A Health says how the gateway is, and what /healthz keeps from everybody.
type Health struct {
	Status     string         `json:"status" enum:"ok,degraded,failing" doc:"degraded: requests are served, and something is older, refused or missing; failing: no tool can be called"`
	Reasons    []Reason       `json:"reasons" nullable:"false" doc:"everything that is wrong, the worst first"`
	Version    string         `json:"version,omitempty" doc:"of the program"`
	CatalogAge *int64         `json:"catalog_age_seconds,omitempty" doc:"since a sync last confirmed the catalog"`
	Tools      int            `json:"tools"`
	Outcomes   map[string]int `json:"outcomes" doc:"servers that are enabled, by how they loaded; /admin/servers says more of each"`
	State      Freshness      `json:"state"`
}

// A Reason is one thing that is wrong.
type Reason struct {
	Code    string    `json:"code" doc:"stable: config_refused, servers_down, …"`
	Status  string    `json:"status" enum:"degraded,failing" doc:"what it makes of the gateway"`
	Message string    `json:"message" doc:"what is the matter, and what follows from it"`
	Action  string    `json:"action" doc:"who does what next"`
	Since   time.Time `json:"since,omitzero" doc:"when it began or, if that is not known, was first seen by this process"`
}

type healthOutput struct{ Body Health }

func (a *api) health(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	return &healthOutput{a.healthOf(a.states.Load(ctx))}, nil
}

func (a *api) healthOf(st *state.State) Health {
	out := Health{
		Status: string(st.Health.Condition()), Reasons: []Reason{}, Version: a.o.Version,
		Tools: st.Health.Servers.Tools, Outcomes: map[string]int{}, State: freshnessOf(st),
	}
	for _, r := range st.Health.Reasons() {
		out.Reasons = append(out.Reasons, Reason{Code: r.Code, Status: string(r.Condition), Message: r.Message, Action: r.Action, Since: r.Since})
	}
	if st.Catalog != nil {
		age := int64(a.o.Now().Sub(st.Catalog.Current().SyncedAt) / time.Second)
		out.CatalogAge = &age
	}
	for _, s := range st.Servers() {
		if s.Config.Enabled {
			out.Outcomes[outcomeOf(s.Config.Name, s.Outcome).Status]++
		}
	}
	return out
}
