package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// shelves returns a gateway with servers whose texts lack the words that people use for them.
func shelves(t *testing.T) *fixture {
	gw := newFixture(t)
	gw.Serve("weread", def("get_shelf", "List the books of the user.", ""), def("get_notes", "List the marks in a book.", ""))
	gw.Serve("git", def("log", "Show the commits.", ""))
	gw.Serve("vault", def("open_box", "Open a box.", ""))
	return gw
}

const houseWords = `"words":{"weread:*":["wechat reading","微信读书"],"weread:get_n*":["zettelkasten"],"git:*":["subversion"],"vault:*":["qqvault"]}`

// The operator's words find a tool after the next sync, whether it is callable or locked.
func TestWords(t *testing.T) {
	gw := shelves(t)
	gw.load(nil)
	queries := map[string][]string{
		"微信读书": {"weread:get_notes", "weread:get_shelf"}, "我的微信书架": {"weread:get_notes", "weread:get_shelf"}, "wechat": {"weread:get_notes", "weread:get_shelf"},
		"zettelkasten": {"weread:get_notes"}, "subversion": {"git:log"},
	}
	for q := range queries {
		if f := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, q)); f.Raw != nothingFound {
			t.Errorf("without words %q finds %s", q, f.Raw)
		}
	}
	gw.Configure(nil, houseWords)
	if rep := gw.Sync(); !rep.Built || rep.Changed+rep.New > 0 {
		t.Errorf("the sync after new words: %+v", rep)
	}
	if rep := gw.Sync(); rep.Built {
		t.Error("the sync builds the catalog again for unchanged words")
	}
	for q, want := range queries {
		got, _ := gw.search(fmt.Sprintf(`{"query":%q}`, q)).names()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", q, got, want)
		}
	}

	gw.load(map[string]string{"weread": `"disabled_tools":["*"]`}, houseWords)
	if f := gw.search(`{"query":"wechat"}`); f.Total != 0 || !strings.HasPrefix(f.Notice, "No callable tool matches, but 2 locked tools do.") {
		t.Errorf("a locked tool: %s", f.Raw)
	}
	gw.load(nil)
	if f := gw.search(`{"query":"wechat"}`); f.Total != 0 {
		t.Errorf("without words again: %s", f.Raw)
	}
}

// No answer repeats a word of the operator.
func TestWordsAreNotShown(t *testing.T) {
	gw := shelves(t)
	gw.load(map[string]string{"vault": `"disabled_tools":["*"]`}, houseWords)
	calls := []string{
		`{"name":"describe_tools","arguments":{"names":["weread:get_shelf","weread:get_notes","git:log","vault:open_box"]}}`,
		`{"name":"upstream_servers","arguments":{}}`, `{"name":"call_tool_destructive","arguments":{"name":"vault:open_box"}}`,
	}
	for _, q := range []string{"微信", "wechat books", "qqvault", "unheard"} {
		calls = append(calls, fmt.Sprintf(`{"name":"retrieve_tools","arguments":{"query":%q,"include_disabled":true,"detail":"full"}}`, q))
	}
	for _, call := range calls {
		raw, err := gw.Try(call)
		require.OK(t, err)
		for _, word := range []string{"wechat", "微信", "zettelkasten", "subversion", "qqvault"} {
			if strings.Contains(string(raw), word) {
				t.Errorf("%s shows %q: %s", call, word, raw)
			}
		}
	}
}
