package connect

import (
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// The limits of [Visits]. A client chooses its name, so one agent can send any number of names.
// Above maxClients, a new name replaces an older name of the same agent.
const (
	maxVisits   = 256
	maxClients  = 8           // of one agent
	maxName     = 64          // characters of a name or version
	countsAgain = time.Second // after this time, Tools of a client is counted again
)

// A Visit is a client that has connected to the gateway. The client chooses its name and version,
// so they may be false.
type Visit struct {
	Agent    string    `json:"agent"`
	Client   string    `json:"client"` // the name that it sends; may be empty
	Version  string    `json:"version"`
	Protocol string    `json:"protocol"` // version of MCP
	Tools    int       `json:"tools"`    // number of tools that the client can call
	At       time.Time `json:"at"`       // time of its last initialize or discovery

	counted time.Time // time at which Tools was counted
}

// Visits records in memory the clients that have connected to this process. It is safe for
// concurrent use.
type Visits struct {
	now func() time.Time

	mu     sync.Mutex
	visits []Visit // newest first
}

// NewVisits returns empty Visits. A nil now means time.Now.
func NewVisits(now func() time.Time) *Visits {
	if now == nil {
		now = time.Now
	}
	return &Visits{now: now}
}

// Note records that a client has connected. tools counts the tools that the client can call. Note
// calls tools at most once a second for the same client.
func (s *Visits) Note(v Visit, tools func() int) {
	v.Client, v.Version, v.Protocol = clip(v.Client), clip(v.Version), clip(v.Protocol)
	v.At = s.now()
	if v.Tools, v.counted = s.lastCount(v); v.At.Sub(v.counted) >= countsAgain {
		v.Tools, v.counted = tools(), v.At // slow, so outside the lock
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.place(v)
	copy(s.visits[1:i+1], s.visits[:i])
	s.visits[0] = v
}

// lastCount returns the last count of the same client's tools, and its time.
func (s *Visits) lastCount(v Visit) (tools int, counted time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.visits, v.isOf); i >= 0 {
		return s.visits[i].Tools, s.visits[i].counted
	}
	return 0, time.Time{}
}

// place returns the index of the visit that v replaces: the last visit of the same client, or the
// oldest visit of an agent with maxClients. Otherwise the index is of a new visit, or of the oldest
// visit if there are maxVisits.
func (s *Visits) place(v Visit) int {
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

// isOf reports whether both visits are by the same client.
func (v Visit) isOf(other Visit) bool { return v.Agent == other.Agent && v.Client == other.Client }

// Since returns the clients that have connected after a time, newest first. An empty agent means
// the clients of all agents.
func (s *Visits) Since(at time.Time, agent string) (out []Visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.visits {
		if v.At.After(at) && (agent == "" || v.Agent == agent) {
			out = append(out, v)
		}
	}
	return out
}

// clip returns a text from a client, shortened and without line breaks.
func clip(s string) string { return text.Clip(text.Line(s[:min(len(s), 4*maxName)]), maxName) }
