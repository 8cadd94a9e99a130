package connect

import (
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// How much a [Seen] remembers. A client says by itself what it is called, so that one agent can
// have any number of names: it pushes out its own only.
const (
	maxVisits   = 256
	maxClients  = 8  // of one agent
	maxSaid     = 64 // characters of a name or version
	countsAgain = time.Second
)

// A Visit is a client that has come to the gateway. What it says of itself is proved by nothing.
type Visit struct {
	Agent    string    `json:"agent"`
	Client   string    `json:"client"` // its name, as it says; "": it does not
	Version  string    `json:"version"`
	Protocol string    `json:"protocol"` // the version of MCP that it speaks
	Tools    int       `json:"tools"`    // that it can call
	At       time.Time `json:"at"`       // of its last request that said so

	counted time.Time // when Tools were
}

// Seen remembers which clients have come to this process, for as long as it runs. It is safe for
// concurrent use.
type Seen struct {
	now func() time.Time

	mu     sync.Mutex
	visits []Visit // newest first
}

// NewSeen returns an empty Seen. nil: time.Now.
func NewSeen(now func() time.Time) *Seen {
	if now == nil {
		now = time.Now
	}
	return &Seen{now: now}
}

// Note remembers that a client has come. tools counts what it can call; it is asked once a second at
// most for the same client.
func (s *Seen) Note(v Visit, tools func() int) {
	v.Client, v.Version, v.Protocol = said(v.Client), said(v.Version), said(v.Protocol)
	v.At = s.now()
	if v.Tools, v.counted = s.known(v); v.At.Sub(v.counted) >= countsAgain {
		v.Tools, v.counted = tools(), v.At // which takes its time, and no lock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.place(v)
	copy(s.visits[1:i+1], s.visits[:i])
	s.visits[0] = v
}

// known returns how many tools the same client could call, and when that was counted.
func (s *Seen) known(v Visit) (tools int, counted time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.visits, v.isOf); i >= 0 {
		return s.visits[i].Tools, s.visits[i].counted
	}
	return 0, time.Time{}
}

// place returns the number of the visit that v takes the place of: the last one of the same client; of
// an agent with many, its oldest; else a new one, or the oldest of all.
func (s *Seen) place(v Visit) int {
	if i := slices.IndexFunc(s.visits, v.isOf); i >= 0 {
		return i
	}
	clients, oldest := 0, 0
	for i, old := range s.visits {
		if old.Agent == v.Agent {
			clients, oldest = clients+1, i
		}
	}
	switch {
	case clients == maxClients:
		return oldest
	case len(s.visits) < maxVisits:
		s.visits = append(s.visits, v)
	}
	return len(s.visits) - 1
}

// isOf reports whether both visits are the same client's.
func (v Visit) isOf(other Visit) bool { return v.Agent == other.Agent && v.Client == other.Client }

// Since returns the clients that have come after a moment, newest first. agent narrows it to those of
// one; "": of all.
func (s *Seen) Since(at time.Time, agent string) (out []Visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.visits {
		if v.At.After(at) && (agent == "" || v.Agent == agent) {
			out = append(out, v)
		}
	}
	return out
}

// said returns what a client says of itself, fit to stand in a line.
func said(s string) string { return text.Clip(text.Line(s[:min(len(s), 4*maxSaid)]), maxSaid) }
