package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// listing reads one page of upstream_servers as name → entry.
func (gw *fixture) listing(arguments string) map[string]string {
	gw.T.Helper()
	out := map[string]string{}
	l := require.JSON[struct {
		Servers []json.RawMessage
		Total   int
	}](gw.T, gw.Call("upstream_servers", arguments).Text)
	for _, raw := range l.Servers {
		out[nameOf(gw.T, raw)] = string(raw)
	}
	if l.Total != len(out) {
		gw.T.Errorf("total = %d, want %d", l.Total, len(out))
	}
	return out
}

func TestServers(t *testing.T) {
	gw := everyStatus(t)
	for _, args := range []string{`{"operation":"list"}`, `{}`, `null`} {
		checkAnswer(t, "upstream_servers", gw.Call("upstream_servers", args).Text)
	}
	want := map[string]string{
		"docs": `{"name":"docs","enabled":true,"status":"available","toolsets":["docs"]}`,
	}
	same(t, "servers", want, gw.listing(`{"operation":"get","name":"docs"}`))
}

func TestServersMessage(t *testing.T) {
	gw := newFixture(t)
	for name, status := range map[string]outcome.Status{"late": outcome.Transient, "gone": outcome.Permanent, "closed": outcome.Denied} {
		gw.Serve(name).Outcome = outcome.Outcome{Status: status, Reason: "dns", Error: "lookup internal.example"}
	}
	gw.load(nil)
	gw.Serve("young") // new since the last sync
	gw.reconfigure(nil)
	want := map[string]string{
		"late":   `{"name":"late","enabled":true,"status":"transient","message":"MCP server 'late' is starting up or briefly unavailable; it will be retried.","toolsets":["late"]}`,
		"gone":   `{"name":"gone","enabled":true,"status":"permanent","message":"MCP server 'gone' is unavailable and needs attention: its name does not resolve. Its tools will not work until it is fixed.","toolsets":["gone"]}`,
		"closed": `{"name":"closed","enabled":true,"status":"denied","message":"Access to MCP server 'closed' was denied. Retrying will not help; contact its owner.","toolsets":["closed"]}`,
		"young":  `{"name":"young","enabled":true,"status":"transient","message":"MCP server 'young' is starting up or briefly unavailable; it will be retried.","toolsets":["young"]}`,
	}
	same(t, "servers", want, gw.listing(`{}`))
}

func TestServersScope(t *testing.T) {
	gw := everyStatus(t)
	gw.Agent.Servers = []string{"docs", "user"}
	if got := gw.listing(`{}`); len(got) != 2 {
		t.Errorf("servers in a scope of two = %v", got)
	}
	gw.Header = map[string][]string{"X-Mcp-Toolsets": {"docs"}}
	if got := gw.listing(`{}`); len(got) != 1 || got["docs"] == "" {
		t.Errorf("servers in the selection of docs = %v", got)
	}
	gw.Header = map[string][]string{"X-Mcp-Exclude-Tools": {"docs:read_document"}}
	gw.Agent.Servers = []string{"docs"}
	var shape string
	for _, name := range []string{"user", "nowhere", "Docs"} {
		r := gw.Call("upstream_servers", fmt.Sprintf(`{"operation":"get","name":%q}`, name))
		same := strings.Replace(r.Raw, name, "", 1)
		if shape == "" {
			shape = same
		}
		if !r.IsError || same != shape {
			t.Errorf("%s: %s", name, r.Raw)
		}
	}
}

func TestServersCounts(t *testing.T) {
	gw := serving(t, `"disabled_tools":["b","c"]`, `"toolsets":{"Few":["s:a","s:b"]}`, def("a", "A.", ""), def("b", "B.", ""), def("c", "C.", ""), def("d", "D.", ""))
	for _, tt := range []struct{ path, exclude, tools string }{
		{"", "", `"tools":{"callable":2,"disabled_by_config":2},`},
		{"/x/few", "", `"tools":{"callable":1,"disabled_by_config":1},`},
		{"/x/few", "s:b", ``},
	} {
		gw.Path, gw.Header = tt.path, map[string][]string{"X-Mcp-Exclude-Tools": {tt.exclude}}
		want := `{"name":"s","enabled":true,"status":"available",` + tt.tools + `"toolsets":["few","s"]}`
		if got := gw.listing(`{}`)["s"]; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// A list of many servers has pages of 50, with each server on one page. The end of a page reveals
// nothing about servers out of scope or selection.
func TestServersPages(t *testing.T) {
	gw := newFixture(t)
	for i := range 120 {
		gw.Serve(fmt.Sprintf("s%03d", i), def("act", "Act.", ""))
		gw.Serve(fmt.Sprintf("s%03d-foreign", i))
	}
	gw.load(nil)
	gw.Agent.Servers = nil
	for i := range 120 {
		gw.Agent.Servers = append(gw.Agent.Servers, fmt.Sprintf("s%03d", i))
	}
	for after, want := range map[string]struct {
		first, n int
		next     string
	}{
		"": {0, 50, "s049"}, "s049": {50, 50, "s099"}, "s099": {100, 20, ""},
		"s069": {70, 50, ""}, "s119": {120, 0, ""}, "zzz": {120, 0, ""},
		// a server out of scope does not change where a page begins
		"s010-foreign": {11, 50, "s060"},
	} {
		args := fmt.Sprintf(`{"after":%q}`, after)
		if after == "" {
			args = "{}"
		}
		r := gw.Call("upstream_servers", args)
		p := require.JSON[struct {
			Servers []struct{ Name string }
			Total   int
			Next    string
		}](t, r.Text)
		var names []string
		for _, s := range p.Servers {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, gw.Agent.Servers[want.first:want.first+want.n]) ||
			p.Next != want.next || p.Total != 120 || len(r.Text) > 5000 || p.Servers == nil {
			t.Errorf("after %q: %s", after, r.Text)
		}
	}
}
