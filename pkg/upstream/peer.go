package upstream

import "sync"

// The protocol versions that this client speaks.
const (
	versionModern = "2026-07-28"
	versionLegacy = "2025-11-25" // offered with initialize
)

// legacyVersions are the handshake versions that are taken from a server, the
// newest first. The last was made for another transport, but servers that name it
// answer the same two requests.
func legacyVersions() []string {
	return []string{versionLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}
}

// A leg is how to speak to one server.
type leg struct {
	modern  bool   // stateless era: every request describes itself
	version string // "" before a handshake is through
	session string // Mcp-Session-Id; "" if the server gave none
	tools   bool   // the server declares the tools capability
}

// A peer is what a client remembers of one server, whoever calls it. Sessions are
// remembered by owner, in slots.
type peer struct {
	loads *slot // the session that loads have for themselves

	mu       sync.Mutex
	leg      *leg // for every caller, of a server without sessions; nil: not known, or it has them
	legacy   bool // a handshake need not ask for the stateless era first
	sessions bool // its last handshake gave a session id
	breaker  breaker
}

// known returns how everybody speaks to the server, nil if that must be found out or
// each caller has a session.
func (p *peer) known() *leg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leg
}

// era returns what earlier handshakes found out.
func (p *peer) era() (legacy, sessions bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.legacy, p.sessions
}

// found notes what a handshake found out.
func (p *peer) found(l *leg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.legacy, p.sessions = !l.modern, l.session != ""
	if !p.sessions {
		p.leg = l
	}
}

// forget drops l, if it is still how everybody speaks to the server. If the era
// itself is in doubt, the next request finds it out again.
func (p *peer) forget(l *leg, era bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leg == l {
		p.leg = nil
	}
	if era {
		p.legacy, p.sessions = false, false
	}
}
