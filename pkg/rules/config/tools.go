package config

import (
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// toolsets checks the named groups and adds them to cfg under lower-case names.
func (c *checker) toolsets(cfg *Config, sets map[string][]string, n *rawjson.Node, servers names) {
	if n == nil {
		return
	}
	for name, value := range n.All() {
		key := strings.ToLower(name)
		at, path := &rawjson.Node{Offset: value.NameOffset}, JoinPath("toolsets", name)
		c.name(at, path, "toolset", name)
		if _, ok := servers.fold(name); ok {
			c.fault(at, path, "clashes with the server of that name, which is a toolset already")
		}
		if _, again := cfg.Toolsets[key]; again {
			c.fault(at, path, "clashes with another toolset: two names must differ in more than case")
		}
		for i, pattern := range sets[name] {
			c.toolsetEntry(pattern, value.Kids[i], index(path, i), servers)
		}
		cfg.Toolsets[key] = sets[name]
	}
}

func (c *checker) toolsetEntry(pattern string, at *rawjson.Node, path string, servers names) {
	id, err := tool.ParseID(pattern)
	switch {
	case err != nil || !validEntry(id):
		c.fault(at, path, "%q is none of server:tool, server:*, server:prompt:name and server:resource:uri", clip(pattern))
	case !servers.has(id.Server):
		c.fault(at, path, "%q names a server that is not in mcpServers", clip(pattern))
	}
}

// validEntry reports whether a list can have the entry. Globs are only for prompts and resources.
func validEntry(id tool.ID) bool {
	switch id.Kind {
	case tool.Tool:
		return id.IsGlob() || tool.ValidName(id.Name) == nil
	case tool.Prompt:
		return tool.ValidGlob(id.Name) == nil
	default:
		return tool.ValidURI(id.Name) == nil
	}
}

// tools checks the section "tools", which limits what agents can choose. It does not check whether
// a server has the named tools, because that is unknown until the server has loaded.
func (c *checker) tools(cfg *Config, f *fileTools, n *rawjson.Node, servers names) {
	if f == nil {
		f = &fileTools{}
	}
	cfg.Tools = Tools{Toolsets: f.Toolsets, Enabled: f.Enabled, Disabled: f.Disabled, ReadOnly: f.ReadOnly != nil && *f.ReadOnly, Confirm: f.Confirm}
	switch {
	case f.Toolsets == nil:
		cfg.Tools.Toolsets = []string{"all"}
	case len(f.Toolsets) == 0 && len(f.Enabled) == 0 && !c.bad[n.Get("toolsets")]:
		c.fault(n, "tools", "No tools left: toolsets is empty and so is enabled")
	}
	toolsets, confirm := n.Get("toolsets"), n.Get("confirm")
	for i, name := range f.Toolsets {
		_, known := cfg.Toolsets[strings.ToLower(name)]
		_, server := servers.fold(name)
		if !known && !server && !strings.EqualFold(name, "all") {
			c.fault(toolsets.Kids[i], index("tools.toolsets", i), "Unknown toolset: %s", clip(name))
		}
	}
	c.toolEntries(f.Enabled, n.Get("enabled"), "enabled", servers)
	c.toolEntries(f.Disabled, n.Get("disabled"), "disabled", servers)
	for i, entry := range f.Confirm {
		at, path := confirm.Kids[i], index("tools.confirm", i)
		server, glob, _ := strings.Cut(entry, ":")
		switch {
		case tool.ValidGlob(glob) != nil:
			c.fault(at, path, "%q is neither server:tool nor server:* or another glob over the names of tools", clip(entry))
		case !servers.has(server):
			c.fault(at, path, "%q names a server that is not in mcpServers", clip(entry))
		}
	}
}

// toolEntries checks a list whose entries are written as in a toolset, or are bare tool names.
func (c *checker) toolEntries(list []string, n *rawjson.Node, key string, servers names) {
	for i, entry := range list {
		at, path := n.Kids[i], index(JoinPath("tools", key), i)
		id, err := tool.ParseID(entry)
		switch {
		case err != nil && tool.ValidName(entry) == nil: // a bare name
		case err != nil, !validEntry(id):
			c.fault(at, path, "%q is none of server:tool, server:*, server:prompt:name, server:resource:uri and the bare name of a tool", clip(entry))
		case !servers.has(id.Server):
			c.fault(at, path, "Unknown %s tool: %s: there is no such server", key, clip(entry))
		}
	}
}
