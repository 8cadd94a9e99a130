// Package search ranks tools for a query by two signals that are added: BM25F
// over six fields, for words that agree, and the cosine of two small vectors,
// for words that mean the same.
//
// It is pure, and it ranks views. Which tools exist, which are callable and what
// may be shown of them is not known here: the caller hands in the set of documents
// to rank, and every number in the answer comes from the query and the documents
// of that set. A tool outside the set can therefore not be noticed in the order or
// the scores of the tools inside it: document frequencies are counted in the set,
// and mean field lengths are constants.
//
// A search covers all text, even text that the answer does not show. Queries and tools go through
// the same cut into words: a word that is cut in two ways finds nothing.
//
// An index is made once, at sync, by [Build]; its bytes are stored, and [Open]
// reads them in place.
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
	Schema      json.RawMessage // input schema: its top-level properties are searched; nil if there is none
	Words       []string        // the operator's words for the tool
}

// Options configure one ranking. The zero Options rank by both signals.
type Options struct {
	Lexical bool // rank by words alone: the gateway's "ranking": "lexical"
	Matched bool // also return the documents that match, beyond the limit
}

// A Hit is one document of a [Result] and how well it matches. All three
// numbers are in 0…1, are rounded to 9 decimals, and depend on the query, the
// document and the view's document frequencies alone. Hits of two views are not
// compared by them: [Index.Outranking] does that.
type Hit struct {
	Doc      int     // number of the document: its place in the docs that Build was given
	Score    float64 // the weighted sum of the two below, or Lexical if vectors take no part; less for another verb
	Lexical  float64 // share of the query's weight that the document's words reach
	Semantic float64 // square of the cosine of query and document, 0 for a negative one
}

// A Result is what [Index.Rank] found in one view.
type Result struct {
	Hits  []Hit // best first; equal scores by document number
	Total int   // how many documents of the view match, beyond the limit

	Matched tool.Set // which they are; nil unless [Options] ask for it
}
