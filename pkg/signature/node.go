package signature

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a schema is read; what lies deeper is cut off.
const maxDepth = 256

// A node is one JSON value, with the members of an object in the order in
// which they stand. A schema is read into nodes once and then walked many times.
type node struct {
	kind jsontext.Kind // 0: deeper than maxDepth
	text string        // of a string, or of a number as it is written
	keys []string      // of an object
	kids []*node       // values of an object's members, or elements of an array
}

func parse(raw []byte) (*node, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	n, err := read(d)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return n, nil
}

func read(d *jsontext.Decoder) (*node, error) {
	if d.StackDepth() > maxDepth {
		return &node{}, d.SkipValue()
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &node{kind: t.Kind()}
	if n.kind == '"' || n.kind == '0' {
		n.text = t.String()
	}
	if !n.object() && !n.array() {
		return n, nil
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if n.object() {
			key, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, key.String())
		}
		kid, err := read(d)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
	}
	_, err = d.ReadToken() // the closing delimiter
	return n, err
}

func (n *node) object() bool { return n != nil && n.kind == '{' }
func (n *node) array() bool  { return n != nil && n.kind == '[' }

// is reports whether n is the boolean b.
func (n *node) is(b bool) bool {
	return n != nil && (b && n.kind == 't' || !b && n.kind == 'f')
}

// get returns a member of an object, or nil. Of two with one key the last counts, as in
// most JSON readers; a definition that was checked has no such pair.
func (n *node) get(key string) *node {
	if !n.object() {
		return nil
	}
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i] == key {
			return n.kids[i]
		}
	}
	return nil
}

// string returns the text of a string member, or "".
func (n *node) string(key string) string {
	if v := n.get(key); v != nil && v.kind == '"' {
		return v.text
	}
	return ""
}

// list returns the elements of an array member, or nil.
func (n *node) list(key string) []*node {
	if v := n.get(key); v.array() {
		return v.kids
	}
	return nil
}

// has reports whether an object has one of the keys.
func (n *node) has(keys ...string) bool {
	for _, k := range keys {
		if n.get(k) != nil {
			return true
		}
	}
	return false
}

// pointer returns what a reference inside the document, "#" or "#/a/b", points to, or nil.
func (n *node) pointer(ref string) *node {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	rest, err := url.PathUnescape(rest)
	if err != nil || rest != "" && rest[0] != '/' {
		return nil
	}
	for part := range jsontext.Pointer(rest).Tokens() {
		if n = n.step(part); n == nil {
			return nil
		}
	}
	return n
}

// step follows one part of a pointer.
func (n *node) step(part string) *node {
	if !n.array() {
		return n.get(part)
	}
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || i >= len(n.kids) {
		return nil
	}
	return n.kids[i]
}
