// Package difference lists what changes from one config and policy to another: servers, members,
// rules, and the tools of a catalog that become denied or are no longer denied.
//
// Everybody may read its output. So the output has no value that may be a secret, and no address
// that may contain a secret. It only reports that such a value changes.
package difference

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Files are a config and a policy that are used together.
type Files struct {
	Config     *config.Config // nil: no config
	ConfigData []byte
	Policy     *policy.Policy // nil: unknown
}

// A Difference has all changes from one [Files] to another.
type Difference struct {
	Servers Servers  `json:"servers"`
	Members []Member `json:"members,omitempty"` // of the config, by path
	Rules   Rules    `json:"rules"`

	// Tools, prompts and resources of the catalog that become denied, or are no longer denied. Nil:
	// unknown, because there is no catalog.
	Tools *Tools `json:"tools,omitempty"`
}

// Servers are the servers that only one of the two configs names.
type Servers struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Rules are the changed rules of the policy, by @id, or by line if they have none.
type Rules struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Tools are ids of tools. DeniedSome and FreedSome hold tools that rules now deny to some agents
// only.
type Tools struct {
	Denied []string `json:"denied,omitempty"` // now denied to every agent
	// now denied to some agents, before to no agent
	DeniedSome []string `json:"denied_some,omitempty"`
	// before denied to some or all agents, now to no agent
	Freed []string `json:"freed,omitempty"`
	// now denied to some agents, before to all agents
	FreedSome []string `json:"freed_some,omitempty"`
	Gone      []string `json:"gone,omitempty"` // of removed servers
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.Servers.Added)+len(d.Servers.Removed)+len(d.Members)+len(d.Rules.Added)+len(d.Rules.Removed)+len(d.Rules.Changed) == 0 &&
		(d.Tools == nil || d.Tools.empty())
}

func (t *Tools) empty() bool {
	return len(t.Denied)+len(t.DeniedSome)+len(t.Freed)+len(t.FreedSome)+len(t.Gone) == 0
}

// Between returns the changes if after replaces before. snap is the catalog; nil: no catalog.
func Between(before, after Files, snap *catalog.Snapshot) Difference {
	d := Difference{Rules: rulesBetween(before.Policy.Rules(), after.Policy.Rules())}
	was, is := serverNames(before.Config), serverNames(after.Config)
	d.Servers = Servers{Added: without(is, was), Removed: without(was, is)}
	d.Members = append(members(before.ConfigData, after.ConfigData), reordered(before.Config, after.Config)...)
	if snap != nil {
		d.Tools = toolsBetween(before, after, snap)
	}
	return d
}

// reordered returns the annotations of servers whose overrides changed only their order. The order
// matters, because a later override wins.
func reordered(before, after *config.Config) (out []Member) {
	if before == nil || after == nil {
		return nil
	}
	sorted := func(list []config.Override) []config.Override {
		return slices.SortedFunc(slices.Values(list), func(a, b config.Override) int { return cmp.Compare(a.Glob, b.Glob) })
	}
	for _, s := range after.Servers {
		was, ok := before.Server(s.Name)
		if ok && !reflect.DeepEqual(was.Annotations, s.Annotations) && reflect.DeepEqual(sorted(was.Annotations), sorted(s.Annotations)) {
			out = append(out, Member{Path: config.JoinPath(config.JoinPath("mcpServers", s.Name), "annotations"), How: changed})
		}
	}
	return out
}

func serverNames(cfg *config.Config) (names []string) {
	if cfg == nil {
		return nil
	}
	for _, s := range cfg.Servers {
		names = append(names, s.Name)
	}
	return names
}

// without returns the entries of a that are not in b.
func without(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// rulesBetween compares rules by id, or by their text if they have none.
func rulesBetween(before, after []policy.Rule) (out Rules) {
	find := func(list []policy.Rule, r policy.Rule) (policy.Rule, bool) {
		i := slices.IndexFunc(list, func(x policy.Rule) bool { return x.ID == r.ID && (r.ID != "" || x.Text == r.Text) })
		if i < 0 {
			return policy.Rule{}, false
		}
		return list[i], true
	}
	for _, r := range after {
		switch was, ok := find(before, r); {
		case !ok:
			out.Added = append(out.Added, ruleName(r))
		case was.Text != r.Text:
			out.Changed = append(out.Changed, ruleName(r))
		}
	}
	for _, r := range before {
		if _, ok := find(after, r); !ok {
			out.Removed = append(out.Removed, ruleName(r))
		}
	}
	return out
}

func ruleName(r policy.Rule) string { return cmp.Or(r.ID, "at line "+strconv.Itoa(r.Line)) }

// Whether an operator's rules deny an item to no agent, to some agents, or to every agent.
const (
	free = iota
	some // even if only an agent's claims decide
	every
)

// toolsBetween returns the changes for the items of the catalog.
func toolsBetween(before, after Files, snap *catalog.Snapshot) *Tools {
	was, is := denied(before, snap), denied(after, snap)
	out := &Tools{}
	for i := range snap.Items() {
		id := snap.ID(i)
		name := id.String()
		then, had := was[id]
		now, has := is[id]
		switch {
		case had && !has:
			out.Gone = append(out.Gone, name)
		case !has, had && then == now:
		case now == every:
			out.Denied = append(out.Denied, name)
		case now == some && then == every:
			out.FreedSome = append(out.FreedSome, name)
		case now == some:
			out.DeniedSome = append(out.DeniedSome, name)
		case then > free:
			out.Freed = append(out.Freed, name)
		}
	}
	return out
}

// denied returns, for each item of the configured servers, the agents to which rules deny it.
func denied(f Files, snap *catalog.Snapshot) map[tool.ID]int {
	out := map[tool.ID]int{}
	if f.Config == nil {
		return out
	}
	tools, _ := state.Inventory(f.Config, snap)
	for _, t := range tools {
		out[t.ID] = free
	}
	for _, m := range f.Policy.Matches(f.Config, tools) {
		if m.Allow {
			continue
		}
		for _, id := range m.Always {
			out[id] = every
		}
		for _, id := range m.Some {
			out[id] = max(out[id], some)
		}
	}
	return out
}
