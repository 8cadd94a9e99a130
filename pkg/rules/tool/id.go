package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// A Kind is the kind of an item. The zero Kind is [Tool]: an item without a kind, such as a record
// of an earlier version, is a tool.
type Kind string

// The kinds of items that servers list.
const (
	Tool     Kind = ""
	Prompt   Kind = "prompt"
	Resource Kind = "resource" // or a resource template
)

// String returns "tool", "prompt" or "resource".
func (k Kind) String() string {
	if k == Tool {
		return "tool"
	}
	return string(k)
}

// An ID names one item of one server. The text form of a tool's id is "server:tool". The first
// colon ends the server's name, so this name has no colon. The id of a prompt is
// "server:prompt:name", and the id of a resource is "server:resource:" and its URI. No tool has a
// colon in its name.
type ID struct {
	Server string
	Name   string // the URI of a resource, or the URI template of a template
	Kind   Kind
}

// ParseID reads the result of [ID.String]. No part may be empty. ParseID checks nothing else:
// a look-up of a malformed id finds nothing, like a look-up of any other unknown id.
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

// IsGlob reports whether id, as an entry of a list, matches every item of its kind with a matching
// name: prompts and resources with a "*" in the name, and tools only as "server:*".
func (id ID) IsGlob() bool {
	if id.Kind == Tool {
		return id.Name == "*"
	}
	return strings.Contains(id.Name, "*")
}

// Key returns a text of bounded length that distinguishes the item from all others of its server:
// the name of a tool, "prompt:name", or "resource:" and the SHA-256 of the URI in hex.
func (id ID) Key() string {
	if id.Kind == Resource {
		return string(Resource) + ":" + id.Sum()
	}
	return id.local()
}

// Sum returns the SHA-256 of the item's name in lower-case hex. It replaces the URI of a resource
// in places where a URI is too long, or cannot be part of a path.
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
