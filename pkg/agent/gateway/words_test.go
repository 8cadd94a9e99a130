package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
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
	gw.Configure(nil)
	gw.Sync()
	before := gw.Record("weread:get_shelf")
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
	for q, want := range queries {
		f := gw.search(fmt.Sprintf(`{"query":%q}`, q))
		got, _ := f.names()
		for _, name := range want {
			if !strings.Contains(strings.Join(got, " "), name) || len(got) != len(want) {
				t.Errorf("%q finds %v, want %v", q, got, want)
			}
		}
	}
	if after := gw.Record("weread:get_shelf"); after.Rev != before.Rev || after.CurrentHash != before.CurrentHash {
		t.Errorf("words changed the record from %+v to %+v", before, after)
	}
	if rep := gw.Sync(); rep.Built {
		t.Error("the sync builds the catalog again for unchanged words")
	}

	gw.Configure(map[string]string{"weread": `"disabled_tools":["*"]`}, houseWords)
	gw.Sync()
	if f := gw.search(`{"query":"wechat"}`); f.Total != 0 || !strings.HasPrefix(f.Notice, "No callable tool matches, but 2 locked tools do.") {
		t.Errorf("a locked tool: %s", f.Raw)
	}
	if _, locked := gw.search(`{"query":"微信读书","include_disabled":true}`).names(); len(locked) != 2 {
		t.Errorf("a locked tool is not found as such: %v", locked)
	}
	gw.Configure(nil)
	gw.Sync()
	if f := gw.search(`{"query":"wechat"}`); f.Total != 0 {
		t.Errorf("without words again: %s", f.Raw)
	}
}

// No answer repeats a word of the operator.
func TestWordsAreNotShown(t *testing.T) {
	gw := shelves(t)
	gw.Configure(map[string]string{"vault": `"disabled_tools":["*"]`}, houseWords)
	gw.Sync()
	for _, q := range []string{"微信", "wechat books", "a box of commits", "qqvault", "unheard"} {
		for _, more := range []string{"", `,"detail":"full"`, `,"include_disabled":true`, `,"include_disabled":true,"detail":"full"`} {
			gw.shows("retrieve_tools", fmt.Sprintf(`{"query":%q%s}`, q, more))
		}
	}
	gw.shows("retrieve_tools", `{"query":"weread","detail":"full"}`)
	gw.shows("describe_tools", `{"names":["weread:get_shelf","weread:get_notes","git:log","vault:open_box"]}`)
	gw.shows("upstream_servers", `{}`)
	gw.shows("call_tool_destructive", `{"name":"vault:open_box"}`)
	gw.shows("call_tool_destructive", `{"name":"git:log"}`)
}

// shows calls a tool and checks that the answer contains none of the words.
func (gw *fixture) shows(name, arguments string) {
	gw.T.Helper()
	raw, err := gw.Try(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	for _, word := range []string{"wechat", "微信", "zettelkasten", "subversion", "qqvault"} {
		if answer := fmt.Sprint(string(raw), err); strings.Contains(answer, word) {
			gw.T.Errorf("%s %s shows %q: %s", name, arguments, word, answer)
		}
	}
}

// Words of a tool that an agent may not see leave no trace in its answers, byte for byte.
func TestWordsOutOfScope(t *testing.T) {
	answers := func(words string) string {
		gw := shelves(t)
		gw.Configure(nil, words)
		gw.Sync()
		gw.Agent = identity.Agent{ID: "ci", Servers: []string{"weread", "git"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}}
		out := ""
		for _, q := range []string{"qqvault", "qqvalt", "list books", "commits", "box"} {
			for _, more := range []string{"", `,"include_disabled":true`} {
				out += gw.search(fmt.Sprintf(`{"query":%q,"detail":"full"%s}`, q, more)).Raw + "\n"
			}
		}
		return out
	}
	if with, without := answers(`"words":{"vault:*":["qqvault","books","commits"]}`), answers(`"words":{}`); with != without {
		t.Errorf("words of a tool out of scope change the answers:\n%s\nwithout:\n%s", with, without)
	}
}
