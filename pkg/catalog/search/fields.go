package search

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// The six fields of a tool, in the order in which a ranking adds their parts.
const (
	fieldName = iota
	fieldServer
	fieldDescription
	fieldProperties   // names of the top-level properties of the input schema
	fieldPropertyText // their descriptions and enum values
	fieldWords        // the operator's extra words
	fields
)

// A weighting says how much the words of a field count.
type weighting struct {
	weight float64
	b      float64 // 0…1, how much a long field dilutes its words
	mean   float64 // the usual length of the field, in words
}

// weightings returns the weighting of each field. The mean lengths are constants and do not depend
// on the catalog, so a tool that an agent may not see cannot change a score.
func weightings() [fields]weighting {
	return [fields]weighting{
		fieldName:         {weight: 3, b: .3, mean: 2.5},
		fieldServer:       {weight: 1.5, b: .3, mean: 1},
		fieldDescription:  {weight: 1, b: .6, mean: 15},
		fieldProperties:   {weight: .5, b: .6, mean: 4},
		fieldPropertyText: {weight: .3, b: .6, mean: 16},
		fieldWords:        {weight: 1.5, b: .3, mean: 5},
	}
}

// saturation is k1 of BM25: the weighted count at which a word has half of its maximum effect.
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
		fieldWords:        strings.Join(d.Words, "\n"),
	}
}

// schemaText returns the names of a schema's top-level properties, and their descriptions and enum
// values. They are sorted by name, because key order means nothing. A schema without properties has
// no text.
func schemaText(schema json.RawMessage) (names, text string) {
	properties, _ := rawjson.Split(rawjson.Get(schema, "properties"), rawjson.Lenient)
	slices.SortFunc(properties, func(a, b rawjson.Member) int { return strings.Compare(a.Name, b.Name) })
	var n, t strings.Builder
	for _, p := range properties {
		n.WriteString(p.Name + "\n")
		property, _ := rawjson.Split(p.Value, rawjson.Lenient) // true and false are schemas too
		writeScalar(&t, property.Get("description"))
		values, _ := rawjson.Elements(property.Get("enum"))
		for _, v := range values {
			writeScalar(&t, v)
		}
	}
	return n.String(), t.String()
}

// writeScalar writes a JSON string, number or boolean as a line of text.
func writeScalar(w *strings.Builder, raw json.RawMessage) {
	switch {
	case len(raw) == 0 || strings.IndexByte("{[n", raw[0]) >= 0:
		return
	case raw[0] == '"':
		w.WriteString(rawjson.Text(raw))
	default:
		w.Write(raw)
	}
	w.WriteByte('\n')
}
