package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// A HealthReport is the body of /healthz. The parts after Outcomes are for callers
// whom Options.Actor knows and who name a known host: they name servers and say what is
// wrong with files.
type HealthReport struct {
	Status     string         `json:"status"` // ok, stale or unavailable
	Version    string         `json:"version,omitempty"`
	Config     string         `json:"config,omitempty"` // version of the config in use
	Stale      []string       `json:"stale"`            // parts of which something else is stored, or may be
	CatalogAge *int64         `json:"catalog_age_seconds,omitempty"`
	Tools      int            `json:"tools"`
	Outcomes   map[string]int `json:"outcomes"` // servers that are enabled, by how they loaded

	State   *Freshness     `json:"state,omitempty"`
	Servers []HealthServer `json:"servers,omitempty"`
}

// A HealthServer is one configured server.
type HealthServer struct {
	Name    string  `json:"name"`
	Enabled bool    `json:"enabled"`
	Outcome Outcome `json:"outcome"`
}

// Health returns the handler of /healthz: 200 while requests can be served,
// if from what is stale, else 503.
func Health(states *state.Loader, o *Options) http.Handler {
	a := &api{states: states, o: o.withDefaults()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st := states.Load(r.Context())
		_, err := a.actor(r)
		out := a.health(st, err == nil && a.knownHost(r))
		status := http.StatusOK
		if !st.Ready() {
			status = http.StatusServiceUnavailable
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // the caller has gone if this fails
	})
}

func (a *api) health(st *state.State, known bool) HealthReport {
	out := HealthReport{Status: "ok", Version: a.o.Version, Config: st.Health.Config.Version, Stale: []string{}, Outcomes: map[string]int{}}
	for _, p := range []struct {
		name string
		part state.Part
	}{
		{"config", st.Health.Config}, {"policy", st.Health.Policy}, {"catalog", st.Health.Catalog}, {"approvals", st.Health.Approvals},
	} {
		if p.part.Stale {
			out.Stale = append(out.Stale, p.name)
			out.Status = "stale"
		}
	}
	if !st.Ready() {
		out.Status = "unavailable"
	}
	if st.Catalog != nil {
		out.Tools = st.Catalog.Len()
		age := int64(a.o.Now().Sub(st.Catalog.Current().SyncedAt) / time.Second)
		out.CatalogAge = &age
	}
	for _, s := range st.Servers() {
		o := outcomeOf(s.Config.Name, s.Outcome)
		if s.Config.Enabled {
			out.Outcomes[o.Status]++
		}
		if known {
			out.Servers = append(out.Servers, HealthServer{Name: s.Config.Name, Enabled: s.Config.Enabled, Outcome: o})
		}
	}
	if known {
		f := freshnessOf(st)
		out.State = &f
	}
	return out
}
