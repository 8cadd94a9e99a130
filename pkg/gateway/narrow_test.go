package gateway_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
)

// warehouse is a gateway whose tools are open, denied, waiting, switched off, not offered and out
// of scope, with names that servers share.
func warehouse(t testing.TB, mode string) *yard {
	y := newYard(t)
	for _, name := range []string{"files", "folders", "mail", "off", "foreign"} {
		y.serves(name, def("get", "Get one of them.", readOnly), def("create", "Create one of them.", mildly), def("delete_"+name, "Delete one of them.", ""))
	}
	y.configure(nil)
	y.sync() // so that the tools of what is switched off are known
	y.serves("slow", def("get", "Get one of them.", readOnly)).outcome.Status = "transient"
	y.configure(map[string]string{"mail": `"approval":"manual"`, "off": `"enabled":false`},
		`"toolsets":{"mixed":["files:get","mail:*","foreign:get","slow:get"],"hidden":["foreign:*"]}`,
		`"tools":{"toolsets":["files","mail","off","foreign","slow"],"enabled":["folders:create"],"disabled":["files:delete_files"]}`,
		fmt.Sprintf(`"gateway":{"mode":%q}`, mode))
	y.sync()
	y.agent.Servers = []string{"files", "folders", "mail", "off", "slow"}
	return y
}

// everyTool names all tools there are, whether they are offered or not, and some that are not.
func (y *yard) everyTool() []string {
	var out []string
	y.eachTool(func(id string) { out = append(out, id) })
	slices.Sort(out)
	return append(out, "files:none", "none:get", "foreign:none")
}

// shown returns what one request shows, by every means that its mode has; nil if it is refused.
// The answers must agree with each other.
func (y *yard) shown() map[string]bool {
	y.t.Helper()
	s, err := y.gateway.Open(y.t.Context(), gateway.Caller{Agent: y.agent, Header: y.header, Path: y.path})
	if err != nil {
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 {
			y.t.Errorf("%s %v is refused by %v", y.path, y.header, err)
		}
		return nil
	}
	out := map[string]bool{}
	direct := strings.Contains(s.Instructions(), "calling one says why")
	if direct {
		list, _ := y.page("")
		for _, raw := range list {
			name := strings.Replace(nameOf(y.t.(*testing.T), raw), "__", ":", 1)
			out[name] = true
		}
	} else {
		f := y.search(`{"query":"get create delete one of them","limit":50,"include_disabled":true}`)
		open, locked := f.names()
		for _, name := range open {
			out[name] = true
		}
		for name := range locked {
			out[name] = true
		}
	}
	for _, id := range y.everyTool() {
		name, args := "call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id)
		if direct {
			name, args = strings.Replace(id, ":", "__", 1), `{}`
		}
		raw, err := s.CallTool(y.t.Context(), parse(y.t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)))
		exists := err == nil && !strings.Contains(string(raw), "was not found")
		switch {
		case exists && direct:
			out[id] = true // a locked one is not listed, and says why when it is called
		case exists != out[id]:
			y.t.Errorf("%s %v: %s is found %v and its call answers %s, %v", y.path, y.header, id, out[id], raw, err)
		}
	}
	for _, c := range y.calls() {
		if id := c.Server + ":" + c.Tool; !out[id] {
			y.t.Errorf("%s %v: %s was called, and is not shown", y.path, y.header, id)
		}
	}
	return out
}

// randomHeader makes a request of names that exist, that do not, and that the agent may not know, by
// headers and their aliases, in several lines.
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

// Whatever a request says, it is shown no tool that a request without a word is not shown.
func TestNoHeaderShowsWhatNoHeaderHides(t *testing.T) {
	for _, mode := range []string{"search", "direct"} {
		y := warehouse(t, mode)
		plain := y.shown()
		if len(plain) != 10 || plain["foreign:get"] || plain["folders:get"] {
			t.Fatalf("%s: without headers %v are shown", mode, plain)
		}
		rng := rand.New(rand.NewPCG(3, 5))
		answered, narrowed := 0, 0
		for range 1500 {
			y.path, y.header = randomHeader(rng, y.everyTool())
			got := y.shown()
			if got != nil {
				answered++
			}
			if len(got) > 0 && len(got) < len(plain) {
				narrowed++
			}
			for id := range got {
				if !plain[id] {
					t.Fatalf("%s: %s %v shows %s", mode, y.path, y.header, id)
				}
			}
		}
		if answered < 100 || narrowed < 50 {
			t.Errorf("%s: %d requests were answered and %d narrowed: too few to say anything", mode, answered, narrowed)
		}
	}
}
