package gateway_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	gw.Configure(nil)
	gw.Sync()
	return gw
}

// everyServer gives the same settings to each server.
func (gw *fixture) everyServer(settings string) map[string]string {
	out := map[string]string{}
	for name := range gw.ByName {
		out[name] = settings
	}
	return out
}

// TestRetrieveRealToolsLocked locks every real tool, for each reason in turn. Searches find all
// tools with their status, and have a notice, because no callable tool matches.
func TestRetrieveRealToolsLocked(t *testing.T) {
	gw := realTools(t, 527)
	tools := gw.listing(`{}`)
	if len(tools) != 70 {
		t.Fatalf("%d servers, want 70", len(tools))
	}
	reasons := []struct {
		status string
		apply  func()
	}{
		{"server_disabled", func() { gw.Configure(gw.everyServer(`"enabled":false`)); gw.Sync() }},
		{"disabled_by_config", func() { gw.Configure(gw.everyServer(`"disabled_tools":["*"]`)); gw.Sync() }},
		{"disabled_unknown", func() {
			gw.Configure(nil)
			gw.Forbid(`@id("broken") forbid (principal, action, resource) when { principal.level > 1 };`)
			gw.Sync()
		}},
		{"disabled_by_user", func() {
			gw.Forbid(` `)
			gw.eachTool(func(id string) { gw.Decide(id, "disable") })
			gw.Sync()
		}},
		{"pending_approval", func() {
			gw.eachTool(func(id string) { gw.Decide(id, "enable") })
			for _, s := range gw.ByName {
				for i, d := range s.Tools {
					s.Tools[i] = strings.Replace(d, "{", `{"x-new":1,`, 1)
				}
			}
			gw.Sync()
		}},
	}
	for _, r := range reasons {
		r.apply()
		missed, found := 0, 0
		gw.eachTool(func(id string) {
			_, name, _ := strings.Cut(id, ":")
			query := strings.NewReplacer("_", " ", "-", " ").Replace(name)
			if f := gw.search(fmt.Sprintf(`{"query":%q}`, query)); f.Total != 0 || !strings.Contains(f.Notice, "locked") {
				missed++
				t.Logf("%s: %q gives %s", r.status, query, f.Raw)
			}
			_, locked := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, query)).names()
			for other, status := range locked {
				if status != r.status {
					t.Fatalf("%s is %s, want %s", other, status, r.status)
				}
			}
			if locked[id] != "" {
				found++
			}
		})
		if missed > 0 {
			t.Errorf("%s: no notice for %d of 527 tools", r.status, missed)
		}
		// an answer has at most ten locked tools, and several servers share tool names
		if found < 500 {
			t.Errorf("%s: searches by name list %d of 527 locked tools, want at least 500",
				r.status, found)
		}
		t.Logf("%s: %d of 527 tools found by their own name", r.status, found)
	}
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

func BenchmarkRetrieveThirdLocked527(b *testing.B) {
	for _, notice := range []string{"zero", "best"} {
		b.Run(notice, func(b *testing.B) {
			gw := realTools(b, 527)
			gw.Configure(gw.everyThird(`"disabled_tools":["*"]`), fmt.Sprintf(`"gateway":{"notice":%q}`, notice))
			gw.Sync()
			retrieveFrom(b, gw, "")
		})
	}
}

func BenchmarkServers10000(b *testing.B) {
	gw := realTools(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gw.Try(`{"name":"upstream_servers","arguments":{}}`); err != nil {
			b.Fatal(err)
		}
	}
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
	gw.Configure(nil, directMode)
	gw.Sync()
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

// everyThird gives the same settings to a third of the servers.
func (gw *fixture) everyThird(settings string) map[string]string {
	out := map[string]string{}
	for n, name := range slices.Sorted(maps.Keys(gw.ByName)) {
		if n%3 == 2 {
			out[name] = settings
		}
	}
	return out
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

// TestNoticeOnRealTools locks the real tools in three ways. A search for a locked tool by its own
// name has a notice, and a search for a callable tool rarely has one. With the flag, the tool comes
// first among the locked ones.
func TestNoticeOnRealTools(t *testing.T) {
	gw := realTools(t, 527)
	write := regexp.MustCompile(`(?i)add|append|clear|create|delete|edit|insert|move|save|set_|update|write`)
	third := gw.everyThird("locked")
	n := 0
	for _, way := range []struct {
		name        string
		least, most float64
		locks       func(server, name string) bool
	}{
		{"a third of the servers", .85, .09, func(server, _ string) bool { return third[server] != "" }},
		{"a third of the tools", .85, .09, func(_, _ string) bool { n++; return n%3 == 0 }},
		{"all writes", .88, .04, func(_, name string) bool { return write.MatchString(name) }},
	} {
		locked, settings := map[string][]string{}, map[string]string{}
		var ids []string
		gw.eachTool(func(id string) { ids = append(ids, id) })
		slices.Sort(ids)
		for _, id := range ids {
			if server, name, _ := strings.Cut(id, ":"); way.locks(server, name) {
				locked[server] = append(locked[server], name)
				settings[server] = fmt.Sprintf(`"disabled_tools":[%s]`, `"`+strings.Join(locked[server], `","`)+`"`)
			}
		}
		gw.Configure(settings)
		gw.Clock.Wait(time.Minute)
		noticed, all, first := gw.noticeOfLocked(locked)
		of := func(n, all int) float64 { return float64(n) / float64(max(all, 1)) }
		told, needless, leads := of(noticed[1], all[1]), of(noticed[0], all[0]), of(first, all[1])
		t.Logf("%s: notice for %.3f of %d locked tools, first in disabled %.3f, needless for %.3f of %d callable tools",
			way.name, told, all[1], leads, needless, all[0])
		if all[0] == 0 || told < way.least || needless > way.most || leads < .95 {
			t.Errorf("%s: notice %.3f, needless %.3f, first in disabled %.3f; want at least %v, at most %v and .95",
				way.name, told, needless, leads, way.least, way.most)
		}
	}
}
