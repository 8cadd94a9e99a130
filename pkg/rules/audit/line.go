// Package audit writes and reads audit lines: one for each call of an agent, allowed or not, and
// one for each event of a person. Both kinds have the same versioned schema.
//
// Lines contain no arguments or results, only their hashes. The config can add the arguments in
// redacted form, without their texts.
package audit

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Version is the version of the schema. It grows when the meaning of a member changes, but not
// when members are added.
const Version = 1

// The kinds of lines.
const (
	KindCall  = "call"
	KindEvent = "deed"

	KindNote    = "note"    // a note of the file about itself
	KindDamaged = "damaged" // from a reader, for a line that it cannot read
)

// The decisions about a call.
const (
	Allowed = "allowed" // it was sent, or the gateway itself answered it
	Locked  = "locked"  // the tool is locked; Status says why
	Tier    = "tier"    // the agent may not call tools of the tier, or called the wrong variant
	Scope   = "scope"   // the named item does not exist for the agent
	Stopped = "stopped" // an emergency stop of the agent, a server or everything
	Refused = "refused" // the request was faulty, or nothing could be called at all
)

// How a sent call ended, in addition to the outcomes of servers.
const (
	InputRequired = "asked"     // the server asks for input; the answer to it is a separate call
	Task          = "task"      // the server continues the call as a task, whose end has a line
	Cancelled     = "cancelled" // by the client, or by the end of the program
)

// A Line is one call or one event. It leaves out members of the other kind.
type Line struct {
	V    int       `json:"v"`
	Time time.Time `json:"time"` // of the end of a call, UTC
	Kind string    `json:"kind"` // call, event

	// Members of a call.
	Agent       string          `json:"agent,omitempty"`
	Method      string          `json:"method,omitempty"`      // tools/call, prompts/get, resources/read, completion/complete, resources/subscribe, tasks/get, tasks/update, tasks/cancel
	Human       string          `json:"human,omitempty"`       // the user that the agent's token names; "": none
	Client      string          `json:"client,omitempty"`      // the client that the agent's token names; "": none
	Tool        string          `json:"tool,omitempty"`        // id of the tool, prompt or resource, or one of the gateway's own tools, such as retrieve_tools. Also of an event
	Definition  tool.Hash       `json:"definition,omitempty"`  // the called or locked definition
	ArgsAsked   string          `json:"args_asked,omitempty"`  // SHA-256, lower-case hex, of the canonical JSON of the arguments from the client
	ArgsSent    string          `json:"args_sent,omitempty"`   // the same for the arguments to the server; "": not sent
	Arguments   json.RawMessage `json:"arguments,omitempty"`   // with "arguments": "redacted"
	Path        string          `json:"path,omitempty"`        // of the endpoint
	Decision    string          `json:"decision,omitempty"`    // allowed, locked, tier, scope, stopped, refused
	Status      string          `json:"status,omitempty"`      // of the lock
	Rules       []string        `json:"rules,omitempty"`       // the operator's rules that decided
	Would       []string        `json:"would,omitempty"`       // reserved
	Limit       string          `json:"limit,omitempty"`       // reserved
	Found       *Matches        `json:"found,omitempty"`       // of a search
	Outcome     string          `json:"outcome,omitempty"`     // of a sent call: the server's answer: available, transient, permanent, denied; or asked, task, cancelled
	Delivered   bool            `json:"delivered,omitempty"`   // the answer was written to the client
	ResultBytes int             `json:"result_bytes,omitzero"` // of the result
	ResultID    string          `json:"result_id,omitempty"`   // reserved
	Ms          float64         `json:"ms,omitzero"`           // duration of the request in milliseconds
	Trace       string          `json:"trace,omitempty"`       // id of the client's trace, 32 hex digits

	// Members of an event.
	Actor   string    `json:"actor,omitempty"`
	Action  string    `json:"action,omitempty"`
	Hash    tool.Hash `json:"hash,omitempty"`    // of the decided definition
	From    tool.Hash `json:"from,omitempty"`    // of the definition that was approved before
	Subject string    `json:"subject,omitempty"` // the server, agent, token or file that the event concerns, if no tool; see [Line.About]
	Note    string    `json:"note,omitempty"`
	Shown   string    `json:"shown,omitempty"`   // how the actor saw the approved definition: opened, printed, hash, seen, lock_file
	Request string    `json:"request,omitempty"` // id of the request for access, or for one call. Also of a call

	Source string `json:"source,omitempty"` // address of the client
	Prev   string `json:"prev,omitempty"`   // SHA-256, lower-case hex, of the previous line in the file, without its line end

	Cursor Cursor `json:"-"` // of the line at its source; set by the reader
}

// IsAboutTask reports whether the line is about the task of an earlier call.
func (l Line) IsAboutTask() bool { return strings.HasPrefix(l.Method, "tasks/") }

// Matches has the counts of a search.
type Matches struct {
	Callable int            `json:"callable"`         // how many matched
	Locked   map[string]int `json:"locked,omitempty"` // how many matched, by status
	Shown    []string       `json:"shown,omitempty"`  // ids of the locked tools in the answer
}
