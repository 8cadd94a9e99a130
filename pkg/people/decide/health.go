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
	Status     state.Condition `json:"status" enum:"ok,degraded,failing" doc:"degraded: requests are served, and something is older, refused or missing; failing: no tool can be called"`
	Reasons    []state.Reason  `json:"reasons" nullable:"false" doc:"everything that is wrong, the worst first; some of it leaves the gateway ok"`
	Version    string          `json:"version,omitempty" doc:"of the program"`
	CatalogAge *int64          `json:"catalog_age_seconds,omitempty" doc:"since a sync last confirmed the catalog"`
	Tools      int             `json:"tools"`
	Prompts    int             `json:"prompts"`
	Resources  int             `json:"resources" doc:"and templates of them"`
	Outcomes   map[string]int  `json:"outcomes" doc:"servers that are enabled, by how they loaded; /admin/servers says more of each"`
	State      Freshness       `json:"state"`
	Capacity   *capacity.Facts `json:"capacity,omitempty" doc:"of one machine: what is in flight, and how much may be"`
}

// Health returns the state of the gateway.
func (d *Service) Health(ctx context.Context) Health {
	st := d.states.Load(ctx)
	condition, reasons := d.allReasons(st)
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
