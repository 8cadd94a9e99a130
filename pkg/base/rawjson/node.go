package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the depth down to which Parse makes nodes. A deeper value is one node without a kind.
const maxDepth = 256

// A Node is one JSON value, with the members of an object in their order. A document is parsed once
// and then walked many times.
type Node struct {
	Kind jsontext.Kind   // 0: deeper than 256 levels, or too much for [ParseBounded]
	Raw  json.RawMessage // its bytes in the document
	Text string          // of a string, or of a number as written
	Keys []string        // names of an object's members
	Kids []*Node         // values of an object's members, or elements of an array

	Offset     int // of its first byte in the document
	NameOffset int // of the name, if it is the value of a member
}

// Parse reads a document into nodes. It is [Lenient].
func Parse(data []byte) (*Node, error) { return ParseBounded(data, math.MaxInt) }

// ParseBounded works like [Parse], with a limit on the number of nodes. A node uses about 140
// bytes. An object or array that exceeds the limit becomes one node without a kind.
func ParseBounded(data []byte, most int) (*Node, error) {
	return parse(data, most, jsontext.AllowInvalidUTF8(true))
}

// ParseUTF8 works like [Parse], but refuses invalid UTF-8.
func ParseUTF8(data []byte) (*Node, error) { return parse(data, math.MaxInt) }

func parse(data []byte, most int, o ...jsontext.Options) (*Node, error) {
	o = append(o, jsontext.AllowDuplicateNames(true))
	p := parser{jsontext.NewDecoder(bytes.NewBuffer(data), o...), data, most}
	return p.node()
}

// A parser reads nodes.
type parser struct {
	*jsontext.Decoder
	data []byte
	left int // nodes that the parser may still make
}

func (p *parser) node() (*Node, error) {
	p.left--
	n := &Node{Kind: p.PeekKind()}
	deep := p.StackDepth() > maxDepth
	if deep || n.Kind != '{' && n.Kind != '[' {
		value, err := p.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(p.InputOffset())
		n.Offset = end - len(value)
		n.Raw = p.data[n.Offset:end:end]
		switch {
		case deep:
			n.Kind = 0
		case n.Kind == '"':
			n.Text = unquoted(n.Raw)
		case n.Kind == '0':
			n.Text = string(n.Raw)
		}
		return n, nil
	}
	if _, err := p.ReadToken(); err != nil {
		return nil, err
	}
	n.Offset = int(p.InputOffset()) - 1
	if err := p.members(n); err != nil {
		return nil, err
	}
	_, err := p.ReadToken() // the closing delimiter
	end := int(p.InputOffset())
	n.Raw = p.data[n.Offset:end:end]
	return n, err
}

// unquoted returns the text of a JSON string that a decoder has read; see [Text].
func unquoted(s []byte) string {
	if bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		return string(s[1 : len(s)-1])
	}
	return Text(s)
}

// members reads the members of an object or the elements of an array. If they exceed the limit, n
// loses its kind and the remaining limit is halved. So a document with many large parts ends soon.
func (p *parser) members(n *Node) error {
	before, object := p.left, n.Kind == '{'
	for p.PeekKind() != '}' && p.PeekKind() != ']' {
		if p.left <= 0 {
			n.Kind, n.Keys, n.Kids, p.left = 0, nil, nil, before/2
		}
		if n.Kind == 0 {
			if err := p.SkipValue(); err != nil {
				return err
			}
			continue
		}
		at := 0
		if object {
			name, err := p.ReadValue()
			if err != nil {
				return err
			}
			at = int(p.InputOffset()) - len(name)
			n.Keys = append(n.Keys, unquoted(name))
		}
		kid, err := p.node()
		if err != nil {
			return err
		}
		kid.NameOffset = at
		n.Kids = append(n.Kids, kid)
	}
	return nil
}

// Object reports whether n is an object. All methods accept a nil Node, which is no value.
func (n *Node) Object() bool { return n != nil && n.Kind == '{' }

// Array reports whether n is an array.
func (n *Node) Array() bool { return n != nil && n.Kind == '[' }

// Is reports whether n is the boolean b.
func (n *Node) Is(b bool) bool {
	return n != nil && (b && n.Kind == 't' || !b && n.Kind == 'f')
}

// Get returns a member of an object, or nil. If a key occurs twice, the last member counts, as in
// most JSON readers. A definition that passed the checks has no key
// twice.
func (n *Node) Get(key string) *Node {
	if !n.Object() {
		return nil
	}
	for i := len(n.Keys) - 1; i >= 0; i-- {
		if n.Keys[i] == key {
			return n.Kids[i]
		}
	}
	return nil
}

// All returns the members of an object in their order.
func (n *Node) All() iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) {
		if !n.Object() {
			return
		}
		for i, key := range n.Keys {
			if !yield(key, n.Kids[i]) {
				return
			}
		}
	}
}

// TextOf returns the text of a string member, or "".
func (n *Node) TextOf(key string) string {
	if v := n.Get(key); v != nil && v.Kind == '"' {
		return v.Text
	}
	return ""
}

// List returns the elements of an array member, or nil.
func (n *Node) List(key string) []*Node {
	if v := n.Get(key); v.Array() {
		return v.Kids
	}
	return nil
}

// Has reports whether an object has one of the keys.
func (n *Node) Has(keys ...string) bool {
	for _, k := range keys {
		if n.Get(k) != nil {
			return true
		}
	}
	return false
}

// Pointer returns the target of a reference inside the document, "#" or "#/a/b", or nil.
func (n *Node) Pointer(ref string) *Node {
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
func (n *Node) step(part string) *Node {
	if !n.Array() {
		return n.Get(part)
	}
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || i >= len(n.Kids) {
		return nil
	}
	return n.Kids[i]
}

// Members returns the members of an object by name. If a name occurs twice, the last member counts.
func (n *Node) Members() map[string]*Node {
	if !n.Object() {
		return nil
	}
	m := make(map[string]*Node, len(n.Keys))
	for i, key := range n.Keys {
		m[key] = n.Kids[i]
	}
	return m
}
