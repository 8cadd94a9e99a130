package config

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Locator knows where each value of a file stands.
type Locator struct {
	places map[string]Fault // by path; line and column alone
}

// Syntax returns what keeps a file from being JSON, and where; nil: nothing does.
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

// NewLocator reads a file. Of one that is no JSON it knows nothing.
func NewLocator(data []byte) *Locator {
	l := &Locator{places: map[string]Fault{}}
	if tree, broken := readTree(data); broken == nil {
		l.note("", tree, &ruler{data: data}, 0)
	}
	return l
}

// maxDepth is deeper than anything lies that a config can hold, so that the paths of a file
// do not outgrow it.
const maxDepth = 8

// note notes where each value below n stands, in the order of the file.
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

// Locate fills in line and column of faults that were found after parsing and know their
// JSON path alone.
func (l *Locator) Locate(faults Faults) Faults {
	out := slices.Clone(faults)
	for i, f := range out {
		if at, ok := l.places[f.Path]; ok && f.Line == 0 {
			out[i].Line, out[i].Col = at.Line, at.Col
		}
	}
	return out
}
