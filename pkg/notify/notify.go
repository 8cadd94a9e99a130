// Package notify tells people that something waits for them: by Slack, by signed webhooks, by SNS and
// so by e-mail. What is told is names and links, never a text of a server or of an agent.
//
// Who has something to tell puts an [Event] into the [Outbox]; the sync alone sends, since it has the
// secrets of the targets and the guard of outgoing requests.
package notify

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Kind is what an event is about. Targets choose by it.
type Kind string

// The kinds.
const (
	Changed       Kind = "changed"        // definitions of a server changed
	New           Kind = "new"            // a server lists what it did not list
	Asked         Kind = "request"        // an agent asks for something, or a call waits
	Decided       Kind = "decided"        // and a person decided
	ServerDown    Kind = "server_down"    // a server no longer loads
	ConfigRefused Kind = "config_refused" // a file of the operator has faults
)

// An Event is something that people are told once.
type Event struct {
	ID      string    `json:"id"` // of two events with one id one is told; "": the outbox gives it one
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Server  string    `json:"server,omitempty"`
	Items   []tool.ID `json:"items,omitempty"`
	Agent   string    `json:"agent,omitempty"`   // id of who asks
	Request string    `json:"request,omitempty"` // id
	OneCall bool      `json:"one_call,omitempty"`
	Verdict string    `json:"verdict,omitempty"` // of decided
	By      string    `json:"by,omitempty"`      // who decided
	Path    string    `json:"path"`              // of the page, below the gateway's address: /admin/requests/R-7KQ2M4XD
}

// A Teller takes what people are to be told. It does not wait until that was done, and what it cannot
// take is in the log: nothing else fails because of it.
type Teller interface {
	Tell(ctx context.Context, e Event)
}

// Nobody is a Teller that tells nobody.
type Nobody struct{}

// Tell implements [Teller].
func (Nobody) Tell(context.Context, Event) {}
