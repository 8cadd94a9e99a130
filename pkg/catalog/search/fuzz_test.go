package search

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestOpenRefuses(t *testing.T) {
	good := built(docs("read_file", "write_file"))
	with := func(at int, n uint32) []byte {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], n)
		return b
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "no head"},
		{"another file", []byte(strings.Repeat("x", 200)), "no head"},
		{"a truncated head", good[:headerSize-1], "no head"},
		{"another version", with(8, 2), "version 2"},
		{"more documents than bytes", with(12, 3), "bytes"},
		{"more terms than bytes", with(16, math.MaxUint32), "bytes"},
		{"longer terms than bytes", with(20, math.MaxUint32), "bytes"},
		{"more postings than bytes", with(24, math.MaxUint32), "bytes"},
		{"vectors beyond reason", with(28, math.MaxUint32), "numbers"},
		{"a truncated file", good[:len(good)-1], "bytes"},
		{"a longer file", append(slices.Clone(good), 0), "bytes"},
		{"terms out of order", with(headerSize, 1000), "order"},
		{"a term ends after the texts", with(headerSize+8, math.MaxUint32), "order"},
	} {
		_, err := Open(c.data)
		if !errors.Is(err, errFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Open = %v, want ErrFormat with %q", c.name, err, c.want)
		}
	}
}

// If Open accepts the bytes, FuzzOpen ranks the index alone, and joined with itself and with a
// valid index. Damaged bytes
// cause an error or an answer, but no panic.
func FuzzOpen(f *testing.F) {
	good := built(docs("read_file", "write_file", "検索"))
	f.Add(good, "read files")
	f.Add(good[:len(good)-5], "raed")
	f.Add(builtWith(docs("read"), &embedding.Table{}, ""), "read")
	f.Add([]byte(magic), "")
	f.Add(built(nil), "read")
	f.Fuzz(func(t *testing.T, data []byte, query string) {
		ix, err := Open(data)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Errorf("Open = %v, want ErrFormat", err)
			}
			return
		}
		n := min(ix.Len(), 1000)
		whole, err := Open(good)
		require.OK(t, err)
		for _, ix := range []*Index{ix, Join(whole, ix, whole, ix)} {
			r := ix.Rank(ix.Query(query), fullSet(n), n, Options{Matched: true})
			if len(r.Hits) != r.Total || r.Total > n || r.Matched.Len() != r.Total {
				t.Errorf("%d hits of %d among %d documents, %d matched", len(r.Hits), r.Total, n, r.Matched.Len())
			}
			for _, h := range r.Hits {
				if h.Doc < 0 || h.Doc >= n || !(h.Score >= 0 && h.Score <= 1) {
					t.Errorf("hit %+v among %d documents", h, n)
				}
			}
		}
	})
}

// FuzzBuild builds an index of any definition and ranks any query.
func FuzzBuild(f *testing.F) {
	f.Add("read_file", "fs", "Read a file.", `{"properties":{"path":{"description":"where"}}}`, "raed the file")
	f.Add("", "", "", "", "")
	f.Add("検索", "\xff", strings.Repeat("a", 300), `{"properties":{"a":{"enum":[1,"x",null]}}}`, "検")
	for _, query := range hostile() {
		f.Add("delete_file", "x", "Read a file.", "", query)
	}
	f.Fuzz(func(t *testing.T, name, server, description, schema, query string) {
		d := Doc{Name: name, Server: server, Description: description, Schema: []byte(schema)}
		ix, err := Open(built([]Doc{d, {Name: "other"}}))
		if err != nil {
			t.Fatalf("Open of the built index = %v", err)
		}
		view := viewOf(2, 0)
		a := ix.Rank(ix.Query(query), view, 5, Options{})
		b := ix.Rank(ix.Query(query), view, 5, Options{})
		if !slices.Equal(a.Hits, b.Hits) || a.Total != b.Total {
			t.Errorf("the same query gives %+v and %+v", a, b)
		}
		for _, h := range a.Hits {
			if h.Doc != 0 || !(h.Score >= 0 && h.Score <= 1) {
				t.Errorf("hit %+v in a view of document 0", h)
			}
		}
	})
}

// hostile returns queries without a sensible meaning.
func hostile() []string {
	out := []string{
		"", "x", "\x00\x1b[31m\x7f", "\xe2", "\xe2\x80", "don\xe2\x80", "’", "'''''", "not", "without ",
		"not\x00delete", "\x00deletes", "\x004",
	}
	for _, part := range []string{
		"q", "not ", "not delete ", "without deleting, ", "'", "\xe2\x80\x99", "\x00", "never delete or ", "delete.not,",
	} {
		out = append(out, strings.Repeat(part, 10_000/len(part)))
	}
	return out
}

// FuzzIntent analyzes any query. The negated clauses are parts of the text in their order, and a
// text without negations stays the same.
func FuzzIntent(f *testing.F) {
	for _, query := range hostile() {
		f.Add(query)
	}
	f.Add("list files, never remove or change one; mail them")
	f.Fuzz(func(t *testing.T, query string) {
		in := intentOf(query)
		at := 0
		for _, c := range in.clauses {
			if c.from < at || c.object <= c.from || c.to < c.object || c.to > len(query) || !rulesOut(c.verb) {
				t.Fatalf("%q has the clause %+v after %d", query, c, at)
			}
			at = c.to
		}
		if kept := in.withoutNegated(query); len(in.clauses) == 0 && kept != query || len(kept) > len(query) {
			t.Errorf("%q leaves %q", query, kept)
		}
		if longer := intentOf("list all. " + query); longer.asks != reads {
			t.Errorf("%q asks for %d after a sentence that asks to list", query, longer.asks)
		}
	})
}
