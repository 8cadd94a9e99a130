package decide

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// seen returns the ids of agents that came to the gateway, as far as this process can know without being
// charged for it: those that were counted, or else those that asked for access. An agent whose calls
// another process answers, and that asked for nothing, is not among them.
func (d *Service) seen(ctx context.Context) (ids []string, err error) {
	if counted, ok := d.o.Usage.(usage.AgentSource); ok {
		return counted.Agents(ctx)
	}
	if d.o.Requests == nil {
		return nil, nil
	}
	all, _, err := d.everyRequest(ctx, false)
	for _, r := range all {
		ids = append(ids, r.agent.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// isOfToken reports whether an id is of an agent that an agent token makes.
func isOfToken(id string) bool { return strings.HasPrefix(id, identity.TokenAgent("")) }

// Callers returns the ids of the agents that are known: those of good agent tokens, and others that were
// seen. With an error some may be missing.
func (d *Service) Callers(ctx context.Context) (ids []string, err error) {
	all, err := d.Agents(ctx)
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	seen, unread := d.seen(ctx)
	ids = append(ids, slices.DeleteFunc(seen, isOfToken)...)
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(err, unread)
}

// unlisted reports whether the target of a stop is an agent that nobody is known to be: no token makes
// it, and it was never seen. unchecked says where agents' calls are if they cannot be looked up here
// and may name it; then it is not unlisted.
func (d *Service) unlisted(ctx context.Context, t stop.Target) (unlisted bool, unchecked string) {
	if t.Agent == "" {
		return false, ""
	}
	known, err := d.Agents(ctx)
	seen, unread := d.seen(ctx)
	if err != nil || unread != nil || slices.Contains(seen, t.Agent) ||
		slices.ContainsFunc(known, func(a identity.Agent) bool { return a.ID == t.Agent }) {
		return false, ""
	}
	if d.o.Calls != nil { // files of the audit go back further
		lines, more, err := d.o.Calls.Read(ctx, audit.Filter{Kind: audit.KindCall, Actor: t.Agent}, "", 1)
		return err == nil && len(lines) == 0 && more == "", ""
	}
	if _, counted := d.o.Usage.(usage.AgentSource); !counted && !isOfToken(t.Agent) && (d.o.Agents.Claims != nil || d.o.Agents.IAM != nil) {
		return false, d.o.CallStore
	}
	return true, ""
}
