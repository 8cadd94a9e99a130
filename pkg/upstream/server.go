package upstream

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// legacyVersions are the handshake versions that are taken from a server, the
// newest first. The last was made for another transport, but servers that name it
// answer the same two requests.
func legacyVersions() []string {
	return []string{mcp.VersionLegacy, mcp.Version20250618, mcp.Version20250326, mcp.Version20241105}
}

// An mcpSession is what a handshake agreed on: how to speak to one server.
type mcpSession struct {
	modern  bool   // stateless protocol: every request describes itself
	version string // "" before a handshake is through
	id      string // Mcp-Session-Id; "" if the server gave none
	tools   bool   // the server declares the tools capability

	prompts, resources bool      // it declares these
	at                 time.Time // when it declared them

	declared string      // capabilities that the gateway has where no caller's count, in the stateless protocol
	logs     *logSetting // nil: there is nothing to say to the server of its log
}

// equal reports whether two sessions are one.
func (s *mcpSession) equal(to mcpSession) bool {
	return s.modern == to.modern && s.version == to.version && s.id == to.id && s.tools == to.tools
}

// note notes what the server declares.
func (s *mcpSession) note(capabilities map[string]json.RawMessage, now time.Time) {
	_, s.tools = capabilities["tools"]
	_, s.prompts = capabilities["prompts"]
	_, s.resources = capabilities["resources"]
	s.at = now
}

// maxDeclared is how long a load relies on what a server without sessions once declared. One with
// sessions says so anew whenever it has forgotten them.
const maxDeclared = time.Hour

// maxMemory is how long a server that did not know the stateless protocol is not asked for it
// again.
const maxMemory = 24 * time.Hour

// A serverState is what a client remembers of one server, whoever calls it.
type serverState struct {
	breaker breaker

	mu     sync.Mutex
	shared *mcpSession // every caller's, with a server that gives no session ids; nil: not known, or it gives them
	memory outcome.Memory

	scrubber *scrubber    // of its last call
	heard    *cachedLists // when it was loaded last; nil: not, or not all
}

// known returns how everybody speaks to the server, nil if that must be found out or
// each caller has a session.
func (s *serverState) known() *mcpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// refresh drops how everybody speaks to the server if that was found out long ago.
func (s *serverState) refresh(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil && now.Sub(s.shared.at) >= maxDeclared {
		s.shared = nil
	}
}

// remembered returns what handshakes found out, for this process and the next.
func (s *serverState) remembered() outcome.Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory
}

// found notes what a handshake found out. asked is when it asked for the stateless protocol,
// zero if it relied on memory.
func (s *serverState) found(m *mcpSession, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Handshake, s.memory.Sessions = !m.modern, m.id != ""
	if !asked.IsZero() {
		s.memory.At = asked
	}
	if m.id == "" {
		s.shared = m
	}
}

// foundLegacy notes that the server does not know the stateless protocol. That is worth knowing
// even if the time is up before the handshake is through.
func (s *serverState) foundLegacy(asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Handshake, s.memory.At = true, asked
}

// forget drops m, if it is still how everybody speaks to the server. If the protocol
// itself is in doubt, the next request finds it out again.
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
