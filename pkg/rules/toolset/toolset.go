// Package toolset decides which tools a request is offered: the operator's
// bound, the agent's scope, the toolset of the path, and what the request's
// headers ask for. A request can only narrow.
//
// It is pure. The names in a request are the caller's choice, so this is
// hygiene and not a boundary; but a name that the caller may not know of is
// answered exactly like one that does not exist, or the answers would be a way
// to list what others have.
package toolset

import (
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The toolsets that always exist. In a request both stand for all that the
// agent may be offered; the operator's config knows only the first.
const (
	all      = "all"
	standard = "default"
)

// A Universe is every tool of the catalog, with prompts and resources, and every server of the config.
// The number of each is its index in Tools.
type Universe struct {
	Tools   []Tool
	Servers []Server
}

// A Tool is what selection needs to know of a tool, a prompt or a resource.
type Tool struct {
	ID       tool.ID
	ReadOnly bool // by its effective annotations
}

// A Server is how the last load of a server ended. A name under a server that
// is not Loaded may be that of a tool which is not known yet.
type Server struct {
	Name       string
	Loaded     bool          // its list is complete: a name that is not in it does not exist
	Transient  bool          // not loaded, and likely to load soon
	RetryAfter time.Duration // when to ask again for a Transient one; 0: a default
}

// An Error is a request that cannot be served as it was asked. All of it may
// be shown to the caller.
type Error struct {
	Status          int           // HTTP: 400, 404 or 503
	Message         string        // one line
	UnknownToolsets []string      // sorted
	UnknownTools    []string      // sorted
	Conflicts       []Conflict    // by name
	RetryAfter      time.Duration // with 503
}

// A Conflict is a bare tool name that stands for several tools.
type Conflict struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"` // "server:tool", sorted
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// fold returns the form in which toolset names are compared.
func fold(name string) string { return strings.ToLower(name) }
