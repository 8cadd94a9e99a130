package state

import (
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// A Server is one configured server.
type Server struct {
	Config  config.Server
	Outcome outcome.Outcome // of the last load; zero: never tried
	First   int             // number of its first tool
	Tools   int             // number of its tools, which are consecutive

	FirstItem int // number of its first prompt or resource
	Items     int // number of these items, which are consecutive, prompts first
}

// An inventory depends only on the config and the catalog's tools. It is the same for every agent,
// and contains no decisions. It is immutable.
type inventory struct {
	cfg  *config.Config
	snap *catalog.Snapshot // without its outcomes
	rows []row             // one for each item of the catalog

	tools     []toolset.Tool           // the same items for selection; items without a server have no id
	readOnly  tool.Set                 // only tools
	confirm   tool.Set                 // tools whose calls each need a confirmation
	templates func() []int             // of resources; computed on first use
	plain     func() map[tool.ID][]int // resources by the plain spelling of their URI, also on first use
	apps      func() Apps              // also on first use
}

// A row describes one item, without decisions.
type row struct {
	server int // index in cfg.Servers; -1: no longer configured, so the item does not exist
	hints  tool.Annotations
	tier   tool.Tier
}

func newInventory(cfg *config.Config, snap *catalog.Snapshot) *inventory {
	inv := &inventory{cfg: cfg, snap: snap, rows: make([]row, snap.Items()), tools: make([]toolset.Tool, snap.Items()), readOnly: tool.NewSet(snap.Len()), confirm: tool.NewSet(snap.Len())}
	for i := range inv.rows {
		inv.rows[i].server = -1
	}
	for n := range cfg.Servers {
		server := &cfg.Servers[n]
		numbers, _ := snap.Server(server.Name)
		for i := numbers.First; i < numbers.First+numbers.Tools; i++ {
			inv.addTool(i, n, server)
		}
		for i := numbers.FirstItem; i < numbers.FirstItem+numbers.Items; i++ {
			inv.rows[i] = row{server: n, hints: itemHints, tier: tool.Read}
			inv.tools[i] = toolset.Tool{ID: snap.ID(i), ReadOnly: true}
		}
	}
	inv.templates, inv.plain = sync.OnceValue(inv.findTemplates), sync.OnceValue(inv.findPlain)
	inv.apps = sync.OnceValue(inv.findApps)
	return inv
}

// addTool adds tool i of the n-th server of the config.
func (inv *inventory) addTool(i, n int, server *config.Server) {
	id, hints := inv.snap.ToolID(i, server.Name), inv.snap.Annotations(i)
	if len(server.Annotations) > 0 {
		hints = server.Override(id.Name, hints)
	}
	inv.rows[i] = row{server: n, hints: hints, tier: hints.Tier()}
	inv.tools[i] = toolset.Tool{ID: id, ReadOnly: inv.rows[i].tier == tool.Read}
	if inv.tools[i].ReadOnly {
		inv.readOnly.Add(i)
	}
	if inv.cfg.Tools.Confirms(id) {
		inv.confirm.Add(i)
	}
}

// findTemplates returns the numbers of the configured templates of resources.
func (inv *inventory) findTemplates() (out []int) {
	for i := inv.snap.Len(); i < len(inv.rows); i++ {
		if inv.rows[i].server >= 0 && inv.snap.Tool(i).Definition.Template {
			out = append(out, i)
		}
	}
	return out
}

// findPlain returns the numbers of the configured resources by the plain spelling of their URI.
func (inv *inventory) findPlain() map[tool.ID][]int {
	out := map[tool.ID][]int{}
	for i := inv.snap.Len(); i < len(inv.rows); i++ {
		if id := inv.snap.ID(i); id.Kind == tool.Resource && inv.rows[i].server >= 0 && !inv.snap.Tool(i).Definition.Template {
			id.Name = tool.PlainURI(id.Name)
			out[id] = append(out[id], i)
		}
	}
	return out
}

// itemHints are the hints of every prompt and resource. A read changes nothing, and the content may
// come from any source.
var itemHints = tool.Annotations{
	ReadOnlyHint: new(true), DestructiveHint: new(false), IdempotentHint: new(true), OpenWorldHint: new(true),
}

// policyTool returns the facts of item i for policy rules.
func (inv *inventory) policyTool(i int) policy.Tool {
	r := &inv.rows[i]
	return policy.Tool{ID: inv.tools[i].ID, Annotations: r.hints, Tier: r.tier}
}

// Inventory returns items and servers for checks of rules and toolsets. These are the catalog's
// items under cfg, which may be newer than the catalog.
func Inventory(cfg *config.Config, snap *catalog.Snapshot) ([]policy.Tool, toolset.Universe) {
	inv := newInventory(cfg, snap)
	var tools []policy.Tool
	for i, r := range inv.rows {
		if r.server >= 0 {
			tools = append(tools, inv.policyTool(i))
		}
	}
	return tools, inv.universe(loadedServers(inv.servers(snap)))
}

// servers returns each configured server with its last outcome.
func (inv *inventory) servers(snap *catalog.Snapshot) []Server {
	out := make([]Server, len(inv.cfg.Servers))
	for i, c := range inv.cfg.Servers {
		out[i] = Server{Config: c}
		if s, ok := snap.Server(c.Name); ok {
			out[i].Outcome, out[i].First, out[i].Tools = s.Outcome, s.First, s.Tools
			out[i].FirstItem, out[i].Items = s.FirstItem, s.Items
		}
	}
	return out
}

// universe returns the universe of selection. Its items have the numbers of the catalog.
func (inv *inventory) universe(servers []toolset.Server) toolset.Universe {
	return toolset.Universe{Tools: inv.tools, Servers: servers}
}

// loadedServers returns the servers' facts for selection.
func loadedServers(servers []Server) []toolset.Server {
	out := make([]toolset.Server, len(servers))
	for i, s := range servers {
		status := s.Outcome.Status
		out[i] = toolset.Server{
			Name:       s.Config.Name,
			Loaded:     s.Config.Enabled && status == outcome.Available,
			Transient:  s.Config.Enabled && (status == outcome.Transient || status == ""),
			RetryAfter: s.Outcome.RetryAfter,
		}
	}
	return out
}
