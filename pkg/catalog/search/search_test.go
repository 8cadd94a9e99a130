package search

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func docs(names ...string) []Doc {
	out := make([]Doc, len(names))
	for i, n := range names {
		out[i] = Doc{Name: n}
	}
	return out
}

func viewOf(n int, members ...int) tool.Set {
	s := tool.NewSet(n)
	for _, i := range members {
		s.Add(i)
	}
	return s
}

func found(r Result) []int {
	out := []int{}
	for _, h := range r.Hits {
		out = append(out, h.Doc)
	}
	return out
}

// TestScoreByHand computes every number of a small ranking by the formula.
func TestScoreByHand(t *testing.T) {
	ix := indexOf(t, []Doc{
		{Name: "read_page", Server: "wiki", Description: "Read a page of the wiki."},
		{Name: "list_pages", Server: "wiki", Schema: json.RawMessage(`{"properties":{"page":{"description":"page number","enum":["page"]}}}`)},
		{Name: "ping", Server: "net"},
	})
	x := func(f int, count, length float64) float64 {
		w := weightings()[f]
		return w.weight * count / (1 - w.b + w.b*length/w.mean)
	}
	saturated := func(x float64) float64 { return x * 2.2 / (x + 1.2) }
	idf := func(df float64) float64 { return math.Log(1 + (3-df+.5)/(df+.5)) }
	page0 := saturated(x(fieldName, 1, 2) + x(fieldDescription, 1, 3))
	page1 := saturated(x(fieldName, 1, 2) + x(fieldProperties, 1, 1) + x(fieldPropertyText, 2, 3))
	read0 := saturated(x(fieldName, 1, 2) + x(fieldDescription, 1, 3))
	twice := 1 + math.Log(2)
	mass := 2.2 * (twice*idf(2) + idf(1))
	want := []float64{(twice*idf(2)*page0 + idf(1)*read0) / mass, twice * idf(2) * page1 / mass}

	got := ix.Rank(ix.Query("read pages, page; unheard"), fullSet(3), 10, Options{Lexical: true})
	if len(got.Hits) != 2 || got.Total != 2 {
		t.Fatalf("Rank = %+v, want documents 0 and 1", got)
	}
	for i, h := range got.Hits {
		if h.Doc != i || math.Abs(h.Lexical-want[i]) > 1e-6 || h.Score != h.Lexical || h.Semantic != 0 {
			t.Errorf("hit %d = %+v, want document %d with %.6f", i, h, i, want[i])
		}
	}
	both := ix.Rank(ix.Query("read pages, page; unheard"), fullSet(3), 10, Options{}).Hits[0]
	if sum := .6*both.Lexical + .4*both.Semantic; math.Abs(both.Score-sum) > 2e-9 || both.Lexical != got.Hits[0].Lexical {
		t.Errorf("fused score %v, want %v of %+v", both.Score, sum, both)
	}
}

func TestRank(t *testing.T) {
	catalog := []Doc{
		0: {Name: "delete_file", Server: "fs", Description: "Delete a file from the disk."},
		1: {Name: "takeScreenshot", Server: "browser", Description: "Capture the page."},
		2: {Name: "send_email", Server: "mail", Description: "Send an email message."},
		3: {Name: "検索する", Server: "jp", Description: "ファイルを検索する"},
		4: {Name: "ec2_status", Server: "aws", Description: "Status of the machines."},
		5: {Name: "pick", Schema: json.RawMessage(`{"properties":{"colour":{"enum":["magenta",7]}}}`)},
	}
	ix := indexOf(t, catalog)
	for _, c := range []struct {
		name, query string
		o           Options
		want        []int
	}{
		{"a word of the name", "delete", Options{}, []int{0}},
		{"a word in another form", "deleting files", Options{}, []int{0}},
		{"the server", "mail", Options{}, []int{2}},
		{"a part of a camel-case name", "screenshot", Options{}, []int{1}},
		{"a word with a digit", "EC2", Options{}, []int{4}},
		{"an enum value", "magenta", Options{}, []int{5}},
		{"a number as an enum value", "7", Options{}, []int{5}},
		{"by meaning", "remove a document", Options{}, []int{0}},
		{"not by meaning if lexical", "remove a document", Options{Lexical: true}, []int{}},
		{"one letter missing", "screnshot", Options{Lexical: true}, []int{1}},
		{"one letter too many", "emmail", Options{Lexical: true}, []int{2}},
		{"one wrong letter", "dilete", Options{Lexical: true}, []int{0}},
		{"two letters swapped", "deltee", Options{Lexical: true}, []int{0}},
		{"two edits are not corrected", "dalate", Options{Lexical: true}, []int{}},
		{"a short word is not corrected", "fil", Options{Lexical: true}, []int{}},
		{"a code is not corrected", "ec3s", Options{Lexical: true}, []int{}},
		{"CJK by pairs", "検索", Options{}, []int{3}},
		{"stop words only", "what is the", Options{}, []int{}},
		{"nothing", "", Options{}, []int{}},
		{"control characters", "\x00\x1b[31m", Options{}, []int{}},
		{"invalid UTF-8", "\xff\xfe", Options{}, []int{}},
		{"a control character separates words", "send\x00file", Options{Lexical: true}, []int{2, 0}},
		{"a class of verbs is no word", "\x004", Options{Lexical: true}, []int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ix.Rank(ix.Query(c.query), fullSet(len(catalog)), 10, c.o)
			if diff := cmp.Diff(c.want, found(r)); diff != "" || r.Total != len(c.want) {
				t.Errorf("Rank(%q) finds %v of %d (-want +got):\n%s", c.query, found(r), r.Total, diff)
			}
		})
	}
}

