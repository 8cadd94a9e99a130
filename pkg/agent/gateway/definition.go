package gateway

import (
	"encoding/json"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// agentDefinition returns a definition for agents. It keeps the server's bytes, except a replaced
// name and the annotations that the operator overrides. Clients use annotations to decide whether
// to ask their user.
func agentDefinition(d tool.Definition, name string, effective tool.Annotations) json.RawMessage {
	raw := d.Raw
	if name != "" {
		raw = rawjson.Set(raw, "name", rawjson.Quote(name))
	}
	hints := overriddenHints(d.Annotations, effective)
	if len(hints) == 0 {
		return raw
	}
	annotations := rawjson.Get(raw, "annotations")
	if len(annotations) == 0 || annotations[0] != '{' {
		annotations = json.RawMessage("{}")
	}
	for _, h := range hints {
		annotations = rawjson.Set(annotations, h.Name, h.Value)
	}
	return rawjson.Set(raw, "annotations", annotations)
}

// overriddenHints returns the annotations that differ from the server's.
func overriddenHints(own, effective tool.Annotations) (hints rawjson.Object) {
	for _, h := range []struct {
		name    string
		was, is *bool
	}{
		{"destructiveHint", own.DestructiveHint, effective.DestructiveHint},
		{"idempotentHint", own.IdempotentHint, effective.IdempotentHint},
		{"openWorldHint", own.OpenWorldHint, effective.OpenWorldHint},
		{"readOnlyHint", own.ReadOnlyHint, effective.ReadOnlyHint},
	} {
		if h.is != nil && (h.was == nil || *h.was != *h.is) {
			hints.Add(h.name, strconv.AppendBool(nil, *h.is))
		}
	}
	if own.Title != effective.Title {
		hints.Add("title", rawjson.Quote(effective.Title))
	}
	return hints
}
