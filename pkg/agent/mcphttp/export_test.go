package mcphttp

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// Remembered returns the number of sessions with state.
func Remembered(h http.Handler) int { return len(h.(*handler).live.sessions) }

// Remember adds n sessions with state.
func Remember(h http.Handler, n int) {
	live := h.(*handler).live
	live.mu.Lock()
	defer live.mu.Unlock()
	for range n {
		t := newSession(identity.Agent{}, mcp.VersionLegacy, nil)
		live.get(&t).level = 1
	}
}

// HeldOpen returns the number of open streams.
func HeldOpen(h http.Handler) int {
	holder := &h.(*handler).holder
	holder.mu.Lock()
	defer holder.mu.Unlock()
	return len(holder.streams)
}

// NoteEnded adds an ended session of the agent to e in memory, and writes nothing to a store.
func NoteEnded(e *EndedSessions, a identity.Agent) error {
	t := newSession(a, mcp.VersionLegacy, nil)
	return e.note(&t)
}
