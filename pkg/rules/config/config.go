// Package config reads mcp_config.json, which configures the servers, the tools that the operator
// offers, and the answers of the gateway.
//
// A gateway that guesses the meaning of a faulty file could allow tools that the operator wanted to
// lock. So [Parse] refuses unknown keys and reports all faults at once, each with its JSON path;
// the caller keeps the last good config.
package config

import (
	"net/url"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Key is the config's key in the object store.
const Key = "config/mcp_config.json"

// A Config is a parsed, checked mcp_config.json, with every default filled in.
// It is immutable.
type Config struct {
	Servers  []Server            // by name
	Toolsets map[string][]string // lower-case name → patterns "server:tool", "server:*", "server:prompt:glob" or "server:resource:glob"
	Tools    Tools
	Review   Review
	Gateway  Gateway
	Audit    Audit
	Stop     stop.Stops // the operator's emergency stops; the reason may be ""
	Notify   []Notify   // in the file's order
	EditURL  string     // the https address at which people change the file; "": none
	Words    Words      // further words that find tools

	// Warnings are allowed things that look wrong, such as a credential in plain text. The config
	// can still be used.
	Warnings Faults
}

// A Server is one upstream MCP server.
type Server struct {
	Name          string
	URL           string        // of its MCP endpoint; of a program "cmd:" and a hash of its command, which identifies it
	Command       *Command      // how to start it, if it is a program; nil: it has a URL
	Auth          Auth          // how the gateway signs in to it
	Headers       Values        // values may contain ${secretsmanager:…}, ${ssm:…}, ${env:…}; they cannot be printed
	Enabled       bool          // default true
	EnabledTools  []string      // globs over bare names; empty: all
	DisabledTools []string      // globs over bare names
	Approval      string        // manual, on_change (default), off
	Timeout       time.Duration // of one call; default 20 s, at most 10 min
	Required      bool          // a sync without this server fails
	BehindProxy   string        // "envoy" or ""
	Session       string        // agent (default) or shared: who shares a session with the server
	Protocol      string        // auto (default) or 2025-11-25: the newest protocol for this server
	Elicitation   string        // relay (default), replay or off: what the server may ask clients
	Annotations   []Override    // in the file's order; the last match wins

	// For prompts and resources.
	Resources         string   // as Approval; "": the value of Approval
	DisabledPrompts   []string // globs over names
	DisabledResources []string // globs over URIs and URI templates
	UnlistedResources bool     // agents can read unlisted resources at the server's own endpoint
}

// An Override sets annotations of the tools whose bare name matches Glob.
type Override struct {
	Glob  string
	Hints tool.Annotations
}

// Tools is the operator's bound over all servers (docs/toolsets.md): the toolsets and tools that
// the gateway offers or denies.
type Tools struct {
	Toolsets []string // default ["all"]; an explicit [] means none
	Enabled  []string // as in a toolset, or a tool's bare name
	Disabled []string
	ReadOnly bool
	Confirm  []string // "server:glob" of tools whose every call waits for a person
}

// Confirms reports whether every call of a tool waits for a person.
func (t Tools) Confirms(id tool.ID) bool {
	return id.Kind == tool.Tool && slices.ContainsFunc(t.Confirm, func(pattern string) bool { return tool.MatchGlob(pattern, id.String()) })
}

// Review has rules about approvals, in addition to the decisions of people.
type Review struct {
	Remember string // ask (default): a definition that a person approved earlier waits; auto: it is approved again
	Findings string // show (default) or wait: whether a severe finding locks what no person approved
	FourEyes string // off (default), destructive or all: which definitions need two people
}

// Audit says which data about calls the gateway keeps.
type Audit struct {
	Arguments string // none (default) or redacted
	Required  bool   // a call whose line cannot be written is refused
	Days      int    // how long files are kept; default 30
	MaxBytes  int64  // of all files; default 10 GiB
}

// Gateway says how the gateway answers.
type Gateway struct {
	Mode    string // search (default) or direct
	Bare    bool   // "prefix" is false: tool names in direct mode lack the server's name
	Notice  string // best (default) or zero
	Locked  string // error (default) or result: whether the call of a locked tool is reported as an error
	Ranking string // fused (default) or lexical
	Answers string // json (default) or lines: the form of search results
	Apps    string // on (default) or off: whether search mode lists tools with a page to hosts

	Requests *bool // agents may request access to locked tools; nil: they may if an approver can sign in
	Programs Programs
}

// Programs has the settings of all servers that are programs.
type Programs struct {
	MaxPerAgent int      // processes that run for one agent, over all servers; default 24, at most 64
	Env         []string // names of further variables of the gateway that every program gets
}

// HostOf returns scheme and host of a server's URL; "" if there is none, as for a program.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// ApprovalOf returns the approval mode of the server's items of a kind.
func (s Server) ApprovalOf(k tool.Kind) string {
	if k == tool.Tool || s.Resources == "" {
		return s.Approval
	}
	return s.Resources
}

// Variables returns the variables of the gateway's environment that the server's headers and
// environment refer to, each with the JSON path of the reference.
func (s Server) Variables() []Variable {
	path := JoinPath("mcpServers", s.Name)
	out := s.Headers.variables(path + ".headers")
	if s.Command != nil {
		out = append(out, s.Command.Env.variables(path+".env")...)
	}
	return out
}

// TakesTwo reports whether two people have to approve the definition of the named server. If the
// server is not in the config, the result depends only on the definition.
func (c *Config) TakesTwo(server string, d tool.Definition) bool {
	switch {
	case c.Review.FourEyes == "all":
		return true
	case c.Review.FourEyes != "destructive" || d.Kind != tool.Tool:
		return false
	}
	hints := d.Annotations
	if s, ok := c.Server(server); ok {
		hints = s.Override(d.Name, hints)
	}
	return hints.Tier() == tool.Destructive
}

// Server returns the named server.
func (c *Config) Server(name string) (Server, bool) {
	for _, s := range c.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}
