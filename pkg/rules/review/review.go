// Package review shows how a definition of a tool, a prompt or a resource has changed, so that a
// person reads the change and not the whole: a computed summary, a word diff of texts, a line diff
// of JSON.
//
// It decides nothing and leaves nothing out: it marks every difference, even if only coarsely.
// Definitions may come from hostile servers, so the work depends only on their size and not on
// their differences.
package review

import (
	"bytes"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Readable returns s for people: it shows hidden characters as numbers, ⟨U+202E⟩, because they
// could hide instructions that an agent reads.
func Readable(s string) string { return text.Reveal(s) }

// Indent returns a definition, or a part of one, as text for [Lines]: in canonical form, so that
// the order of members makes no difference, one member a line. [rawjson.Indent] limits its length.
// It returns text that is not JSON unchanged.
func Indent(raw json.RawMessage) string { return rawjson.Indent(canonical(raw), "", "  ") }

// canonical returns a definition in canonical form. A definition with more values than maxNodes
// keeps its order: sorting its members would take 240 bytes for each.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) > tool.MaxDefinition || bytes.Count(raw, []byte(",")) > maxNodes {
		return raw
	}
	return tool.KeptCanonical(raw)
}
