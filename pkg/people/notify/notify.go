// Package notify tells people that something waits for them: by Slack, by signed webhooks, by SNS and
// so by e-mail. What is told is names and links, never a text of a server or of an agent.
//
// Who has something to tell puts an [Event] into the [Outbox]; the sync alone sends, since it has the
// secrets of the targets and the guard of outgoing requests. A target is told at least once: a sender
// that ends between the answer of a target and its note of that is followed by one that sends again,
// with the same webhook-id.
package notify

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
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

// An Event is something that people are told once. It has names, codes and numbers: no field takes a
// text of a server or an agent.
type Event struct {
	ID      string    `json:"id"` // of two events with one id one is told; "": the outbox gives it one
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Server  string    `json:"server,omitempty"`
	Items   []tool.ID `json:"items,omitempty"`
	More    int       `json:"more,omitempty"`    // items besides
	Agent   string    `json:"agent,omitempty"`   // id of who asks
	Request string    `json:"request,omitempty"` // id
	OneCall bool      `json:"one_call,omitempty"`
	Verdict string    `json:"verdict,omitempty"` // of decided
	By      string    `json:"by,omitempty"`      // who decided, or asked in the place of the agent
	Path    string    `json:"path"`              // of the page, below the gateway's address; "": of an event about a request, its page

	Status  outcome.Status `json:"status,omitempty"`  // of server_down
	Reason  string         `json:"reason,omitempty"`  // and one of [outcome.Reasons]
	File    string         `json:"file,omitempty"`    // of config_refused: its key
	Faults  int            `json:"faults,omitempty"`  // and how many it has
	Stays   bool           `json:"stays,omitempty"`   // and an earlier version stays in use
	Waiting int            `json:"waiting,omitempty"` // of a request, or a decision, that stands for so many
}

// A Notifier takes what people are to be told. It does not wait until that was done, and what it
// cannot take is in the log: nothing else fails because of it.
type Notifier interface {
	Notify(ctx context.Context, e Event)
}

// Discard is a Notifier that tells nobody.
type Discard struct{}

// Notify implements [Notifier].
func (Discard) Notify(context.Context, Event) {}

const (
	// MaxItems is how many items one event names.
	MaxItems = 20

	maxName = 200 // characters of another name
)

// Fit returns the event as an outbox keeps it: with an id and a time, and of bounded size. An event
// about a request has the id of that and of what was decided, and its page, if it has none of its own:
// it is told once, however often it is put.
func (e Event) Fit(now time.Time) Event {
	if e.At.IsZero() {
		e.At = now
	}
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if e.Path == "" && e.Request != "" {
		e.Path = "/admin/requests/" + e.Request
	}
	switch {
	case e.ID == "" && e.Request != "":
		e.ID = IDOf(string(e.Kind), e.Request, e.Verdict)
	case e.ID == "":
		e.ID = rand.Text()
	case len(e.ID) > maxName:
		e.ID = IDOf(e.ID)
	}
	if over := len(e.Items) - MaxItems; over > 0 {
		e.Items, e.More = e.Items[:MaxItems:MaxItems], e.More+over
	}
	for _, s := range []*string{&e.Server, &e.Agent, &e.Request, &e.Verdict, &e.By, &e.Reason, &e.File} {
		*s = text.Clip(*s, maxName)
	}
	e.Status = outcome.Status(text.Clip(string(e.Status), maxName))
	return e
}

// IDOf returns the id of an event that is known by these texts: 32 hex digits.
func IDOf(parts ...string) string {
	data, _ := json.Marshal(parts) // texts alone cannot fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
