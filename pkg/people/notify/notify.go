// Package notify notifies people of requests, changes and faults by Slack, signed webhooks and SNS,
// including e-mail. Messages have names and links, never texts of a server or an agent.
//
// Callers put an [Event] into the [Outbox]. Only the sync sends, because it has the targets'
// secrets and the guard of outgoing requests. Delivery is at least once: if a sender ends after the
// target's answer and before it stores the result, the next sender sends again with the same
// webhook-id.
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

// A Kind says what an event is about. Targets choose events by kind.
type Kind string

// The kinds of events.
const (
	Changed       Kind = "changed"          // definitions of a server changed
	New           Kind = "new"              // a server lists new items
	RequestMade   Kind = "request"          // an agent requests something, or a call waits
	Decided       Kind = "decided"          // a person decided about a request
	ServerDown    Kind = "server_down"      // a server no longer loads
	ConfigRefused Kind = "config_refused"   // a file of the operator has faults
	SignInEnded   Kind = "connection_ended" // the gateway's sign-in at a server ended
)

// An Event is something about which people get one notice. It has names, codes and numbers, and no
// text of a server or an agent.
type Event struct {
	ID      string    `json:"id"` // events with the same id are sent once; "": the outbox makes an id
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Server  string    `json:"server,omitempty"`
	Items   []tool.ID `json:"items,omitempty"`
	More    int       `json:"more,omitempty"`    // number of further items
	Agent   string    `json:"agent,omitempty"`   // id of the requesting agent
	Request string    `json:"request,omitempty"` // id
	OneCall bool      `json:"one_call,omitempty"`
	Verdict string    `json:"verdict,omitempty"` // of the kind decided
	Also    []string  `json:"also,omitempty"`    // ids of further requests that the same decision answers
	By      string    `json:"by,omitempty"`      // who decided, or made the request for the agent
	Path    string    `json:"path"`              // of the page, below the gateway's address; "": the page of the event's request

	Status  outcome.Status `json:"status,omitempty"`  // of server_down and connection_ended
	Reason  string         `json:"reason,omitempty"`  // of the same kinds: one of [outcome.Reasons]
	File    string         `json:"file,omitempty"`    // of config_refused: key of the file
	Faults  int            `json:"faults,omitempty"`  // of config_refused: number of faults
	Stays   bool           `json:"stays,omitempty"`   // of config_refused: an earlier version is in use
	Waiting int            `json:"waiting,omitempty"` // number of requests that the event is about

	// Tier is the strongest tier of the items, and Findings is their number of findings. "" and 0:
	// the sender of the event does not know them.
	Tier     string `json:"tier,omitempty"`
	Findings int    `json:"findings,omitempty"`
}

// A Notifier accepts events for people. It does not wait for the delivery. If it cannot accept an
// event, it logs the event and returns no error.
type Notifier interface {
	Notify(ctx context.Context, e Event)
}

// Discard is a Notifier that drops all events.
type Discard struct{}

// Notify implements [Notifier].
func (Discard) Notify(context.Context, Event) {}

const (
	// MaxItems limits the items that one event names.
	MaxItems = 20

	maxName = 200 // characters of other names
)

// Fit returns the event as an outbox stores it: with an id, a time and a limited size. An event
// about a request gets an id from the request and the verdict, so it is sent once even if it is put
// many times. It gets the request's page if it has none.
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
	e.Also = e.Also[:min(len(e.Also), MaxItems)]
	for _, s := range []*string{&e.Server, &e.Agent, &e.Request, &e.Verdict, &e.By, &e.Reason, &e.File, &e.Tier} {
		*s = text.Clip(*s, maxName)
	}
	e.Status = outcome.Status(text.Clip(string(e.Status), maxName))
	return e
}

// IDOf returns the id of an event that these texts identify: 32 hex digits.
func IDOf(parts ...string) string {
	data, _ := json.Marshal(parts) // texts cannot fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
