package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// listing reads every page of upstream_servers as name → entry.
func (gw *fixture) listing(arguments string) map[string]string {
	gw.T.Helper()
	out := map[string]string{}
	for {
		r := gw.Call("upstream_servers", arguments)
		if r.IsError {
			gw.T.Fatalf("upstream_servers %s: %s", arguments, r.Text)
		}
		l := require.JSON[struct {
			Servers []json.RawMessage
			Total   int
			Next    string
		}](gw.T, r.Text)
		for _, raw := range l.Servers {
			s := require.JSON[struct{ Name string }](gw.T, raw)
			out[s.Name] = string(raw)
		}
		if l.Next == "" {
			if l.Total != len(out) {
				gw.T.Errorf("total = %d, want %d", l.Total, len(out))
			}
			return out
		}
		arguments = fmt.Sprintf(`{"after":%q}`, l.Next)
	}
}

func TestServers(t *testing.T) {
	gw := everyStatus(t)
	checkAnswer(t, "upstream_servers", gw.Call("upstream_servers", `{"operation":"list"}`).Text)
	want := map[string]string{
		"docs":    `{"name":"docs","enabled":true,"status":"available","toolsets":["docs"]}`,
		"denied":  `{"name":"denied","enabled":true,"status":"available","tools":{"callable":0,"disabled_by_config":2},"toolsets":["denied"]}`,
		"user":    `{"name":"user","enabled":true,"status":"available","tools":{"callable":0,"disabled_by_user":1},"toolsets":["user"]}`,
		"waiting": `{"name":"waiting","enabled":true,"status":"available","tools":{"callable":0,"pending_approval":1},"toolsets":["waiting"]}`,
		"moved":   `{"name":"moved","enabled":true,"status":"available","tools":{"callable":0,"pending_approval":1},"toolsets":["moved"]}`,
		"off":     `{"name":"off","enabled":false,"status":"disabled","tools":{"callable":0,"server_disabled":1},"toolsets":["off"]}`,
		"broken":  `{"name":"broken","enabled":true,"status":"available","tools":{"callable":0,"disabled_unknown":1},"toolsets":["broken"]}`,
	}
	for _, args := range []string{`{"operation":"list"}`, `{}`, `null`} {
		if diff := cmp.Diff(want, gw.listing(args)); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"docs": want["docs"]}, gw.listing(`{"operation":"get","name":"docs"}`)); diff != "" {
		t.Error(diff)
	}
}

func TestServersMessage(t *testing.T) {
	gw := newFixture(t)
	for name, status := range map[string]outcome.Status{"late": outcome.Transient, "gone": outcome.Permanent, "closed": outcome.Denied} {
		gw.Serve(name).Outcome = outcome.Outcome{Status: status, Reason: "dns", Error: "lookup internal.example"}
	}
	gw.Configure(nil)
	gw.Sync()
	gw.Serve("young") // new since the last sync
	gw.Configure(nil)
	gw.Clock.Wait(30e9)
	want := map[string]string{
		"late":   `{"name":"late","enabled":true,"status":"transient","message":"MCP server 'late' is starting up or briefly unavailable; it will be retried.","toolsets":["late"]}`,
		"gone":   `{"name":"gone","enabled":true,"status":"permanent","message":"MCP server 'gone' is unavailable and needs attention: its name does not resolve. Its tools will not work until it is fixed.","toolsets":["gone"]}`,
		"closed": `{"name":"closed","enabled":true,"status":"denied","message":"Access to MCP server 'closed' was denied. Retrying will not help; contact its owner.","toolsets":["closed"]}`,
		"young":  `{"name":"young","enabled":true,"status":"transient","message":"MCP server 'young' is starting up or briefly unavailable; it will be retried.","toolsets":["young"]}`,
	}
	if diff := cmp.Diff(want, gw.listing(`{}`)); diff != "" {
		t.Error(diff)
	}
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
	if got, want := gw.listing(`{}`)["s"], `{"name":"s","enabled":true,"status":"available","tools":{"callable":2,"disabled_by_config":2},"toolsets":["few","s"]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	gw.Path = "/x/few"
	if got, want := gw.listing(`{}`)["s"], `{"name":"s","enabled":true,"status":"available","tools":{"callable":1,"disabled_by_config":1},"toolsets":["few","s"]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	gw.Header = map[string][]string{"X-Mcp-Exclude-Tools": {"s:b"}}
	if got, want := gw.listing(`{}`)["s"], `{"name":"s","enabled":true,"status":"available","toolsets":["few","s"]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
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
	gw.Configure(nil)
	gw.Sync()
	gw.Agent.Servers = nil
	for i := range 120 {
		gw.Agent.Servers = append(gw.Agent.Servers, fmt.Sprintf("s%03d", i))
	}
	type page struct {
		Servers []struct{ Name string }
		Total   int
		Next    *string
	}
	ask := func(after string) page {
		t.Helper()
		args := "{}"
		if after != "" {
			args = fmt.Sprintf(`{"after":%q}`, after)
		}
		r := gw.Call("upstream_servers", args)
		var p page
		if err := json.Unmarshal([]byte(r.Text), &p); err != nil || r.IsError {
			t.Fatalf("after %q: %v %s", after, err, r.Raw)
		}
		if p.Total != 120 || len(r.Text) > 5000 {
			t.Errorf("after %q: total %d, %d bytes", after, p.Total, len(r.Text))
		}
		return p
	}
	var names []string
	after := ""
	for _, want := range []int{50, 50, 20} {
		p := ask(after)
		if len(p.Servers) != want || (p.Next == nil) != (want == 20) {
			t.Fatalf("after %q: %d servers, next %v; want %d", after, len(p.Servers), p.Next, want)
		}
		for _, s := range p.Servers {
			names = append(names, s.Name)
		}
		if p.Next != nil {
			after = *p.Next
		}
	}
	if diff := cmp.Diff(gw.Agent.Servers, names); diff != "" {
		t.Error(diff)
	}
	if p := ask("s069"); p.Next != nil || len(p.Servers) != 50 {
		t.Errorf("last page: next %v and %d servers, want none and 50", p.Next, len(p.Servers))
	}
	for _, after := range []string{"s119", "zzz"} {
		if p := ask(after); p.Next != nil || p.Servers == nil || len(p.Servers) != 0 {
			t.Errorf("after %q: %+v, want an empty last page", after, p)
		}
	}
	if a, b := ask("s010-foreign"), ask("s010"); a.Servers[0] != b.Servers[0] || *a.Next != *b.Next {
		t.Error("a server out of scope changes where a page begins")
	}
}
