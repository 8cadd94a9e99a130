package upstream

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// legacyVersions returns the handshake versions that the gateway accepts from a server, the newest
// first. The last version is for another transport, but its servers answer the same two requests.
func legacyVersions() []string {
	return []string{mcp.VersionLegacy, mcp.Version20250618, mcp.Version20250326, mcp.Version20241105}
}

// An mcpSession is the result of a handshake: how to send requests to one server.
type mcpSession struct {
	modern  bool   // stateless protocol: every request describes itself
	version string // "" before the handshake is complete
	id      string // Mcp-Session-Id; "" if the server gave none
	tools   bool   // the server declares the tools capability

	prompts, resources bool      // the server declares these capabilities
	reports            reports   // the lists whose changes the server reports
	at                 time.Time // when the server declared them

	declared string      // capabilities without a caller's, in the stateless protocol
	logs     *logSetting // nil: no log level to set
}

// equal reports whether two sessions are the same.
func (s *mcpSession) equal(to mcpSession) bool {
	return s.modern == to.modern && s.version == to.version && s.id == to.id && s.tools == to.tools
}

// note stores what the server declares.
func (s *mcpSession) note(capabilities map[string]json.RawMessage, now time.Time) {
	_, s.tools = capabilities["tools"]
	_, s.prompts = capabilities["prompts"]
	_, s.resources = capabilities["resources"]
	s.reports = reportsIn(capabilities)
	s.at = now
}

// maxDeclared is how long a load relies on the capabilities that a server without sessions
// declared. A server with sessions declares them again after it has lost its sessions.
const maxDeclared = time.Hour

// maxMemory is how long the gateway does not request the stateless protocol from a server again
// after the server refused it.
const maxMemory = 24 * time.Hour

// A serverState is a client's state of one server, for all callers.
type serverState struct {
	breaker breaker

	mu     sync.Mutex
	shared *mcpSession // of all callers of a server without session ids; nil: unknown, or the server has ids
	memory outcome.Memory

	reports reports   // of its last handshake
	silent  time.Time // until then, the server counts as a server without notification streams
	used    time.Time // by the last call

	scrubber *scrubber    // of its last call
	lists    *cachedLists // of the last load; nil: none, or incomplete
}

// sharedSession returns the session of all callers. It returns nil if the protocol is unknown or
// each caller has its own session.
func (s *serverState) sharedSession() *mcpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// refresh drops the session of all callers if it is old.
func (s *serverState) refresh(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil && now.Sub(s.shared.at) >= maxDeclared {
		s.shared = nil
	}
}

// remembered returns the results of handshakes, for this process and for the next process.
func (s *serverState) remembered() outcome.Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// noteHandshake stores the result of a handshake. asked is the time when the handshake asked for
// the stateless protocol; it is zero if the handshake relied on memory.
func (s *serverState) noteHandshake(m *mcpSession, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Handshake, s.memory.Sessions = !m.modern, m.id != ""
	s.reports = m.reports
	if !asked.IsZero() {
		s.memory.At = asked
	}
	if m.id == "" {
		s.shared = m
	}
}

// noteLegacy records that the server does not know the stateless protocol. The record helps even
// if the handshake runs out of time.
func (s *serverState) noteLegacy(asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Handshake, s.memory.At = true, asked
}

// forget drops m if it is still the session of all callers. If the protocol itself is in doubt, the
// next request detects the protocol again.
func (s *serverState) forget(m *mcpSession, protocol bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == m {
		s.shared = nil
	}
	if protocol {
		s.memory = outcome.Memory{}
	}
}
