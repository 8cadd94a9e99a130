package state

import (
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// A Server is one configured server.
type Server struct {
	Config  config.Server
	Outcome outcome.Outcome // of the last attempt to load it; the zero Outcome: never tried
	First   int             // number of its first tool
	Tools   int             // how many it has; they lie side by side
}

// An inventory is what follows from the config and the catalog's tools alone, for every
// agent and before what people decided. It is immutable.
type inventory struct {
	cfg  *config.Config
	snap *catalog.Snapshot // outcomes of it are not used
	rows []row             // one a tool of the catalog

	readOnly tool.Set
}

// A row is what is known of one tool apart from people's decisions.
type row struct {
	server int // index in cfg.Servers; -1: not configured any more, so the tool does not exist
	hints  tool.Annotations
	tier   tool.Tier
}

func newInventory(cfg *config.Config, snap *catalog.Snapshot) *inventory {
	inv := &inventory{cfg: cfg, snap: snap, rows: make([]row, snap.Len()), readOnly: tool.NewSet(snap.Len())}
	for i := range inv.rows {
		inv.rows[i].server = -1
	}
	for n, server := range cfg.Servers {
		listed, _ := snap.Server(server.Name)
		for i := listed.First; i < listed.First+listed.Tools; i++ {
			hints := server.Override(snap.ID(i).Name, snap.Tool(i).Definition.Annotations)
			inv.rows[i] = row{server: n, hints: hints, tier: hints.Tier()}
			if hints.Tier() == tool.Read {
				inv.readOnly.Add(i)
			}
		}
	}
	return inv
}

// policyTool is what a rule can know of tool i.
func (inv *inventory) policyTool(i int) policy.Tool {
	r := &inv.rows[i]
	return policy.Tool{ID: inv.snap.ID(i), Annotations: r.hints, Tier: r.tier}
}

// Inventory returns the tools and servers to check rules and toolsets with: those of the
// catalog under cfg, which need not be the config that it was made with.
func Inventory(cfg *config.Config, snap *catalog.Snapshot) ([]policy.Tool, toolset.Universe) {
	inv := newInventory(cfg, snap)
	var tools []policy.Tool
	for i, r := range inv.rows {
		if r.server >= 0 {
			tools = append(tools, inv.policyTool(i))
		}
	}
	return tools, inv.universe(inv.servers(snap))
}

// servers pairs each configured server with how it last loaded.
func (inv *inventory) servers(snap *catalog.Snapshot) []Server {
	out := make([]Server, len(inv.cfg.Servers))
	for i, c := range inv.cfg.Servers {
		out[i] = Server{Config: c}
		if s, ok := snap.Server(c.Name); ok {
			out[i].Outcome, out[i].First, out[i].Tools = s.Outcome, s.First, s.Tools
		}
	}
	return out
}

// universe is what selection works on. Its tools have the numbers of the catalog.
func (inv *inventory) universe(servers []Server) toolset.Universe {
	u := toolset.Universe{
		Tools:   make([]toolset.Tool, len(inv.rows)),
		Servers: make([]toolset.Server, len(servers)),
	}
	for i := range inv.rows {
		u.Tools[i] = toolset.Tool{ID: inv.snap.ID(i), ReadOnly: inv.readOnly.Has(i)}
	}
	for i, s := range servers {
		status := s.Outcome.Status
		u.Servers[i] = toolset.Server{
			Name:       s.Config.Name,
			Loaded:     s.Config.Enabled && status == outcome.Available,
			Transient:  s.Config.Enabled && (status == outcome.Transient || status == ""),
			RetryAfter: s.Outcome.RetryAfter,
		}
	}
	return u
}
