package search

import "errors"

// ErrFormat says that bytes are not an index that this program can read.
var ErrFormat = errors.New("not a search index of this version")

// An Index is an opened index. It is immutable and safe for concurrent use.
type Index struct{}

// Open reads an index in place: b must not change afterwards.
func Open(b []byte) (*Index, error) { return &Index{}, nil }

// Len returns the number of documents.
func (ix *Index) Len() int { return 0 }

// Build makes the bytes of an index over docs. Same docs, same bytes.
func Build(docs []Doc) []byte { return nil }

// A Query is the analysed text of a query. It can be ranked against several views.
type Query struct{}

// Query analyses the text of a query.
func (ix *Index) Query(text string) Query { return Query{} }

// Rank returns the best matches of q among the documents of view, at most limit.
func (ix *Index) Rank(q Query, view Set, limit int, o Options) Result { return Result{} }
