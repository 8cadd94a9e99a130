package clientfile

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// parseTOML reads TOML. The library checks it as a whole first: what may not stand twice, and what may not
// be added to. Then its parser says where each key stands.
func parseTOML(path string, data []byte) (*rawjson.Node, error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		f := &fault{Place{path, 0}, "not TOML: " + text.Clip(text.Line(strings.TrimPrefix(err.Error(), "toml: ")), 200)}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			f.Line, _ = at.Position()
		}
		return nil, f
	}
	root := &rawjson.Node{Kind: '{'}
	err := eachTOML(data, func(e expression) error {
		switch e.node.Kind {
		case unstable.Table:
			e.table = descend(root, e.keys, e.offset)
		case unstable.ArrayTable:
			last := len(e.keys) - 1
			list := listOf(descend(root, e.keys[:last], e.offset), e.keys[last], e.offset)
			e.table = &rawjson.Node{Kind: '{', Offset: e.offset}
			list.Kids = append(list.Kids, e.table)
		case unstable.KeyValue:
			at := e.table
			if at == nil {
				at = root
			}
			return put(at, e.keys, e.node.Value(), e.offset, 0)
		}
		*e.current = e.table
		return nil
	})
	if err != nil {
		return nil, &fault{Place{path, 0}, "not TOML: " + text.Clip(text.Line(err.Error()), 200)}
	}
	return root, nil
}

// An expression is a header of a table or a key with its value.
type expression struct {
	node    *unstable.Node
	keys    []string
	offset  int           // of the first key
	table   *rawjson.Node // that a key belongs to; nil: the root
	current **rawjson.Node
}

// eachTOML calls f with each expression of a TOML file that is valid.
func eachTOML(data []byte, f func(expression) error) error {
	p := unstable.Parser{}
	p.Reset(data)
	var table *rawjson.Node
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
		if err := f(e); err != nil {
			return err
		}
	}
	return p.Error()
}

// descend returns the table with these keys below n, which is made if need be; of a list of tables its last.
// What is made is at an offset.
func descend(n *rawjson.Node, keys []string, offset int) *rawjson.Node {
	for _, k := range keys {
		next := n.Get(k)
		if next == nil {
			next = &rawjson.Node{Kind: '{', Offset: offset, NameOffset: offset}
			add(n, k, next)
		}
		if next.Array() && len(next.Kids) > 0 {
			next = next.Kids[len(next.Kids)-1]
		}
		n = next
	}
	return n
}

func listOf(n *rawjson.Node, key string, offset int) *rawjson.Node {
	if l := n.Get(key); l != nil {
		return l
	}
	l := &rawjson.Node{Kind: '[', Offset: offset, NameOffset: offset}
	add(n, key, l)
	return l
}

var errDepth = errors.New("it is nested too deeply")

// put puts a value at the keys below n.
func put(n *rawjson.Node, keys []string, v *unstable.Node, offset, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	value, err := tomlNode(v, offset, depth)
	last := len(keys) - 1
	add(descend(n, keys[:last], offset), keys[last], value)
	return err
}

func tomlNode(v *unstable.Node, offset, depth int) (*rawjson.Node, error) {
	n := &rawjson.Node{Offset: offset, NameOffset: offset, Text: string(v.Data)}
	switch v.Kind {
	case unstable.InlineTable:
		n.Kind, n.Text = '{', ""
		for it := v.Children(); it.Next(); {
			var keys []string
			for k := it.Node().Key(); k.Next(); {
				keys = append(keys, string(k.Node().Data))
			}
			if err := put(n, keys, it.Node().Value(), offset, depth+1); err != nil {
				return n, err
			}
		}
	case unstable.Array:
		n.Kind, n.Text = '[', ""
		if depth > maxDepth {
			return n, errDepth
		}
		for it := v.Children(); it.Next(); {
			e, err := tomlNode(it.Node(), offset, depth+1)
			if err != nil {
				return n, err
			}
			n.Kids = append(n.Kids, e)
		}
	case unstable.String, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		n.Kind = '"'
	case unstable.Bool:
		n.Kind = jsontext.Kind(n.Text[0]) // t or f
	default:
		n.Kind = '0'
	}
	return n, nil
}
