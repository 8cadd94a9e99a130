// Package outcome describes how an upstream server answered: the outcome of a load or a call, its
// reason as a stable code, and the sentences that an agent may read about it.
//
// It has only types and texts; package upstream decides which of them apply. So a package that
// reports on a server imports only this package, and not the client in package upstream.
package outcome

import (
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Status says how a load or a call of a server ended. The zero Status says nothing about the
// server: the caller gave up before the end, and the gateway records no outcome.
type Status string

// The four outcomes.
const (
	Available Status = "available"
	Transient Status = "transient" // starting up or briefly unavailable: it will be retried
	Permanent Status = "permanent" // broken until an operator fixes it
	Denied    Status = "denied"    // the gateway has no access: retrying will not help
)

// An Outcome is how a load or a call of one server ended. The catalog stores it without Tools,
// Items and Nested.
type Outcome struct {
	ServerID   string            `json:"server"`
	Status     Status            `json:"status"`
	Tools      []tool.Definition `json:"-"`
	Items      []tool.Definition `json:"-"`                 // prompts, resources and resource templates
	Nested     []tool.Definition `json:"-"`                 // refused, because they are nested too deeply: [tool.ErrNested]
	Lists      string            `json:"-"`                 // SHA-256 of the lists, byte for byte; "": unknown
	Same       bool              `json:"-"`                 // Lists is the hash that the caller knows: Tools and Items are left out
	Unread     []Unread          `json:"unread,omitempty"`  // lists of an available server that could not be read
	Refused    []Refusal         `json:"refused,omitempty"` // refused items of an available server, at most 100
	Error      string            `json:"error,omitempty"`   // for the log and the admin API: redacted, never for an agent
	Attempts   int               `json:"attempts"`          // 0 for a config fault: nothing was sent
	Reason     string            `json:"reason,omitempty"`  // stable code, one of [Reasons]
	HTTPStatus int               `json:"http_status,omitempty"`
	Challenge  *Challenge        `json:"challenge,omitempty"` // of a denied load; nil: the server demands no sign-in
	RetryAfter time.Duration     `json:"retry_after,omitempty"`
	Duration   time.Duration     `json:"duration"`
	CheckedAt  time.Time         `json:"checked_at"`
	Started    time.Time         `json:"started,omitzero"`    // of [ReasonStarting]: when its program started
	LoadedAt   time.Time         `json:"loaded_at,omitzero"`  // when the server was last available; set by a sync
	ListTTL    time.Duration     `json:"list_ttl,omitempty"`  // how long the server says that its lists are fresh, an hour at most; 0: unspecified
	Memory     Memory            `json:"memory,omitzero"`     // for the next load or call, in any process
	Connected  bool              `json:"connected,omitempty"` // the gateway has a sign-in at the server, even an ended one
}

// Recorded reports whether o says something new about the server. An aborted load or call does not,
// because the caller went away; the server's last outcome stays.
func (o Outcome) Recorded() bool { return o.Status != "" }

// Stale reports whether o is older than the [Status.TTL] of its status at now, so that the server
// should be tried again.
func (o Outcome) Stale(now time.Time) bool { return now.Sub(o.CheckedAt) >= o.Status.TTL() }

// TTL returns how long an outcome of that status is kept. After a transient failure this time is
// short, so that the next sync or call retries, as [Outcome.Message] promises.
func (s Status) TTL() time.Duration {
	switch s {
	case Available:
		return 5 * time.Minute
	case Transient:
		return 5 * time.Second
	case Permanent:
		return time.Minute
	case Denied:
		return 30 * time.Second
	}
	return 0
}

// A Refusal is a listed tool, or another item, that the gateway refuses, and why.
type Refusal struct {
	Name   string    `json:"name"`           // or URI; quoted and cut to 100 characters
	Kind   tool.Kind `json:"kind,omitempty"` // "": a tool
	Reason string    `json:"reason"`
}

// RefusedTask is the reason why the gateway refuses a tool of the handshake protocol that only runs
// as a task. The tool's server has no fault.
const RefusedTask = "it only runs as a task of version 2025-11-25 (execution.taskSupport), " +
	"and the gateway passes on only tasks of the stateless protocol"

// The lists that a server may have in addition to its tools.
const (
	ListPrompts   = "prompts"
	ListResources = "resources"
	ListTemplates = "templates"
)

// An Unread is a list that the gateway could not read, although the server is available. The
// gateway keeps what it read from this list last.
type Unread struct {
	List   string `json:"list"`            // [ListPrompts], [ListResources] or [ListTemplates]
	Reason string `json:"reason"`          // one of [Reasons]
	Error  string `json:"error,omitempty"` // as in an [Outcome]
}

// Read reports whether the gateway read the list that contains d.
func (o Outcome) Read(d tool.Definition) bool {
	if o.Status != Available {
		return false
	}
	list := ""
	switch {
	case d.Kind == tool.Prompt:
		list = ListPrompts
	case d.Kind == tool.Resource && d.Template:
		list = ListTemplates
	case d.Kind == tool.Resource:
		list = ListResources
	}
	return !slices.ContainsFunc(o.Unread, func(u Unread) bool { return u.List == list })
}

// A Memory is what a handshake found out about a server, so that the next handshake, in any
// process, needs fewer requests. A wrong Memory costs one more request, and is then corrected.
type Memory struct {
	Handshake bool      `json:"handshake,omitempty"` // the server does not support the stateless protocol
	Sessions  bool      `json:"sessions,omitempty"`  // the server gives session ids
	At        time.Time `json:"at,omitzero"`         // when the stateless protocol was last tried
}
