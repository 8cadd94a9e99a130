// Package tool holds what a gateway knows of one tool: its id, its
// definition, its tier, its hash and its signature.
//
// A definition is kept as the bytes that the server sent. A gateway that parses
// and prints JSON again rounds large integers, drops fields that it does not know
// and reorders keys; then what a person approved, what the hash covers and
// what the agent reads are three different things.
package tool

import (
	"encoding/json"
	"strings"
)

// An ID names one tool of one server. Its text form is "server:tool"; the
// first colon splits, so a server name has none.
type ID struct {
	Server string
	Name   string
}

// String returns "server:tool".
func (id ID) String() string { return id.Server + ":" + id.Name }

// Compare orders ids by their text form.
func (id ID) Compare(other ID) int { return strings.Compare(id.String(), other.String()) }

// A Tier is the strongest thing that a tool may do. The zero Tier is
// [Destructive]: a tool about which nothing is known may do anything.
type Tier uint8

// The three tiers, strongest first.
const (
	Destructive Tier = iota
	Write
	Read
)

// Annotations are the hints of MCP's ToolAnnotations; nil means that the
// server did not say. They come from an untrusted server until a person
// approves the definition or the operator overrides them.
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
}

// A Definition is what a server says of one of its tools. Raw is the whole
// JSON object exactly as it came; the other fields are read out of it, the
// schemas as sub-slices with their bytes untouched.
type Definition struct {
	Raw          json.RawMessage
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage // nil if absent
	OutputSchema json.RawMessage // nil if absent
	Annotations  Annotations
}

// A Hash is the lower-case hex SHA-256 of a definition's canonical form.
// Two definitions with one hash mean the same to an agent.
type Hash string
