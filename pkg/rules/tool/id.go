package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// A Kind says what an item is. The zero Kind is [Tool]: what names no kind, such as a record of
// an earlier version, is about a tool.
type Kind string

// The kinds of items that servers list.
const (
	Tool     Kind = ""
	Prompt   Kind = "prompt"
	Resource Kind = "resource" // or a template of resources
)

// String returns "tool", "prompt" or "resource".
func (k Kind) String() string {
	if k == Tool {
		return "tool"
	}
	return string(k)
}

// An ID names one item of one server. The text form of a tool's is "server:tool"; the first colon
// splits, so a server name has none. That of a prompt is "server:prompt:name", and that of a
// resource "server:resource:" and its URI; no tool has a colon in its name.
type ID struct {
	Server string
	Name   string // a resource's is its URI, a template's its URI template
	Kind   Kind
}

// ParseID reads what [ID.String] returns. No part may be empty; nothing else is checked, so that an
// id that does not exist is looked up and not found, whatever is wrong with it.
func ParseID(s string) (ID, error) {
	server, name, _ := strings.Cut(s, ":")
	id := ID{Server: server, Name: name}
	for _, kind := range []Kind{Prompt, Resource} {
		if rest, ok := strings.CutPrefix(name, string(kind)+":"); ok {
			id.Name, id.Kind = rest, kind
		}
	}
	if id.Server == "" || id.Name == "" {
		return ID{}, fmt.Errorf("tool id %q is not of the form server:tool, server:prompt:name or server:resource:uri", s)
	}
	return id, nil
}

// String returns "server:tool", "server:prompt:name" or "server:resource:uri".
func (id ID) String() string { return id.Server + ":" + id.local() }

// local returns the text form without the server.
func (id ID) local() string {
	if id.Kind == Tool {
		return id.Name
	}
	return string(id.Kind) + ":" + id.Name
}

// IsGlob reports whether id, as an entry of a list, stands for every item of its kind whose name
// matches: that of prompts and resources with a "*" in it, and of tools "server:*" alone.
func (id ID) IsGlob() bool {
	if id.Kind == Tool {
		return id.Name == "*"
	}
	return strings.Contains(id.Name, "*")
}

// Key returns a text of bounded length that tells the item from all others of its server: the name
// of a tool, "prompt:name", or "resource:" and the SHA-256 of the URI in hex.
func (id ID) Key() string {
	if id.Kind == Resource {
		return string(Resource) + ":" + id.Sum()
	}
	return id.local()
}

// Sum returns the SHA-256 of the item's name in lower-case hex. It stands for a resource's URI where
// that is too long, or cannot be part of a path.
func (id ID) Sum() string {
	sum := sha256.Sum256([]byte(id.Name))
	return hex.EncodeToString(sum[:])
}

// Compare orders ids by their text form.
func (id ID) Compare(other ID) int {
	if id.Server == other.Server {
		if id.Kind == other.Kind {
			return strings.Compare(id.Name, other.Name)
		}
		return strings.Compare(id.local(), other.local())
	}
	return strings.Compare(id.String(), other.String())
}
