package search

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// The five fields of a tool, in the order in which their parts are added up.
const (
	fieldName = iota
	fieldServer
	fieldDescription
	fieldProperties   // names of the top-level properties of the input schema
	fieldPropertyText // their descriptions and enum values
	fields
)

// A weighting says how much the words of a field count.
type weighting struct {
	weight float64
	b      float64 // 0…1, how much a long field dilutes its words
	mean   float64 // the usual length of the field, in words
}

// weightings returns the weighting of each field. The mean lengths are constants
// and not those of the catalog, so that a tool which an agent may not see cannot
// move a score.
func weightings() [fields]weighting {
	return [fields]weighting{
		fieldName:         {weight: 3, b: .3, mean: 2.5},
		fieldServer:       {weight: 1.5, b: .3, mean: 1},
		fieldDescription:  {weight: 1, b: .6, mean: 15},
		fieldProperties:   {weight: .5, b: .6, mean: 4},
		fieldPropertyText: {weight: .3, b: .6, mean: 16},
	}
}

// saturation is k1 of BM25: the weighted count at which a word has half of its
// greatest effect.
const saturation = 1.2

// texts returns the text of each field of d.
func (d Doc) texts() [fields]string {
	names, text := schemaText(d.Schema)
	return [fields]string{
		fieldName:         d.Name,
		fieldServer:       d.Server,
		fieldDescription:  d.Description,
		fieldProperties:   names,
		fieldPropertyText: text,
	}
}

// schemaText returns the names of a schema's top-level properties, and their
// descriptions and enum values, sorted by name: key order means nothing. What
// is not a schema has no text.
func schemaText(schema json.RawMessage) (names, text string) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return "", ""
	}
	var n, t strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		n.WriteString(name)
		n.WriteByte('\n')
		var p map[string]json.RawMessage
		if json.Unmarshal(s.Properties[name], &p) != nil {
			continue // true and false are schemas too
		}
		writeScalar(&t, p["description"])
		var values []json.RawMessage
		if json.Unmarshal(p["enum"], &values) == nil {
			for _, v := range values {
				writeScalar(&t, v)
			}
		}
	}
	return n.String(), t.String()
}

// writeScalar writes a JSON string, number or boolean as a line of text.
func writeScalar(w *strings.Builder, raw json.RawMessage) {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n' {
		return
	}
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		w.WriteString(s)
	} else {
		w.Write(raw)
	}
	w.WriteByte('\n')
}
