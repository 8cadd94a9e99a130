package gateway_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

// sharedNames returns a gateway with tools in every state: callable, denied, waiting, disabled, not
// offered and out of scope. Servers share tool names.
func sharedNames(t testing.TB, mode string) *fixture {
	gw := newFixture(t)
	for _, name := range []string{"files", "folders", "mail", "off", "foreign"} {
		gw.Serve(name, def("get", "Get one of them.", readOnly), def("create", "Create one of them.", mildly), def("delete_"+name, "Delete one of them.", ""))
	}
	gw.Configure(nil)
	gw.Sync() // so that the disabled servers' tools are known
	gw.Serve("slow", def("get", "Get one of them.", readOnly)).Outcome.Status = "transient"
	gw.Configure(map[string]string{"mail": `"approval":"manual"`, "off": `"enabled":false`},
		`"toolsets":{"mixed":["files:get","mail:*","foreign:get","slow:get"],"hidden":["foreign:*"]}`,
		`"tools":{"toolsets":["files","mail","off","foreign","slow"],"enabled":["folders:create"],"disabled":["files:delete_files"]}`,
		fmt.Sprintf(`"gateway":{"mode":%q}`, mode))
	gw.Sync()
	gw.Agent.Servers = []string{"files", "folders", "mail", "off", "slow"}
	return gw
}

// everyTool returns the names of all tools, offered or not, and of some that do not exist.
func (gw *fixture) everyTool() []string {
	var out []string
	gw.eachTool(func(id string) { out = append(out, id) })
	slices.Sort(out)
	return append(out, "files:none", "none:get", "foreign:none")
}

// shown returns the tools that a request sees, or nil if the gateway refuses the request. It uses
// every method of the mode. The answers must agree with each other.
func (gw *fixture) shown() map[string]bool {
	gw.T.Helper()
	s, err := gw.MCP.Open(gw.T.Context(), gw.Caller)
	if err != nil {
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 {
			gw.T.Errorf("%s %v is refused by %v", gw.Path, gw.Header, err)
		}
		return nil
	}
	out := map[string]bool{}
	direct := strings.Contains(s.Instructions(), "Locked tools are not listed")
	if direct {
		list, _ := gw.page("")
		for _, raw := range list {
			name := strings.Replace(nameOf(gw.T.(*testing.T), raw), "__", ":", 1)
			out[name] = true
		}
	} else {
		f := gw.search(`{"query":"get create delete one of them","limit":50,"include_disabled":true}`)
		callable, locked := f.names()
		for _, name := range callable {
			out[name] = true
		}
		for name := range locked {
			out[name] = true
		}
	}
	for _, id := range gw.everyTool() {
		name, args := "call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id)
		if direct {
			name, args = strings.Replace(id, ":", "__", 1), `{}`
		}
		raw, err := s.CallTool(gw.T.Context(), parse(gw.T, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)), mcp.Client{})
		exists := err == nil && !strings.Contains(string(raw), "was not found")
		switch {
		case exists && direct:
			out[id] = true // a locked tool is not listed, but its call returns the reason
		case exists != out[id]:
			gw.T.Errorf("%s %v: %s: found = %v, but the call returned %s, %v", gw.Path, gw.Header, id, out[id], raw, err)
		}
	}
	for _, c := range gw.Sent() {
		if id := c.Server + ":" + c.Tool; !out[id] {
			gw.T.Errorf("%s %v: %s was called, but is not shown", gw.Path, gw.Header, id)
		}
	}
	return out
}

// randomHeader returns headers with names that exist, that do not exist, and that the agent may not
// know. It uses aliases and several lines.
func randomHeader(rng *rand.Rand, tools []string) (path string, h http.Header) {
	names := append(slices.Clone(tools), "get", "create", "delete_files", "nope", "*", "files:*", ":", "")
	groups := []string{"all", "default", "files", "FOLDERS", "mail", "off", "foreign", "slow", "mixed", "hidden", "nope", ""}
	list := func(from []string) string {
		var out []string
		for range rng.IntN(4) {
			out = append(out, from[rng.IntN(len(from))])
		}
		return strings.Join(out, " ,")
	}
	h = http.Header{}
	for _, x := range []struct {
		names []string
		from  []string
	}{
		{[]string{"X-Mcp-Toolsets"}, groups},
		{[]string{"X-Mcp-Tools", "X-Mcp-Enabled-Tools"}, names},
		{[]string{"X-Mcp-Exclude-Tools", "X-Mcp-Disabled-Tools"}, names},
	} {
		for rng.IntN(2) == 0 {
			h.Add(x.names[rng.IntN(len(x.names))], list(x.from))
		}
	}
	if rng.IntN(4) == 0 {
		h.Add("X-Mcp-Readonly", []string{"true", "false", "on", "0"}[rng.IntN(4)])
	}
	if rng.IntN(3) > 0 {
		h.Add("Prefer", "handling=lenient")
	}
	switch rng.IntN(4) {
	case 0:
		path = "/readonly"
	case 1:
		path = "/x/" + groups[rng.IntN(len(groups)-1)]
	}
	return path, h
}

// A request with selection headers sees no tool that a request without them does not see.
func TestHeadersOnlyNarrow(t *testing.T) {
	for _, mode := range []string{"search", "direct"} {
		gw := sharedNames(t, mode)
		plain := gw.shown()
		if len(plain) != 10 || plain["foreign:get"] || plain["folders:get"] {
			t.Fatalf("%s: tools without headers = %v", mode, plain)
		}
		rng := rand.New(rand.NewPCG(3, 5))
		answered, narrowed := 0, 0
		for range 1500 {
			gw.Path, gw.Header = randomHeader(rng, gw.everyTool())
			got := gw.shown()
			if got != nil {
				answered++
			}
			if len(got) > 0 && len(got) < len(plain) {
				narrowed++
			}
			for id := range got {
				if !plain[id] {
					t.Fatalf("%s: %s %v shows %s", mode, gw.Path, gw.Header, id)
				}
			}
		}
		if answered < 100 || narrowed < 50 {
			t.Errorf("%s: %d requests answered and %d narrowed, want at least 100 and 50", mode, answered, narrowed)
		}
	}
}
