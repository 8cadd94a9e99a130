package gateway_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// realTools returns a gateway with n tools: the 527 real tools of 70 servers, copied if n is
// larger.
func realTools(t testing.TB, n int) *fixture {
	t.Helper()
	gw := newFixture(t)
	for server, list := range local.Many(t, n) {
		var definitions []string
		for _, raw := range list {
			definitions = append(definitions, string(raw))
		}
		gw.Serve(server, definitions...)
	}
	gw.load(nil)
	return gw
}

// eachTool calls f for every tool.
func (gw *fixture) eachTool(f func(id string)) {
	gw.T.Helper()
	for server, s := range gw.ByName {
		for _, raw := range s.Tools {
			d := require.JSON[struct{ Name string }](gw.T, raw)
			f(server + ":" + d.Name)
		}
	}
}

var queries = []string{
	"what is the weather like tomorrow", "create an issue in a repository", "search papers about transformers",
	"send an email", "convert a pdf to markdown", "take a screenshot of a web page", "current stock price", "find a hotel",
}

func benchmarkRetrieve(b *testing.B, n int, more string) {
	retrieveFrom(b, realTools(b, n), more)
}

func retrieveFrom(b *testing.B, gw *fixture, more string) {
	var params []mcp.Request
	for _, q := range queries {
		params = append(params, parse(b, fmt.Sprintf(`{"name":"retrieve_tools","arguments":{"query":%q%s}}`, q, more)))
	}
	gw.Open()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := gw.Open().CallTool(b.Context(), params[n%len(params)], mcp.Client{}); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkRetrieve527(b *testing.B)   { benchmarkRetrieve(b, 527, "") }
func BenchmarkRetrieve10000(b *testing.B) { benchmarkRetrieve(b, 10_000, "") }
func BenchmarkRetrieveDisabled527(b *testing.B) {
	benchmarkRetrieve(b, 527, `,"include_disabled":true`)
}

// Each client gets the instructions first.
func BenchmarkInstructions10000(b *testing.B) {
	gw := realTools(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if gw.Open().Instructions() == "" {
			b.Fatal("no instructions")
		}
	}
}

func BenchmarkListDirect527(b *testing.B) {
	gw := realTools(b, 527)
	gw.load(nil, directMode)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gw.Open().ListTools(b.Context(), ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall527(b *testing.B) {
	gw := realTools(b, 527)
	first := ""
	gw.eachTool(func(id string) { first = id })
	params := parse(b, fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":%q}}`, first))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gw.Open().CallTool(b.Context(), params, mcp.Client{}); err != nil {
			b.Fatal(err)
		}
		gw.Sent()
	}
}

// noticeOfLocked searches for each tool by its own name. It counts the searches with a notice, for
// callable tools and for locked ones. first counts the locked tools that come first in disabled.
func (gw *fixture) noticeOfLocked(locked map[string][]string) (noticed, all [2]int, first int) {
	gw.eachTool(func(id string) {
		server, name, _ := strings.Cut(id, ":")
		query := strings.NewReplacer("_", " ", "-", " ").Replace(name)
		of := 0
		if slices.Contains(locked[server], name) {
			of = 1
			f := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, query))
			if _, best, _ := strings.Cut(f.Disabled[0].Name, ":"); best == name {
				first++
			}
		}
		all[of]++
		f := gw.search(fmt.Sprintf(`{"query":%q}`, query))
		if f.Notice == "" {
			return
		}
		noticed[of]++
		if strings.Contains(f.Notice, name) && len(name) > 4 || strings.Contains(f.Notice, id) {
			gw.T.Errorf("the notice names %s: %s", id, f.Notice)
		}
	})
	return noticed, all, first
}

// TestNoticeOnRealTools locks the real tools in two ways. A search for a locked tool by its own
// name has a notice, and a search for a callable tool rarely has one. With
// include_disabled, the locked tool comes first in disabled.
func TestNoticeOnRealTools(t *testing.T) {
	gw := realTools(t, 527)
	write := regexp.MustCompile(`(?i)add|append|clear|create|delete|edit|insert|move|save|set_|update|write`)
	n := 0
	for _, way := range []struct {
		name        string
		least, most float64
		locks       func(name string) bool
	}{
		{"a third of the tools", .85, .09, func(string) bool { n++; return n%3 == 0 }},
		{"all writes", .88, .04, write.MatchString},
	} {
		locked, settings := map[string][]string{}, map[string]string{}
		var ids []string
		gw.eachTool(func(id string) { ids = append(ids, id) })
		slices.Sort(ids)
		for _, id := range ids {
			if server, name, _ := strings.Cut(id, ":"); way.locks(name) {
				locked[server] = append(locked[server], name)
				settings[server] = fmt.Sprintf(`"disabled_tools":[%s]`, `"`+strings.Join(locked[server], `","`)+`"`)
			}
		}
		gw.reconfigure(settings)
		noticed, all, first := gw.noticeOfLocked(locked)
		of := func(n, all int) float64 { return float64(n) / float64(max(all, 1)) }
		told, needless, leads := of(noticed[1], all[1]), of(noticed[0], all[0]), of(first, all[1])
		t.Logf("%s: notice for %.3f of %d locked tools, first in disabled %.3f, needless for %.3f of %d callable tools",
			way.name, told, all[1], leads, needless, all[0])
		if all[0] == 0 || told < way.least || needless > way.most || leads < .95 {
			t.Errorf("%s: notice %.3f, needless %.3f, first in disabled %.3f; want at least %v, at most %v, and at least .95",
				way.name, told, needless, leads, way.least, way.most)
		}
	}
}
