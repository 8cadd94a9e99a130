package config

import (
	"strings"
	"unicode"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

const (
	usualAuditDays  = 30
	maxAuditDays    = 36500
	usualAuditBytes = 10 << 30
	minAuditBytes   = 16 << 20
)

func (c *checker) audit(cfg *Config, f *fileAudit, n *rawjson.Node) {
	if f == nil {
		f = &fileAudit{}
	}
	cfg.Audit = Audit{Arguments: c.oneOf(f.Arguments, n, "audit", "arguments", "none", "redacted"), Required: f.Required != nil && *f.Required, Days: usualAuditDays, MaxBytes: usualAuditBytes}
	if f.Days != nil && !c.bad[n.Get("days")] {
		if cfg.Audit.Days = *f.Days; *f.Days < 1 || *f.Days > maxAuditDays {
			c.fault(n.Get("days"), "audit.days", "is not a number of days from 1 to %d", maxAuditDays)
		}
	}
	if f.MaxBytes != nil && !c.bad[n.Get("max_bytes")] {
		if cfg.Audit.MaxBytes = *f.MaxBytes; *f.MaxBytes < minAuditBytes {
			c.fault(n.Get("max_bytes"), "audit.max_bytes", "is not a number of bytes from %d (16 MiB)", minAuditBytes)
		}
	}
}

// stop checks the emergency stops. It refuses the name of an unknown server: the stop would have no
// effect, although its author expects one.
func (c *checker) stop(cfg *Config, f *fileStop, n *rawjson.Node, servers names) {
	if f == nil {
		return
	}
	reason := ""
	if f.Reason != nil {
		reason = *f.Reason
	}
	add := func(t stop.Target) { cfg.Stop.List = append(cfg.Stop.List, stop.Stop{Target: t, Reason: reason}) }
	if f.All != nil && *f.All {
		add(stop.Target{All: true})
	}
	named, agents := n.Get("servers"), n.Get("agents")
	for i, name := range f.Servers {
		if !servers.has(name) {
			c.fault(named.Kids[i], index("stop.servers", i), "there is no server %q in mcpServers", clip(name))
		}
		add(stop.Target{Server: name})
	}
	for i, id := range f.Agents {
		if strings.TrimSpace(id) == "" {
			c.fault(agents.Kids[i], index("stop.agents", i), "is empty: an agent has an id, such as token:ci")
		}
		add(stop.Target{Agent: id})
	}
	if len(reason) > stop.MaxReason || strings.ContainsFunc(reason, unicode.IsControl) {
		c.fault(n.Get("reason"), "stop.reason", "is not one line of at most %d bytes", stop.MaxReason)
	}
}
