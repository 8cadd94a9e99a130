// Package toolset decides which tools a request is offered: the operator's
// bound, the agent's scope, the toolset of the path, and what the request's
// headers ask for. A request can only narrow.
//
// It is pure. The names in a request are the caller's choice, so this is
// hygiene and not a boundary; but a name that the caller may not know of is
// answered exactly like one that does not exist.
package toolset

import (
	"errors"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Universe is every tool of the catalog and every server of the config.
// A tool's number is its index in Tools.
type Universe struct {
	Tools   []Tool
	Servers []Server
}

// A Tool is what selection needs to know of a tool.
type Tool struct {
	ID       tool.ID
	ReadOnly bool // by its effective annotations
}

// A Server is how the last load of a server ended.
type Server struct {
	Name       string
	Loaded     bool          // its list is complete: a name that is not in it does not exist
	Transient  bool          // not loaded, and likely to load soon
	RetryAfter time.Duration // when to ask again for a Transient one; 0: a default
}

// An Error is a request that cannot be served as it was asked. All of it may
// be shown to the caller.
type Error struct {
	Status          int    // HTTP: 400 or 503
	Message         string // one line
	UnknownToolsets []string
	UnknownTools    []string
	Conflicts       []Conflict
	RetryAfter      time.Duration // with 503
}

// A Conflict is a bare tool name that stands for several tools.
type Conflict struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// A Request is what one HTTP request asks for, parsed but not yet resolved.
// The zero Request asks for everything.
type Request struct {
	path     string
	readOnly bool
}

// ParseRequest reads a request from what follows /mcp in its path ("", "/readonly" or
// "/x/{toolset}") and its headers. The error is an [*Error].
func ParseRequest(path string, h http.Header) (Request, error) {
	return Request{}, &Error{Status: http.StatusBadRequest, Message: "selection is not supported"}
}

// Headers returns the names of the headers that ParseRequest reads. They are
// allowed across origins, and never sent upstream.
func Headers() []string {
	return []string{
		"X-MCP-Toolsets", "X-MCP-Tools", "X-MCP-Enabled-Tools", "X-MCP-Exclude-Tools", "X-MCP-Disabled-Tools",
		"X-MCP-Readonly", "Prefer",
	}
}

// A Bound is what the operator offers, resolved against a Universe. It is
// immutable.
type Bound struct{}

// Compile resolves the operator's toolsets.
func Compile(cfg *config.Config, u Universe) (*Bound, error) {
	return nil, errors.New("not supported")
}

// A Selection is the set of tools that one request is offered, by number.
type Selection struct {
	Ignored []string // names that Prefer: handling=lenient dropped, sorted
}

// Has reports whether tool number i is offered.
func (s Selection) Has(i int) bool { return false }

// Len returns how many tools are offered.
func (s Selection) Len() int { return 0 }

// Select returns what req is offered. The error is an [*Error].
func (b *Bound) Select(req Request, agent identity.Agent) (Selection, error) {
	return Selection{}, &Error{Status: http.StatusBadRequest, Message: "No tools left"}
}
