package connect

import (
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/text"
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
	if s.isFresh(v) {
		return
	}
	v.Tools = tools() // which takes its time, and no lock
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]Visit, 1, len(s.visits)+1)
	kept[0] = v
	ofAgent := 1
	for _, old := range s.visits {
		if old.Agent == v.Agent {
			if old.Client == v.Client || ofAgent == maxClients {
				continue
			}
			ofAgent++
		}
		if kept = append(kept, old); len(kept) == maxVisits {
			break
		}
	}
	s.visits = kept
}

// isFresh reports whether the same client was noted within the last second.
func (s *Seen) isFresh(v Visit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.visits {
		if v.At.Sub(old.At) >= countsAgain {
			return false
		}
		if old.Agent == v.Agent && old.Client == v.Client {
			return old.Version == v.Version && old.Protocol == v.Protocol
		}
	}
	return false
}

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
