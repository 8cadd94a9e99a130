// Package review says what has changed from one definition of a tool, a prompt or a resource to the
// next, so that a person reads the change and not the whole: a computed summary, a word diff of texts, a line diff of JSON.
//
// It decides nothing and leaves nothing out: whatever differs is marked, if need be more coarsely
// than it could be. Definitions are written by servers that may be hostile, so the work is bounded by
// their size alone and not by how they differ.
package review

import (
	"bytes"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Readable returns s as it is shown to a person: characters that a person does not see are
// written as numbers, ⟨U+202E⟩, because they could hide instructions that an agent reads.
func Readable(s string) string { return text.Reveal(s) }

// Indent returns a definition, or a part of one, as text for [Lines]: in canonical form, so that
// the order of members makes no difference, one member a line. [rawjson.Indent] says how much it
// writes at most. What is no JSON is returned as it is.
func Indent(raw json.RawMessage) string { return rawjson.Indent(canonical(raw), "", "  ") }

// canonical returns a definition in canonical form. What has more values than are compared one by one
// keeps its order: to sort its members would take 240 bytes for each.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) > tool.MaxDefinition || bytes.Count(raw, []byte(",")) > maxNodes {
		return raw
	}
	return tool.KeptCanonical(raw)
}