func TestRankMisspelt(t *testing.T) {
	ix := indexOf(t, docs("invoice", "invoices_of_voice", "voicemail"))
	if got := found(ix.Rank(ix.Query("invoice"), viewOf(3, 2), 10, Options{Lexical: true})); len(got) != 0 {
		t.Errorf("finds %v, want nothing: no stem of the view is one edit away", got)
	}
	ix = indexOf(t, docs("tables", "cables"))
	if got := found(ix.Rank(ix.Query("tables"), viewOf(2, 1), 10, Options{Lexical: true})); !slices.Equal(got, []int{1}) {
		t.Errorf("finds %v, want [1]: a word that only the index has is corrected, because the view lacks it", got)
	}
}

func TestRankTies(t *testing.T) {
	ix := indexOf(t, docs("read", "write", "read", "read"))
	r := ix.Rank(ix.Query("read"), fullSet(4), 2, Options{})
	if got := found(r); !slices.Equal(got, []int{0, 2}) || r.Total != 3 {
		t.Errorf("finds %v of %d, want [0 2] of 3", got, r.Total)
	}
}

func TestRankLimit(t *testing.T) {
	names := make([]string, 200)
	for i := range names {
		names[i] = "read" + strings.Repeat("_filler", i%7)
	}
	ix := indexOf(t, docs(names...))
	q := ix.Query("read")
	all := ix.Rank(q, fullSet(200), 1000, Options{})
	if all.Matched != nil || len(all.Hits) != 200 || !slices.IsSortedFunc(all.Hits, compareHits) {
		t.Fatalf("%d hits, sorted %v; want all 200, sorted",
			len(all.Hits), slices.IsSortedFunc(all.Hits, compareHits))
	}
	for _, limit := range []int{math.MinInt, -1, 0, 1, 7, 50, 199, math.MaxInt} {
		r := ix.Rank(q, fullSet(200), limit, Options{Matched: true})
		want := all.Hits[:min(max(limit, 0), 200)]
		if r.Total != 200 || r.Matched.Len() != 200 || len(r.Hits) != len(want) || (len(want) > 0 && cmp.Diff(want, r.Hits) != "") {
			t.Errorf("limit %d: %d hits of %d, want the first %d of 200", limit, len(r.Hits), r.Total, len(want))
		}
	}
}

func TestRankViewSize(t *testing.T) {
	ix := indexOf(t, docs("read", "read", "read"))
	q := ix.Query("read")
	want := ix.Rank(q, fullSet(3), 10, Options{})
	if diff := cmp.Diff(want, ix.Rank(q, fullSet(1000), 10, Options{})); diff != "" {
		t.Errorf("members beyond the index change the result (-want +got):\n%s", diff)
	}
	if got := found(ix.Rank(q, viewOf(2, 1), 10, Options{})); !slices.Equal(got, []int{1}) {
		t.Errorf("a smaller view finds %v, want [1]", got)
	}
	if got := ix.Rank(q, tool.Set{}, 10, Options{}); got.Total != 0 {
		t.Errorf("the zero view has %d matches, want 0", got.Total)
	}
	if got := ix.Rank(Query{}, fullSet(3), 10, Options{}); got.Total != 0 {
		t.Errorf("the zero query has %d matches, want 0", got.Total)
	}
}

