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

// parseTOML reads TOML. The library first checks the whole file: depth, duplicates, and additions
// to closed tables. Then its parser finds the place of each key.
func parseTOML(path string, data []byte) (*rawjson.Node, error) {
	data = bytes.TrimPrefix(data, []byte(bom))
	var all map[string]any
	err := toml.Unmarshal(data, &all)
	root := &rawjson.Node{Kind: '{'}
	if err == nil {
		table := root
		err = eachTOML(data, func(e expression) {
			last := len(e.keys) - 1
			switch e.node.Kind {
			case unstable.KeyValue:
				put(table, e)
			case unstable.Table:
				table = descend(root, e.keys, e.offset)
			default:
				list := member(descend(root, e.keys[:last], e.offset), e.keys[last], '[', e.offset)
				table = &rawjson.Node{Kind: '{', Offset: e.offset}
				list.Kids = append(list.Kids, table)
			}
		})
	}
	if err != nil {
		what := text.Clip(text.Line(strings.TrimPrefix(err.Error(), "toml: ")), 200)
		f := &fault{Place{path, 0}, "not TOML: " + what}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			f.Line, _ = at.Position()
		}
		return nil, f
	}
	return root, nil
}

// An expression is a header of a table, or a key with its value.
type expression struct {
	node   *unstable.Node
	keys   []string
	offset int // of the first key
}

// newExpression returns the expression of a node.
func newExpression(n *unstable.Node) expression {
	e := expression{node: n, offset: -1}
	for it := n.Key(); it.Next(); {
		if e.offset < 0 {
			e.offset = int(it.Node().Raw.Offset)
		}
		e.keys = append(e.keys, string(it.Node().Data))
	}
	return e
}

// eachTOML calls f with each expression of a valid TOML file.
func eachTOML(data []byte, f func(expression)) error {
	p := unstable.Parser{}
	p.Reset(data)
	for p.NextExpression() {
		f(newExpression(p.Expression()))
	}
	return p.Error()
}

// descend returns the table with these keys below n, or the last table of a list. If there is none,
// it adds one at the offset.
func descend(n *rawjson.Node, keys []string, offset int) *rawjson.Node {
	for _, k := range keys {
		n = member(n, k, '{', offset)
		if n.Array() && len(n.Kids) > 0 {
			n = n.Kids[len(n.Kids)-1]
		}
	}
	return n
}

// member returns a member of n. If there is none, it adds one at the offset.
func member(n *rawjson.Node, key string, kind jsontext.Kind, offset int) *rawjson.Node {
	if next := n.Get(key); next != nil {
		return next
	}
	next := &rawjson.Node{Kind: kind, Offset: offset, NameOffset: offset}
	set(n, []string{key}, next)
	return next
}

// put puts a value at its keys below n.
func put(n *rawjson.Node, e expression) {
	last := len(e.keys) - 1
	set(descend(n, e.keys[:last], e.offset), e.keys[last:], tomlNode(e.node.Value(), e.offset))
}

func tomlNode(v *unstable.Node, offset int) *rawjson.Node {
	n := &rawjson.Node{Kind: '0', Offset: offset, NameOffset: offset, Text: string(v.Data)}
	switch v.Kind {
	case unstable.InlineTable:
		n.Kind, n.Text = '{', ""
		for it := v.Children(); it.Next(); {
			e := newExpression(it.Node())
			e.offset = offset
			put(n, e)
		}
	case unstable.Array:
		n.Kind, n.Text = '[', ""
		for it := v.Children(); it.Next(); {
			n.Kids = append(n.Kids, tomlNode(it.Node(), offset))
		}
	case unstable.String, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime,
		unstable.DateTime:
		n.Kind = '"'
	case unstable.Bool:
		n.Kind = jsontext.Kind(n.Text[0]) // t or f
	}
	return n
}
