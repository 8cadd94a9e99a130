// Package difference says what changes if one config and policy take the place of others: servers,
// members, rules, and which tools of a catalog would be denied or no longer be.
//
// It is shown and kept where everybody may read it, so no value is in it that may be a secret, or an
// address with one: of those it says that they change.
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

// Files are a config and a policy that go together.
type Files struct {
	Config     *config.Config // nil: there is none
	ConfigData []byte
	Policy     *policy.Policy // nil: it is not known
}

// A Difference is what changes.
type Difference struct {
	Servers Servers  `json:"servers"`
	Members []Member `json:"members,omitempty"` // of the config, by path
	Rules   Rules    `json:"rules"`

	// Tools, prompts and resources of the catalog that would be denied, or no longer be. Nil: there is
	// no catalog, so that is not known.
	Tools *Tools `json:"tools,omitempty"`
}

// Servers are those that only one of the two configs names.
type Servers struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Rules are those of the policy, by @id, or by line where they have none.
type Rules struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Tools are ids. A tool that only some agents may call before or after is in the lists of some.
type Tools struct {
	Denied     []string `json:"denied,omitempty"`      // to every agent, and were not
	DeniedSome []string `json:"denied_some,omitempty"` // to some agents, and were free
	Freed      []string `json:"freed,omitempty"`       // denied to nobody by a rule, and were
	FreedSome  []string `json:"freed_some,omitempty"`  // denied to some agents, and were to all
	Gone       []string `json:"gone,omitempty"`        // of servers that are removed
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.Servers.Added)+len(d.Servers.Removed)+len(d.Members)+len(d.Rules.Added)+len(d.Rules.Removed)+len(d.Rules.Changed) == 0 &&
		(d.Tools == nil || d.Tools.empty())
}

func (t *Tools) empty() bool {
	return len(t.Denied)+len(t.DeniedSome)+len(t.Freed)+len(t.FreedSome)+len(t.Gone) == 0
}

// Between returns what changes if after takes the place of before. snap is the catalog; nil: there is none.
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

// reordered returns the annotations of servers whose overrides are the same in another order, which counts:
// a later one wins.
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

// without returns the entries of a that b lacks.
func without(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// rulesBetween compares rules by id, and those without one by their text.
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

// How far an operator's rules deny an item.
const (
	free = iota
	some // to some agents, or not known without one
	every
)

// toolsBetween returns what becomes of the items of the catalog.
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

// denied returns how far each item of the configured servers is denied.
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