func TestRankWithoutVectors(t *testing.T) {
	catalog := docs("delete_file", "send_email")
	table := embedding.Default()
	for name, b := range map[string][]byte{
		"another table": builtWith(catalog, &table, strings.Repeat("0", 64)),
		"no vectors":    builtWith(catalog, &embedding.Table{}, embedding.SHA256),
	} {
		ix, err := Open(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ix.Vectors() {
			t.Errorf("%s: the index has vectors", name)
		}
		r := ix.Rank(ix.Query("delete a document"), fullSet(2), 10, Options{})
		want := ix.Rank(ix.Query("delete a document"), fullSet(2), 10, Options{Lexical: true})
		if diff := cmp.Diff(want, r); diff != "" || len(r.Hits) != 1 || r.Hits[0].Semantic != 0 {
			t.Errorf("%s: Rank = %+v, want the ranking by words (-want +got):\n%s", name, r, diff)
		}
	}
}

func TestQueryLength(t *testing.T) {
	ix := indexOf(t, docs("needle", "thread"))
	var b strings.Builder
	for i := range maxQueryWords {
		fmt.Fprintf(&b, "word%d ", i)
	}
	for _, c := range []struct {
		name, query string
		want        []int
	}{
		{"words within the bound", "needle " + b.String(), []int{0}},
		{"words beyond the bound", b.String() + "needle", []int{}},
		{"bytes within the bound", strings.Repeat(".", maxQueryBytes-6) + "needle", []int{0}},
		{"bytes beyond the bound", strings.Repeat("é ", maxQueryBytes) + "needle", []int{}},
		{"one very long word", strings.Repeat("needle", 10000), []int{}},
	} {
		if got := found(ix.Rank(ix.Query(c.query), fullSet(2), 10, Options{Lexical: true})); !slices.Equal(got, c.want) {
			t.Errorf("%s: finds %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOneEdit(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"file", "file", false},
		{"file", "fil", true},
		{"file", "ile", true},
		{"fle", "file", true},
		{"file", "files", true},
		{"file", "fire", true},
		{"file", "flie", true},
		{"file", "fiel", true},
		{"file", "ifle", true},
		{"file", "lfie", false},
		{"file", "lief", false},
		{"file", "fi", false},
		{"file", "filers", false},
		{"aaaa", "aaa", true},
		{"abab", "baba", false},
		{"ab", "ba", true},
		{"", "a", true},
		{"", "", false},
	} {
		if got := oneEdit(c.a, []byte(c.b)); got != c.want {
			t.Errorf("oneEdit(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
		if got := oneEdit(c.b, []byte(c.a)); got != c.want {
			t.Errorf("oneEdit(%q, %q) = %v, want %v", c.b, c.a, got, c.want)
		}
	}
}

func TestSchemaText(t *testing.T) {
	for _, c := range []struct{ name, schema, names, text string }{
		{"no schema", ``, "", ""},
		{"no object", `[1]`, "", ""},
		{"broken", `{"properties":{`, "", ""},
		{"names by the alphabet", `{"properties":{"b":{},"a":{}}}`, "a\nb\n", ""},
		{"descriptions and enums", `{"properties":{"a":{"description":"An A.","enum":["x",1,true,null,["y"]]}}}`, "a\n", "An A.\nx\n1\ntrue\n"},
		{"only the top level", `{"properties":{"a":{"properties":{"b":{"description":"deep"}}}}}`, "a\n", ""},
		{"true is a schema", `{"properties":{"a":true,"b":{"description":"B"}}}`, "a\nb\n", "B\n"},
		{"odd types", `{"properties":{"a":{"description":{"x":1},"enum":"y"}}}`, "a\n", ""},
	} {
		names, text := schemaText(json.RawMessage(c.schema))
		if names != c.names || text != c.text {
			t.Errorf("%s: schemaText = %q, %q, want %q, %q", c.name, names, text, c.names, c.text)
		}
	}
}

func TestBelow(t *testing.T) {
	s := viewOf(70, 0, 63, 64, 69)
	for n, want := range map[int]int{0: 0, 64: 2, 65: 3, 69: 3, 70: 4, 1000: 4} {
		if got := below(s, n).Len(); got != want || s.Len() != 4 {
			t.Errorf("%d members below %d, want %d of 4", got, n, want)
		}
	}
}

// The stem of this word is more than one edit from the right stem, because the stemmer removes
// another ending.
func TestMisspelledMeaning(t *testing.T) {
	ix := indexOf(t, []Doc{
		{Name: "clock", Description: "Tell the time."},
		{Name: "sum", Description: "Calculate."},
		{Name: "post", Description: "Send a message."},
	})
	for query, want := range map[string]int{"taime": 0, "calculaet": 1, "mesage": 2, "messsage": 2} {
		r := ix.Rank(ix.Query(query), fullSet(3), 1, Options{})
		if len(r.Hits) != 1 || r.Hits[0].Doc != want || r.Hits[0].Lexical == 0 || r.Hits[0].Semantic < .1 {
			t.Errorf("%q finds %+v, want document %d by word and by meaning", query, r.Hits, want)
		}
		spelt, other := ix.Query(query), viewOf(3, (want+1)%3)
		if got := ix.correct(spelt, ix.knownTerms(spelt, other), other); got.stems != nil {
			t.Errorf("%q: a view without the word corrects it to %v", query, got.stems)
		}
	}
	// A word that a document has is not corrected, even if the table has a similar word.
	ix = indexOf(t, []Doc{{Name: "taime", Description: "A brand."}, {Name: "clock", Description: "Tell the time."}})
	q := ix.Query("taime")
	if got := ix.correct(q, ix.knownTerms(q, fullSet(2)), fullSet(2)); got.stems != nil {
		t.Errorf("a word of the view is corrected to %v", got.stems)
	}
}

// TestKnownNear compares knownNear with a plain search of the whole table.
func TestKnownNear(t *testing.T) {
	ix := indexOf(t, docs("read"))
	for _, word := range []string{"taime", "calculaet", "eesage", "aread", "ead", "raed", "pway", "zzzz", "wether", "tabel"} {
		var want []string
		for letter := range 256 {
			ix.table.Words(byte(letter), func(w string) {
				if oneEdit(word, w) {
					want = append(want, w)
				}
			})
		}
		var got []string
		for _, m := range ix.knownNear(word) {
			got = append(got, m.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
