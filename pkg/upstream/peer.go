package upstream

import (
	"context"
	"sync"
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

// A peer is what a client remembers of one server.
type peer struct {
	turn chan struct{} // holds a token while a handshake is under way

	mu      sync.Mutex
	leg     *leg // nil: not known
	legacy  bool // a handshake need not ask for the stateless era first
	breaker breaker
}

func newPeer() *peer { return &peer{turn: make(chan struct{}, 1)} }

// known returns how to speak to the server, nil if that must be found out.
func (p *peer) known() *leg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leg
}

// settle returns the known leg, or the one that handshake finds. Only one
// handshake is under way at a time; the others wait for it, as long as ctx lets them.
func (p *peer) settle(ctx context.Context, handshake func(legacy bool) (*leg, error)) (*leg, error) {
	if l := p.known(); l != nil {
		return l, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	l, legacy := p.leg, p.legacy
	p.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := handshake(legacy)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leg, p.legacy = l, !l.modern
	return l, nil
}

// forget drops l, so that the next request opens a new session or, if the era itself
// is in doubt, finds it out again. A leg that another request has replaced stays.
func (p *peer) forget(l *leg, era bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leg == l {
		p.leg = nil
	}
	if era {
		p.legacy = false
	}
}
