package clientfile

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// parseTOML reads TOML. The library checks it as a whole first: what may not stand twice, and what may not
// be added to. Then its parser says where each key stands.
func parseTOML(path string, data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		f := &Fault{Place{path, 0}, "not TOML: " + text.Clip(text.Line(strings.TrimPrefix(err.Error(), "toml: ")), 200)}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			f.Line, _ = at.Position()
		}
		return nil, f
	}
	root := &node{kind: '{', line: 1}
	err := eachTOML(data, func(e expression) error {
		switch e.node.Kind {
		case unstable.Table:
			e.table = root.descend(e.keys, e.line)
		case unstable.ArrayTable:
			list := root.descend(e.keys[:len(e.keys)-1], e.line).list(e.keys[len(e.keys)-1], e.line)
			list.elems = append(list.elems, &node{kind: '{', line: e.line})
			e.table = list.elems[len(list.elems)-1]
		case unstable.KeyValue:
			at := e.table
			if at == nil {
				at = root
			}
			return at.put(e.keys, e.node.Value(), e.line, 0)
		}
		*e.current = e.table
		return nil
	})
	if err != nil {
		return nil, &Fault{Place{path, 0}, "not TOML: " + text.Clip(text.Line(err.Error()), 200)}
	}
	return root, nil
}

// An expression is a header of a table or a key with its value.
type expression struct {
	node    *unstable.Node
	keys    []string
	offset  int // of the first key
	line    int
	table   *node // that a key belongs to; nil: the root
	current **node
}

// eachTOML calls f with each expression of a TOML file that is valid.
func eachTOML(data []byte, f func(expression) error) error {
	p := unstable.Parser{}
	p.Reset(data)
	lines := builder{data: data}
	var table *node
	for p.NextExpression() {
		e := expression{node: p.Expression(), table: table, current: &table, offset: -1}
		switch e.node.Kind {
		case unstable.Table, unstable.ArrayTable, unstable.KeyValue:
		default:
			continue
		}
		for it := e.node.Key(); it.Next(); {
			if e.offset < 0 {
				e.offset = int(it.Node().Raw.Offset)
			}
			e.keys = append(e.keys, string(it.Node().Data))
		}
		e.line = lines.lineOf(e.offset)
		if err := f(e); err != nil {
			return err
		}
	}
	return p.Error()
}

// descend returns the table with these keys below n, which is made if need be; of a list of tables its last.
func (n *node) descend(keys []string, line int) *node {
	for _, k := range keys {
		next := n.member(k)
		if next == nil {
			next = &node{kind: '{', line: line}
			n.members = append(n.members, member{k, line, next})
		}
		if next.kind == '[' && len(next.elems) > 0 {
			next = next.elems[len(next.elems)-1]
		}
		n = next
	}
	return n
}

func (n *node) list(key string, line int) *node {
	if l := n.member(key); l != nil {
		return l
	}
	l := &node{kind: '[', line: line}
	n.members = append(n.members, member{key, line, l})
	return l
}

var errDepth = errors.New("it is nested too deeply")

// put puts a value at the keys below n.
func (n *node) put(keys []string, v *unstable.Node, line, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	at := n.descend(keys[:len(keys)-1], line)
	value, err := tomlNode(v, line, depth)
	at.members = append(at.members, member{keys[len(keys)-1], line, value})
	return err
}

func tomlNode(v *unstable.Node, line, depth int) (*node, error) {
	n := &node{line: line, text: string(v.Data)}
	switch v.Kind {
	case unstable.InlineTable:
		n.kind, n.text = '{', ""
		for it := v.Children(); it.Next(); {
			var keys []string
			for k := it.Node().Key(); k.Next(); {
				keys = append(keys, string(k.Node().Data))
			}
			if err := n.put(keys, it.Node().Value(), line, depth+1); err != nil {
				return n, err
			}
		}
	case unstable.Array:
		n.kind, n.text = '[', ""
		if depth > maxDepth {
			return n, errDepth
		}
		for it := v.Children(); it.Next(); {
			e, err := tomlNode(it.Node(), line, depth+1)
			if err != nil {
				return n, err
			}
			n.elems = append(n.elems, e)
		}
	case unstable.String, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		n.kind = '"'
	case unstable.Bool:
		n.kind = n.text[0] // t or f
	default:
		n.kind = '0'
	}
	return n, nil
}
