package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// maxNodeDepth is how deep a schema is read; what lies deeper is cut off.
const maxNodeDepth = 256

// A node is one JSON value, with the members of an object in the order in
// which they stand. A schema is read into nodes once and then walked many times.
type node struct {
	scalar any      // string, json.Number, bool or nil, for a value that is neither object nor array
	object bool     // keys and kids are the members
	array  bool     // kids are the elements
	cut    bool     // deeper than maxNodeDepth
	keys   []string // of an object
	kids   []*node
}

func parseNode(raw []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	n, err := readNode(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return n, nil
}

func readNode(dec *json.Decoder, depth int) (*node, error) {
	if depth > maxNodeDepth {
		var skipped json.RawMessage
		return &node{cut: true}, dec.Decode(&skipped)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return &node{scalar: t}, nil
	}
	n := &node{object: delim == '{', array: delim == '['}
	for dec.More() {
		if n.object {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, fmt.Sprint(key))
		}
		kid, err := readNode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
	}
	_, err = dec.Token() // the closing delimiter
	return n, err
}

// get returns a member of an object, or nil. Of two with one key the last counts, as in
// most JSON readers; a definition that was checked has no such pair.
func (n *node) get(key string) *node {
	if n == nil || !n.object {
		return nil
	}
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i] == key {
			return n.kids[i]
		}
	}
	return nil
}

// text returns a string value, or "".
func (n *node) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.scalar.(string)
	return s
}

// is reports whether n is the boolean b.
func (n *node) is(b bool) bool {
	if n == nil || n.object || n.array {
		return false
	}
	v, ok := n.scalar.(bool)
	return ok && v == b
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
	at := n
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest[1:], "/")
		if rest != "" {
			rest = "/" + rest
		}
		if at = at.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(part)); at == nil {
			return nil
		}
	}
	return at
}

// step follows one part of a pointer.
func (n *node) step(part string) *node {
	if !n.array {
		return n.get(part)
	}
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || i >= len(n.kids) {
		return nil
	}
	return n.kids[i]
}
