package config

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Locator finds the position of each value of a file.
type Locator struct {
	places map[string]Fault // by path; each Fault has only line and column
}

// Syntax returns the syntax error of a file that is not JSON, and its position; nil: it is JSON.
func Syntax(data []byte) *Fault {
	dec := newDecoder(data)
	err := dec.SkipValue()
	if err == nil {
		err = atEnd(dec)
	}
	if err != nil {
		return syntaxFault(data, int(dec.InputOffset()), err)
	}
	return nil
}

// NewLocator reads a file. If the file is not JSON, the Locator finds no positions.
func NewLocator(data []byte) *Locator {
	l := &Locator{places: map[string]Fault{}}
	if tree, broken := readTree(data); broken == nil {
		l.note("", tree, &ruler{data: data}, 0)
	}
	return l
}

// maxDepth is the depth to which a Locator finds positions, so that paths stay short. No value of a
// config is deeper.
const maxDepth = 8

// note records the position of each value below n, in the order of the file.
func (l *Locator) note(path string, n *rawjson.Node, r *ruler, depth int) {
	if depth == maxDepth {
		return
	}
	add := func(path string, n *rawjson.Node) {
		line, col := r.position(n.Offset)
		l.places[path] = Fault{Line: line, Col: col}
		l.note(path, n, r, depth+1)
	}
	for i, kid := range n.Kids {
		if n.Object() {
			add(JoinPath(path, n.Keys[i]), kid)
		} else {
			add(index(path, i), kid)
		}
	}
}

// Line returns the line of the value at a path; 0: it has no such value.
func (l *Locator) Line(path string) int { return l.places[path].Line }

// Locate adds line and column to faults that were found after parsing and have only a JSON path.
func (l *Locator) Locate(faults Faults) Faults {
	out := slices.Clone(faults)
	for i, f := range out {
		if at, ok := l.places[f.Path]; ok && f.Line == 0 {
			out[i].Line, out[i].Col = at.Line, at.Col
		}
	}
	return out
}
