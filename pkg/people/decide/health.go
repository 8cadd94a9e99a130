package decide

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Health is the state of the gateway, with the details that /healthz withholds.
type Health struct {
	Status     state.Condition `json:"status" enum:"ok,degraded,failing" doc:"degraded: the gateway serves requests, but something is outdated, refused or missing; failing: no tool is callable"`
	Reasons    []state.Reason  `json:"reasons" nullable:"false" doc:"all problems, the worst first; minor problems leave the status ok"`
	Version    string          `json:"version,omitempty" doc:"version of the program"`
	CatalogAge *int64          `json:"catalog_age_seconds,omitempty" doc:"seconds since a sync last confirmed the catalog"`
	Tools      int             `json:"tools"`
	Prompts    int             `json:"prompts"`
	Resources  int             `json:"resources" doc:"number of resources and resource templates"`
	Outcomes   map[string]int  `json:"outcomes" doc:"number of enabled servers by the status of their last load; /admin/servers has details"`
	State      Freshness       `json:"state"`
	Capacity   *capacity.Facts `json:"capacity,omitempty" doc:"load and limits of one machine"`
}

// Health returns the state of the gateway.
func (d *Service) Health(ctx context.Context) Health {
	st := d.states.Load(ctx)
	condition, reasons := d.allReasons(ctx, st)
	out := Health{
		Status: condition, Reasons: reasons, Version: d.o.Version,
		Tools: st.Health.Servers.Tools, Outcomes: map[string]int{}, State: freshnessOf(st), Capacity: st.Health.Capacity,
	}
	if st.Catalog != nil {
		age := int64(d.o.Now().Sub(st.Catalog.Current().SyncedAt) / time.Second)
		out.CatalogAge = &age
	}
	v := st.View(d.o.Agent)
	for i := range v.Items().All() {
		if v.ID(i).Kind == tool.Prompt {
			out.Prompts++
		} else {
			out.Resources++
		}
	}
	for _, s := range st.Servers() {
		if s.Config.Enabled {
			out.Outcomes[OutcomeOf(s.Config.Name, s.Outcome).Status]++
		}
	}
	return out
}
