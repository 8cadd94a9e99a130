package gateway

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// present returns a definition as agents see it: byte for byte what its server
// said, but for its name if another one is given, and for those annotations that the
// operator overrides; a client asks its user by them.
func present(d tool.Definition, name string, effective tool.Annotations) json.RawMessage {
	edits := map[string]edit{}
	if name != "" {
		edits["name"] = func(json.RawMessage) json.RawMessage { return encode(name) }
	}
	if hints := overridden(d.Annotations, effective); len(hints) > 0 {
		edits["annotations"] = func(old json.RawMessage) json.RawMessage {
			if len(old) == 0 || old[0] != '{' {
				old = json.RawMessage("{}")
			}
			return change(old, hints)
		}
	}
	return change(d.Raw, edits)
}

// overridden returns how to write each annotation that is not what the server said.
func overridden(own, effective tool.Annotations) map[string]edit {
	edits := map[string]edit{}
	if own.Title != effective.Title {
		edits["title"] = func(json.RawMessage) json.RawMessage { return encode(effective.Title) }
	}
	for key, hint := range map[string][2]*bool{
		"readOnlyHint":    {own.ReadOnlyHint, effective.ReadOnlyHint},
		"destructiveHint": {own.DestructiveHint, effective.DestructiveHint},
		"idempotentHint":  {own.IdempotentHint, effective.IdempotentHint},
		"openWorldHint":   {own.OpenWorldHint, effective.OpenWorldHint},
	} {
		was, is := hint[0], hint[1]
		if is != nil && (was == nil || *was != *is) {
			edits[key] = func(json.RawMessage) json.RawMessage { return encode(*is) }
		}
	}
	return edits
}
