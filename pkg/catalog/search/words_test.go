package search

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A query with only a word of the operator finds the tool with this word. The words do not change
// the vector of the tool.
func TestWords(t *testing.T) {
	plain := []Doc{
		{Name: "get_shelf", Server: "weread", Description: "List the books of the user."},
		{Name: "git_log", Server: "git", Description: "Show the commits."},
		{Name: "list_rooms", Server: "hotel", Description: "List free rooms."},
	}
	with := slices.Clone(plain)
	with[0].Words = []string{"wechat reading", "微信读书"}
	with[1].Words = []string{"version control"}
	bare, named := indexOf(t, plain), indexOf(t, with)
	for _, tt := range []struct {
		query        string
		before, then []int
	}{
		{"微信读书", []int{}, []int{0}},
		{"读书", []int{}, []int{0}},
		{"wechat", []int{}, []int{0}},
		{"wehcat", []int{}, []int{0}},
		{"version", []int{}, []int{1}},
		{"hotel rooms", []int{2}, []int{2}},
	} {
		for o, want := range map[*Index][]int{bare: tt.before, named: tt.then} {
			if got := found(o.Rank(o.Query(tt.query), fullSet(3), 10, Options{Lexical: true})); !slices.Equal(got, want) {
				t.Errorf("%q finds %v, want %v", tt.query, got, want)
			}
		}
	}
	if !bytes.Equal(bare.segments[0].vectors, named.segments[0].vectors) || !bytes.Equal(bare.segments[0].norms, named.segments[0].norms) {
		t.Error("the operator's words change the vector of a tool")
	}
	for _, query := range []string{"books of the user", "show commits", "free rooms"} {
		q, all := bare.Query(query), fullSet(3)
		if diff := cmp.Diff(bare.Rank(q, all, 10, Options{}), named.Rank(q, all, 10, Options{})); diff != "" {
			t.Errorf("words change the answer to %q (-without +with words):\n%s", query, diff)
		}
	}
	before := built(plain)
	for i := range plain {
		plain[i].Words = []string{}
	}
	if !bytes.Equal(built(plain), before) {
		t.Error("without words the index has other bytes")
	}
}
