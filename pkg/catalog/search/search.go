// Package search ranks tools for a query by the sum of two signals: BM25F over six fields, for
// equal words, and the cosine of two small vectors, for words with the same meaning.
//
// The package does no I/O. It ranks only the documents of a view, which is a set that the caller
// passes. The package does not check which tools exist, or which tools are callable. Every number
// in a result depends only on the query and the documents of the view: the package counts document
// frequencies in the view, and mean field lengths are constants. So the order and the scores of
// tools in the view reveal nothing about other tools.
//
// A search covers all text, even text that the answer does not show. The package splits queries and
// tools into words in the same way, because a word that is split in two ways finds nothing.
//
// [Build] makes an index once, at a sync. The caller stores its bytes, and [Open] reads them in
// place.
package search

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Doc is the text of one tool.
type Doc struct {
	Name        string
	Server      string
	Description string
	Schema      json.RawMessage // input schema, whose top-level properties are searched; nil: none
	Words       []string        // the operator's words for the tool
}

// Options configure one ranking. The zero Options rank by both signals.
type Options struct {
	Lexical bool // rank only by words: the gateway's "ranking": "lexical"
	Matched bool // set [Result].Matched: all matching documents, even beyond the limit
}

// A Hit is one document of a [Result] and how well it matches. Score, Lexical and Semantic are in
// 0…1, are rounded to 9 decimals, and depend only on the query, the document and the view's
// document frequencies. They are not comparable between views: use [Index.Outranking] to compare
// hits of two views.
type Hit struct {
	Doc      int     // number of the document: its position in the docs of [Build]
	Score    float64 // weighted sum of the next two; lower if the tool's verb does not fit
	Lexical  float64 // BM25F score, divided by the highest score that the query's words can reach
	Semantic float64 // square of the cosine of the two vectors; 0 if the cosine is negative
}

// A Result is what [Index.Rank] found in one view.
type Result struct {
	Hits  []Hit // best first; equal scores by document number
	Total int   // number of matching documents of the view, even beyond the limit

	Matched tool.Set // all matching documents; nil unless [Options] ask for them
}
