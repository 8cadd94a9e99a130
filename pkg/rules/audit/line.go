// Package audit has the lines that say who did what: one for each call of an agent, allowed or
// not, and one for each event of a person. Both are of one schema, which is versioned.
//
// Arguments and results are in no line, only what they hash to; the config can have arguments kept,
// with their texts taken out.
package audit

import (
	"encoding/json"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Version is that of the schema. It grows when a member changes its meaning; members may be added.
const Version = 1

// The kinds of lines.
const (
	KindCall  = "call"
	KindEvent = "deed"

	KindNote    = "note"    // the file says something of itself
	KindDamaged = "damaged" // a reader's, for a line that cannot be read
)

// What was decided about a call.
const (
	Allowed = "allowed" // it was sent, or the gateway answered it itself
	Locked  = "locked"  // the tool is locked; Status says why
	Tier    = "tier"    // the agent may not call tools of the tier, or called by the wrong variant
	Scope   = "scope"   // what it named does not exist for the agent
	Stopped = "stopped" // an emergency stop of the agent, a server or everything
	Refused = "refused" // the request was faulty, or nothing could be called at all
)

// How a call ended that was sent, besides the outcomes of servers.
const (
	Asked     = "asked"     // the server asks for input; the answer to it is a call of its own
	Cancelled = "cancelled" // by the client, or by the end of the program
)

// A Line is one call or one event. Members of the other kind are left out.
type Line struct {
	V    int       `json:"v"`
	Time time.Time `json:"time"` // of the end of a call, UTC
	Kind string    `json:"kind"` // call, event

	// Of a call.
	Agent       string          `json:"agent,omitempty"`
	Method      string          `json:"method,omitempty"`      // tools/call, prompts/get, resources/read, completion/complete, resources/subscribe
	Human       string          `json:"human,omitempty"`       // whom the agent's token names as its user; "": nobody
	Tool        string          `json:"tool,omitempty"`        // id of the tool, prompt or resource, or a tool of the gateway's own, such as retrieve_tools. Also of an event
	Definition  tool.Hash       `json:"definition,omitempty"`  // that was called, or that is locked
	ArgsAsked   string          `json:"args_asked,omitempty"`  // SHA-256, lower-case hex, of the canonical JSON of the arguments that came
	ArgsSent    string          `json:"args_sent,omitempty"`   // the same of those that were sent to the server; "": none were
	Arguments   json.RawMessage `json:"arguments,omitempty"`   // with "arguments": "redacted"
	Path        string          `json:"path,omitempty"`        // of the endpoint
	Decision    string          `json:"decision,omitempty"`    // allowed, locked, tier, scope, stopped, refused
	Status      string          `json:"status,omitempty"`      // of the lock
	Rules       []string        `json:"rules,omitempty"`       // of the operator that decided
	Would       []string        `json:"would,omitempty"`       // reserved
	Limit       string          `json:"limit,omitempty"`       // reserved
	Found       *Found          `json:"found,omitempty"`       // of a search
	Outcome     string          `json:"outcome,omitempty"`     // of a call that was sent: how its server answered: available, transient, permanent, denied, or else asked, cancelled
	Delivered   bool            `json:"delivered,omitempty"`   // the answer was written to the client
	ResultBytes int             `json:"result_bytes,omitzero"` // of the result
	ResultID    string          `json:"result_id,omitempty"`   // reserved
	Ms          float64         `json:"ms,omitzero"`           // that the request took, milliseconds
	Trace       string          `json:"trace,omitempty"`       // id of the trace that the client named, 32 hex digits

	// Of an event.
	Actor   string    `json:"actor,omitempty"`
	Action  string    `json:"action,omitempty"`
	Hash    tool.Hash `json:"hash,omitempty"`    // of the definition that was decided about
	From    tool.Hash `json:"from,omitempty"`    // of the definition that was approved before
	Subject string    `json:"subject,omitempty"` // what it was about, if it is no tool: a server, an agent, a token, a file; see [Line.About]
	Note    string    `json:"note,omitempty"`
	Shown   string    `json:"shown,omitempty"`   // how the actor was shown the definition that is approved: opened, printed, hash, seen, lock_file
	Request string    `json:"request,omitempty"` // id of the request for access, or for one call, that it is about. Also of a call

	Source string `json:"source,omitempty"` // address that it came from
	Prev   string `json:"prev,omitempty"`   // SHA-256, lower-case hex, of the line before in a file, without its end of line

	Cursor Cursor `json:"-"` // of the line in what it was read from; set by the reader
}

// Found says what a search found.
type Found struct {
	Callable int            `json:"callable"`         // how many matched
	Locked   map[string]int `json:"locked,omitempty"` // how many matched, by status
	Shown    []string       `json:"shown,omitempty"`  // ids of the locked ones that the answer holds
}
