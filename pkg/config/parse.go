package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxSize is the largest file that is read, in bytes.
const maxSize = 1 << 20

// Version returns the lower-case hex SHA-256 of a file's bytes, which names
// that state of the file.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Override returns a with the operator's hints for the tool of that bare name:
// every matching override applies, in the order of the file.
func (s Server) Override(name string, a tool.Annotations) tool.Annotations {
	for _, o := range s.Annotations {
		if tool.MatchGlob(o.Glob, name) {
			a = a.Override(o.Hints)
		}
	}
	return a
}

// Parse reads mcp_config.json, which is JSON without comments. A file with
// anything wrong in it yields no config; the error is then [Faults], which
// names everything at once. Only broken JSON comes alone.
func Parse(data []byte) (*Config, error) {
	if len(data) > maxSize {
		return nil, Faults{{Message: "the file is larger than 1 MiB"}}
	}
	root, fault := readTree(data)
	if fault != nil {
		return nil, Faults{*fault}
	}
	var c checker
	var f file
	c.decode(root, "", reflect.ValueOf(&f).Elem())
	cfg := c.config(f, root)
	if len(c.faults) > 0 {
		return nil, place(data, c.faults)
	}
	cfg.Warnings = place(data, c.warnings)
	return cfg, nil
}

// place gives faults their lines and puts them in the order of the file.
func place(data []byte, found []located) Faults {
	slices.SortStableFunc(found, func(a, b located) int { return cmp.Compare(a.offset, b.offset) })
	var out Faults
	for _, f := range found {
		line, col := position(data, f.offset)
		out = append(out, Fault{Path: f.path, Line: line, Col: col, Message: f.message})
	}
	return out
}

// config checks what the types alone do not say, and fills in the defaults.
func (c *checker) config(f file, root *node) *Config {
	cfg := &Config{Toolsets: map[string][]string{}}
	if root.kind != '{' {
		return cfg
	}
	servers := root.member("mcpServers")
	if servers == nil {
		c.faultAt(root.offset, "mcpServers", "is missing")
		servers = &node{bad: true}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Servers)) {
		n, path := servers.member(name), JoinPath("mcpServers", name)
		if n.kind == '{' {
			cfg.Servers = append(cfg.Servers, c.server(name, f.Servers[name], n, path))
		}
	}
	names := c.names(servers)
	c.toolsets(cfg, f.Toolsets, root.member("toolsets"), names)
	c.tools(cfg, f.Tools, root.member("tools"), names)
	c.gateway(cfg, f.Gateway, root.member("gateway"))
	return cfg
}

func (c *checker) gateway(cfg *Config, f *fileGateway, n *node) {
	if f == nil {
		f = &fileGateway{}
	}
	cfg.Gateway = Gateway{
		Mode:    c.oneOf(f.Mode, n, "gateway", "mode", "search", "direct"),
		Notice:  c.oneOf(f.Notice, n, "gateway", "notice", "zero", "best"),
		Ranking: c.oneOf(f.Ranking, n, "gateway", "ranking", "fused", "lexical"),
	}
	if f.Prefix == nil || *f.Prefix {
		return
	}
	cfg.Gateway.Bare = true
	switch at, path := n.member("prefix"), "gateway.prefix"; {
	case cfg.Gateway.Mode != "direct":
		c.fault(at, path, "only direct mode has a prefix to leave out")
	case len(cfg.Servers) > 1:
		c.fault(at, path, "with %d servers a name without prefix could be two tools; only one server can do without", len(cfg.Servers))
	}
}

// names checks the servers' names and returns them.
func (c *checker) names(servers *node) []string {
	var names []string
	for _, m := range servers.members {
		at, path := &node{offset: m.offset}, JoinPath("mcpServers", m.name)
		c.name(at, path, "server", m.name)
		for _, other := range names {
			switch {
			case strings.EqualFold(m.name, other):
				c.fault(at, path, "clashes with the server %q: names fold case", clip(other))
			case strings.HasPrefix(m.name+"__", other+"__"), strings.HasPrefix(other+"__", m.name+"__"):
				// One's tool x and the other's tool y could both be a__b__c.
				c.fault(at, path, "clashes with the server %q: in direct mode tools are named server__tool", clip(other))
			}
		}
		names = append(names, m.name)
	}
	return names
}

// name checks the name of a server or a toolset.
func (c *checker) name(at *node, path, what, name string) {
	switch {
	case name == "." || name == "..":
		c.fault(at, path, "%q cannot be the name of a %s: it would not survive in a URL's path", name, what)
	case tool.ValidName(name) != nil:
		c.fault(at, path, "the name of a %s is 1 to 128 of A-Z a-z 0-9 _ . -", what)
	case strings.EqualFold(name, "all"), strings.EqualFold(name, "default"):
		c.fault(at, path, "%q cannot be the name of a %s: it means something else in lists of toolsets", name, what)
	}
}
