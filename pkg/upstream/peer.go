package upstream

import (
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

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

	mu      sync.Mutex
	leg     *leg // for every caller, of a server without sessions; nil: not known, or it has them
	memory  outcome.Memory
	breaker breaker
}

// known returns how everybody speaks to the server, nil if that must be found out or
// each caller has a session.
func (p *peer) known() *leg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leg
}

// maxMemory is how long a server that did not know the stateless era is not asked for it again.
const maxMemory = 24 * time.Hour

// remembered returns what earlier handshakes found out.
func (p *peer) remembered(now time.Time) outcome.Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.memory
	m.Handshake = m.Handshake && now.Sub(m.At) < maxMemory
	return m
}

// found notes what a handshake found out. asked is when it asked for the stateless era,
// zero if it relied on memory.
func (p *peer) found(l *leg, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory.Handshake, p.memory.Sessions = !l.modern, l.session != ""
	if !asked.IsZero() {
		p.memory.At = asked
	}
	if l.session == "" {
		p.leg = l
	}
}

// older notes that the server does not know the stateless era. That is worth knowing
// even if the time is up before the handshake is through.
func (p *peer) older(asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory.Handshake, p.memory.At = true, asked
}

// keepsake returns what is remembered, for the next process.
func (p *peer) keepsake() outcome.Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
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
		p.memory = outcome.Memory{}
	}
}
