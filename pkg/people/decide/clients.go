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

// seenAgents returns the ids of agents that called the gateway, as far as this process knows them
// without a query that costs money. If calls are counted, these are the agents whose calls were
// counted. Otherwise these are only the agents that requested access.
func (d *Service) seenAgents(ctx context.Context) (ids []string, err error) {
	if counted, ok := d.o.Usage.(usage.AgentSource); ok {
		uses, err := counted.Agents(ctx)
		for _, u := range uses {
			ids = append(ids, u.Name)
		}
		return ids, err
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

// isOfToken reports whether an id belongs to an agent with an agent token.
func isOfToken(id string) bool { return strings.HasPrefix(id, identity.TokenAgent("")) }

// Callers returns the ids of the known agents: agents with valid tokens, and others that called. If
// it returns an error, some ids may be missing.
func (d *Service) Callers(ctx context.Context) (ids []string, err error) {
	all, err := d.Agents(ctx)
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	seen, unread := d.seenAgents(ctx)
	ids = append(ids, slices.DeleteFunc(seen, isOfToken)...)
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(err, unread)
}

// unlisted reports whether the target of a stop is an unknown agent: it has no token and never
// called. If calls cannot be looked up here, unlisted returns false, and unchecked says where they
// are stored.
func (d *Service) unlisted(ctx context.Context, t stop.Target) (unlisted bool, unchecked string) {
	if t.Agent == "" {
		return false, ""
	}
	known, err := d.Agents(ctx)
	seen, unread := d.seenAgents(ctx)
	if err != nil || unread != nil || slices.Contains(seen, t.Agent) ||
		slices.ContainsFunc(known, func(a identity.Agent) bool { return a.ID == t.Agent }) {
		return false, ""
	}
	if d.o.Calls != nil { // the audit files contain older calls too
		lines, more, err := d.o.Calls.Read(ctx, audit.Filter{Kind: audit.KindCall, Actor: t.Agent}, "", 1)
		return err == nil && len(lines) == 0 && more == "", ""
	}
	if _, counted := d.o.Usage.(usage.AgentSource); !counted && !isOfToken(t.Agent) && (d.o.Agents.Claims != nil || d.o.Agents.IAM != nil) {
		return false, d.o.CallStore
	}
	return true, ""
}
