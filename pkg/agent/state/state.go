// Package state holds the data of one request: config, policy, catalog and approvals, each with its
// version, as one immutable value.
//
// All parts of one answer use the same [State], so that search, counts and calls agree. A call also
// reads the newest record of its item and the stops. A [Loader] keeps the state fresh. When a
// request comes and the data is old, the Loader reads again. It does nothing between requests,
// because AWS Lambda freezes the process then.
//
// A failed read unlocks nothing. The last config, policy or catalog stays in use, flagged stale. If
// the loader has never read the config, the policy or the catalog, every tool is locked.
package state

import (
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// A State is the data that one request uses. It is immutable and safe for concurrent use.
type State struct {
	Config  *config.Config    // nil: never read, so nothing is callable
	Policy  *policy.Policy    // nil: never read, so a verdict is unknown unless a list of Config denies
	Catalog *catalog.Snapshot // nil: never read, so there are no tools
	Health  Health
	Files   map[string]FileBytes // the operator's files, by key

	stopped  *stopped // nil: nothing was read yet
	resolved *derived // nil if Config or Catalog is nil
}

// A FileBytes has the versions of a file that this process has read. Nil: there is none.
type FileBytes struct {
	InUse  []byte
	Before []byte // the version that InUse replaced
	Bad    []byte // the version in the store if it is refused
}

// Ready reports whether requests can be served: there is a config and a catalog, even if stale.
func (s *State) Ready() bool { return s.resolved != nil }

// View returns the agent's view of the state. Views of one agent share cached results.
func (s *State) View(agent identity.Agent) *View {
	if s.resolved == nil {
		return &View{agent: agent}
	}
	return s.resolved.view(agent)
}

// Servers returns every configured server, by name, with its last outcome.
func (s *State) Servers() []Server {
	if s.resolved == nil {
		return nil
	}
	return s.resolved.servers
}
