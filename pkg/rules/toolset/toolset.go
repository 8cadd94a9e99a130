// Package toolset selects the tools that the gateway offers to a request, based on the operator's
// selection, the agent's scope, the toolset of the path, and the request's headers. A request can
// only narrow the selection.
//
// It is pure. The caller chooses the names in a request, so this package is no security boundary.
// But a name that is hidden from the caller gets the same answer as one that does not exist;
// otherwise callers could list what others have.
package toolset

import (
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The toolsets that always exist. In a request both mean everything that the agent may be offered;
// the operator's config knows only the first.
const (
	all      = "all"
	standard = "default"
)

// A Universe is every tool of the catalog, with prompts and resources, and every server of the
// config. The number of a tool, a prompt or a resource is its index in Tools.
type Universe struct {
	Tools   []Tool
	Servers []Server
}

// A Tool has the properties of a tool, a prompt or a resource that selection needs.
type Tool struct {
	ID       tool.ID
	ReadOnly bool // by its effective annotations
}

// A Server is the result of a server's last load. If it is not Loaded, any name may be the name of
// one of its unknown tools.
type Server struct {
	Name       string
	Loaded     bool          // its list is complete: other names do not exist
	Transient  bool          // not loaded, and likely to load soon
	RetryAfter time.Duration // when to retry a Transient server; 0: a default
}

// An Error says why a request cannot be served. The caller may see all of it.
type Error struct {
	Status          int           // HTTP: 400, 404 or 503
	Message         string        // one line
	UnknownToolsets []string      // sorted
	UnknownTools    []string      // sorted
	Conflicts       []Conflict    // by name
	RetryAfter      time.Duration // set only with Status 503
}

// A Conflict is a bare name of several tools.
type Conflict struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"` // "server:tool", sorted
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// fold returns the form in which toolset names are compared.
func fold(name string) string { return strings.ToLower(name) }
