// Package state is what one request reads: config, policy, catalog and
// approvals, each with its version, as one immutable value.
//
// A request takes one [State] and asks nothing else, so that search, counts
// and calls of one answer cannot disagree. A [Loader] keeps it fresh: it reads
// again when a request comes and what it has is old, and does nothing
// between requests, because a function is frozen then.
//
// What cannot be read unlocks nothing. The config, policy or catalog that was read
// last stays in use, flagged stale; one that was never read leaves every tool locked.
package state

import (
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// A State is everything that one request reads. It is immutable and safe for
// concurrent use.
type State struct {
	Config  *config.Config    // nil: never read, so nothing is callable
	Policy  *policy.Policy    // nil: never read, so what the lists do not deny is unknown
	Catalog *catalog.Snapshot // nil: never read, so there are no tools
	Health  Health

	stopped  *stopped // nil: nothing was read yet
	resolved *derived // nil if Config or Catalog is
}

// Ready reports whether requests can be served: there is a config and a
// catalog, however stale.
func (s *State) Ready() bool { return s.resolved != nil }

// View returns what the agent may see of the state. Views of one agent share
// what was worked out for it before.
func (s *State) View(agent identity.Agent) *View {
	if s.resolved == nil {
		return &View{agent: agent}
	}
	return s.resolved.view(agent)
}

// Servers returns every configured server, by name, with how it last loaded.
func (s *State) Servers() []Server {
	if s.resolved == nil {
		return nil
	}
	return s.resolved.servers
}
