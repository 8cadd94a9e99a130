package signature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// CheckReferences refuses a schema with a part at another address. Otherwise agents would use a
// part that people did not approve, and that part could change without a new approval.
//
// A $ref, $dynamicRef or $recursiveRef may name only a fragment of the schema itself ("#…"), and
// may not be below an $id that changes its base. $schema may name only a published dialect. A
// member that is merely called "$ref", such as a property, is no reference. Data such as an enum's
// value contains no references, unless a reference points at the data.
func CheckReferences(schema json.RawMessage) error {
	if !mayRefer(schema) {
		return nil
	}
	root, err := rawjson.Parse(schema)
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	w := &references{root: root, seen: map[*rawjson.Node]bool{}}
	return w.schema(root, false)
}

// mayRefer reports whether a schema needs a walk. Every relevant keyword starts with a dollar
// sign, which may be escaped. Most schemas have only one such keyword: a
// $schema that names a published dialect.
func mayRefer(schema []byte) bool {
	for rest := schema; ; {
		i := bytes.IndexByte(rest, '$')
		if i < 0 {
			return bytes.Contains(schema, []byte(`\u0024`))
		}
		if i > 0 && rest[i-1] == '"' && !isPublished(rest[i+1:]) {
			return true
		}
		rest = rest[i+1:]
	}
}

// isPublished reports whether the text after a dollar sign names a published dialect.
func isPublished(rest []byte) bool {
	rest, ok := bytes.CutPrefix(rest, []byte(`schema":`))
	if !ok {
		return false
	}
	rest, ok = bytes.CutPrefix(bytes.TrimPrefix(rest, []byte(" ")), []byte(`"http`))
	return ok && bytes.HasPrefix(bytes.TrimPrefix(rest, []byte("s")), []byte("://json-schema.org/"))
}

// References is a walk over the parts of a schema. It enters each part twice at most.
type references struct {
	root *rawjson.Node
	seen map[*rawjson.Node]bool // visited parts, by whether they have another base
}

// schema checks n as a schema. rebased says that an $id above it, but not at the root, changes the
// base of its references.
func (w *references) schema(n *rawjson.Node, rebased bool) error {
	switch before, known := w.seen[n]; {
	case n.Kind == 0:
		return errors.New("is nested too deeply to be checked for references")
	case known && (before || !rebased):
		return nil
	}
	w.seen[n] = rebased
	if n.Array() {
		return w.each(n.Kids, rebased)
	}
	if n != w.root { // an $id that starts with # names a place in its own document
		id := n.TextOf("$id")
		rebased = rebased || id != "" && !strings.HasPrefix(id, "#") || strings.Contains(n.TextOf("id"), ":")
	}
	for i, key := range n.Keys {
		if err := w.keyword(key, n.Kids[i], rebased); err != nil {
			return err
		}
	}
	return nil
}

func (w *references) each(parts []*rawjson.Node, rebased bool) error {
	for _, part := range parts {
		if err := w.schema(part, rebased); err != nil {
			return err
		}
	}
	return nil
}

func (w *references) keyword(key string, value *rawjson.Node, rebased bool) error {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if value.Kind == '"' {
			return w.reference(key, value.Text, rebased)
		}
	case "$schema":
		if s := value.Text; value.Kind == '"' && s != "" && !published(s) {
			return fmt.Errorf("is written in the dialect %s, which is none of the published ones", text.Quote(s, maxQuoted))
		}
		return nil
	case "const", "enum", "default", "example", "examples": // data
		return nil
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		if value.Object() { // its members are schemas with arbitrary names
			return w.each(value.Kids, rebased)
		}
	}
	return w.schema(value, rebased)
}

// maxQuoted is how many characters of a reference a message repeats.
const maxQuoted = 80

func (w *references) reference(key, ref string, rebased bool) error {
	switch {
	case !strings.HasPrefix(ref, "#"):
		return fmt.Errorf("has a %s to %s; a schema may refer to parts of itself only (#…), because text at another address could change after the approval", key, text.Quote(ref, maxQuoted))
	case rebased:
		return fmt.Errorf("has a %s %s below a nested $id, so this reference points to another document", key, text.Quote(ref, maxQuoted))
	}
	if target := w.root.Pointer(ref); target != nil {
		return w.schema(target, rebased)
	}
	return nil
}

// published reports whether a $schema names a dialect that every validator includes.
func published(dialect string) bool {
	_, rest, ok := strings.Cut(dialect, "://")
	return ok && (strings.HasPrefix(rest, "json-schema.org/") || strings.HasPrefix(rest, "spec.openapis.org/"))
}
