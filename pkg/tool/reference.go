package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// CheckReferences refuses a schema of which a part lies elsewhere. What was approved
// would then not be all that an agent goes by, and could change without a new approval.
//
// A $ref, $dynamicRef or $recursiveRef may name a fragment of the schema itself ("#…") and
// nothing else; it may not stand below an $id that gives it another base; and $schema
// may name a published dialect only. A member that is merely called "$ref", such as a property, and
// data such as the value of an enum are no references, unless a reference points at them.
func CheckReferences(schema json.RawMessage) error {
	if !mayRefer(schema) {
		return nil
	}
	root, err := parseNode(schema)
	if err != nil {
		return err
	}
	w := &references{root: root, seen: map[*node]bool{}}
	return w.schema(root, false)
}

// mayRefer reports whether a schema is worth a walk. Every keyword that matters begins with a
// dollar sign, which may be escaped; most schemas have none but that of a published dialect.
func mayRefer(schema []byte) bool {
	const key = `"$`
	if bytes.Contains(schema, []byte(`\u0024`)) {
		return true
	}
	for rest := schema; ; {
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			return false
		}
		rest = rest[i+len(key):]
		value, ok := bytes.CutPrefix(rest, []byte(`schema"`))
		if !ok {
			return true
		}
		value = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte(":")), " \t\r\n")
		if end := bytes.IndexByte(value[min(1, len(value)):], '"'); end < 0 || value[0] != '"' || !published(string(value[1:1+end])) {
			return true
		}
	}
}

// References is a walk over the parts of a schema. It enters each part twice at most.
type references struct {
	root *node
	seen map[*node]bool // parts, by whether they have another base
}

var errTooDeep = errors.New("is nested too deeply to be checked for references")

// schema checks n as a schema. rebased says that an $id above it, not at the root, gives
// references in it another base.
func (w *references) schema(n *node, rebased bool) error {
	switch before, known := w.seen[n]; {
	case n.cut:
		return errTooDeep
	case known && (before || !rebased):
		return nil
	}
	w.seen[n] = rebased
	if n.array {
		return w.each(n.kids, rebased)
	}
	rebased = rebased || n != w.root && (another(n.get("$id").text()) || strings.Contains(n.get("id").text(), ":"))
	for i, key := range n.keys {
		if err := w.keyword(key, n.kids[i], rebased); err != nil {
			return err
		}
	}
	return nil
}

func (w *references) each(parts []*node, rebased bool) error {
	for _, part := range parts {
		if err := w.schema(part, rebased); err != nil {
			return err
		}
	}
	return nil
}

func (w *references) keyword(key string, value *node, rebased bool) error {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		ref, ok := value.scalar.(string)
		switch {
		case !ok:
			return w.schema(value, rebased)
		case !strings.HasPrefix(ref, "#"):
			return fmt.Errorf("has a %s to %q; a schema may refer to parts of itself only (#…), since what lies elsewhere could change after it was approved", key, short(ref))
		case rebased:
			return fmt.Errorf("has a %s %q below an $id of its own, which makes it point elsewhere", key, short(ref))
		}
		if target := w.root.pointer(ref); target != nil {
			return w.schema(target, rebased)
		}
	case "$schema":
		if s := value.text(); s != "" && !published(s) {
			return fmt.Errorf("is written in the dialect %q, which is none of the published ones", short(s))
		}
	case "const", "enum", "default", "example", "examples": // data
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		if value.object { // by names of anybody's choice
			return w.each(value.kids, rebased)
		}
		return w.schema(value, rebased)
	default:
		return w.schema(value, rebased)
	}
	return nil
}

// another reports whether an $id is more than the name of a place in its own document.
func another(id string) bool { return id != "" && !strings.HasPrefix(id, "#") }

// published reports whether a $schema names a dialect that every validator carries with it.
func published(dialect string) bool {
	_, rest, ok := strings.Cut(dialect, "://")
	return ok && (strings.HasPrefix(rest, "json-schema.org/") || strings.HasPrefix(rest, "spec.openapis.org/"))
}

// short cuts what a server wrote to a length that a message can bear.
func short(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "…"
}
