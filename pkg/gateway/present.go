package gateway

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// present returns a definition as agents see it: byte for byte what its server
// said, but for its name if another one is given, and for those annotations that the
// operator overrides; a client asks its user by them.
func present(d tool.Definition, name string, effective tool.Annotations) json.RawMessage {
	edits := map[string]func(old json.RawMessage) json.RawMessage{}
	if name != "" {
		edits["name"] = func(json.RawMessage) json.RawMessage { return encode(name) }
	}
	if hints := overridden(d.Annotations, effective); len(hints) > 0 {
		edits["annotations"] = func(old json.RawMessage) json.RawMessage {
			if len(old) == 0 || old[0] != '{' {
				old = json.RawMessage("{}")
			}
			return edit(old, hints)
		}
	}
	return edit(d.Raw, edits)
}

// overridden returns how to write each annotation that is not what the server said.
func overridden(own, effective tool.Annotations) map[string]func(json.RawMessage) json.RawMessage {
	edits := map[string]func(json.RawMessage) json.RawMessage{}
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

// edit returns a JSON object with the values of some keys replaced; keys that
// it lacks are added at its end, in order of their names. All other bytes stay.
func edit(raw json.RawMessage, edits map[string]func(old json.RawMessage) json.RawMessage) json.RawMessage {
	if len(edits) == 0 {
		return raw
	}
	var out bytes.Buffer
	done, empty := 0, true
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return raw
	}
	missing := map[string]bool{}
	for key := range edits {
		missing[key] = true
	}
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return raw
		}
		empty = false
		name, _ := key.(string)
		if f, ok := edits[name]; ok {
			end := int(dec.InputOffset())
			out.Write(raw[done : end-len(value)])
			out.Write(f(value))
			done = end
			delete(missing, name)
		}
	}
	end := bytes.LastIndexByte(raw, '}')
	if end < done {
		return raw
	}
	out.Write(raw[done:end])
	var added []string
	for key := range missing {
		added = append(added, key)
	}
	slices.Sort(added)
	for _, key := range added {
		if !empty {
			out.WriteByte(',')
		}
		empty = false
		out.Write(encode(key))
		out.WriteByte(':')
		out.Write(edits[key](nil))
	}
	out.Write(raw[end:])
	return out.Bytes()
}

// encode prints a string or a boolean, which cannot fail.
func encode(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
