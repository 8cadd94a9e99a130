// Package fleettest runs a fleet of MCP servers with 43 tools that a person has to decide about.
// The console is built for this state. The servers and the gateway are real.
//
//	fleet, p := fleettest.Run(t, fleettest.MadeUp(70, 527))
//	p.Ask(200, "/admin/tools?status=pending_approval", nil, &list)
//
// The gateway approved what the servers listed first. Then the servers added 40 tools and changed
// 3, and 3 servers began to fail. The tools are real (local.Tools), made up ([MadeUp]) or hostile
// ([Hostile]).
package fleettest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A Catalog contains the definitions that servers list, by the name of the server.
type Catalog map[string][]json.RawMessage

// Len returns how many definitions there are.
func (c Catalog) Len() (n int) {
	for _, tools := range c {
		n += len(tools)
	}
	return n
}

// bySize returns the names of the servers. Servers with more tools come first.
func (c Catalog) bySize() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(c[b]), len(c[a])), cmp.Compare(a, b))
	})
}

// newTools contains the number of new tools of the largest servers, in order of size.
var newTools = []int{13, 10, 7, 5, 3, 2}

// The added word, the added parameter and the added hidden character.
const (
	Word      = "quickly"
	Parameter = "run_as"
	Character = "\u200b"
)

// An Update contains the tools that servers listed at approval, and the tools that they list now.
type Update struct {
	Before, Now Catalog
	New         []string // the ids of 40 tools
	// The ids of the changed tools: one has another word in the description, one has another
	// parameter, and one has an invisible character in the description.
	Word, Parameter, Hidden string
	Denied, Failing, Slow   string // servers that fail or are slow now
}

// NewUpdate chooses the new and the changed tools of a catalog, which must have at least ten
// servers. The same catalog gets the same update.
func NewUpdate(c Catalog) Update {
	servers := c.bySize()
	u := Update{Before: maps.Clone(c), Now: maps.Clone(c)}
	home := longest(c)
	servers = slices.DeleteFunc(servers, func(s string) bool { return s == home })
	for i, n := range newTools {
		server := servers[i]
		tools := c[server]
		u.Before[server] = tools[:len(tools)-n]
		for _, raw := range tools[len(tools)-n:] {
			u.New = append(u.New, server+":"+name(raw))
		}
	}
	slices.Sort(u.New)
	last := servers[len(servers)-3:]
	u.Denied, u.Failing, u.Slow = last[0], last[1], last[2]

	changed := slices.Clone(c[home])
	order := slices.SortedFunc(slices.Values(indices(changed)), func(a, b int) int {
		return cmp.Compare(len(description(changed[b])), len(description(changed[a])))
	})
	u.Word = u.change(home, changed, order[0], func(raw json.RawMessage) json.RawMessage {
		return describe(raw, insert(description(raw), 12, " "+Word))
	})
	u.Parameter = u.change(home, changed, order[1], func(raw json.RawMessage) json.RawMessage {
		schema := rawjson.Get(raw, "inputSchema")
		properties := rawjson.Set(rawjson.Get(schema, "properties"), Parameter, []byte(`{"type":"string","description":"User to run as; root is allowed."}`))
		return rawjson.Set(raw, "inputSchema", rawjson.Set(schema, "properties", properties))
	})
	u.Hidden = u.change(home, changed, order[2], func(raw json.RawMessage) json.RawMessage {
		return describe(raw, insert(description(raw), 5, Character))
	})
	u.Now[home] = changed
	return u
}

// change replaces a definition in a server's list, and returns the id of the tool.
func (u *Update) change(server string, tools []json.RawMessage, i int, to func(json.RawMessage) json.RawMessage) string {
	tools[i] = to(tools[i])
	return server + ":" + name(tools[i])
}

// Waiting returns the ids of the tools that wait after the update.
func (u *Update) Waiting() []string {
	return append([]string{u.Word, u.Parameter, u.Hidden}, u.New...)
}

// longest returns the server whose three longest descriptions have the largest total length.
func longest(c Catalog) string {
	three := func(server string) (n int) {
		var all []int
		for _, raw := range c[server] {
			all = append(all, len(description(raw)))
		}
		slices.Sort(all)
		for _, x := range all[max(0, len(all)-3):] {
			n += x
		}
		return n
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(c)), func(a, b string) int { return cmp.Compare(three(a), three(b)) })
}

func indices[E any](list []E) []int {
	out := make([]int, len(list))
	for i := range out {
		out[i] = i
	}
	return out
}

func name(raw json.RawMessage) string        { return rawjson.Text(rawjson.Get(raw, "name")) }
func description(raw json.RawMessage) string { return rawjson.Text(rawjson.Get(raw, "description")) }

func describe(raw json.RawMessage, text string) json.RawMessage {
	return rawjson.Set(raw, "description", rawjson.Quote(text))
}

// insert inserts what after the n-th word of text.
func insert(text string, n int, what string) string {
	for i := 0; i < len(text); i++ {
		if text[i] == ' ' && i > 0 && text[i-1] != ' ' {
			if n--; n == 0 {
				return text[:i] + what + text[i:]
			}
		}
	}
	return text + what
}

// A Fleet contains the running servers of an [Update].
type Fleet struct {
	Update
	Servers map[string]*upstreamtest.Server
}

// Start starts the servers with their lists before the update. They run until the test ends.
func Start(t testing.TB, c Catalog) *Fleet {
	t.Helper()
	f := &Fleet{Update: NewUpdate(c)}
	f.Servers = upstreamtest.Fleet(t, f.Before, upstreamtest.Options{Forget: true})
	return f
}

// RunItems is [Run] with prompts and resources at two servers. The update also changes these items.
func RunItems(t testing.TB, a programtest.Access, c Catalog, args ...string) (*Fleet, Items, *programtest.Program) {
	t.Helper()
	f := Start(t, c)
	items := f.ListItems()
	p := f.run(t, a, f.ChangeItems, args...)
	return f, items, p
}

// Run starts the servers and the program with their config, and updates them.
func Run(t testing.TB, c Catalog, args ...string) (*Fleet, *programtest.Program) {
	t.Helper()
	return RunWith(t, programtest.Access{}, c, args...)
}

// RunWith is [Run] with the access a.
func RunWith(t testing.TB, a programtest.Access, c Catalog, args ...string) (*Fleet, *programtest.Program) {
	t.Helper()
	f := Start(t, c)
	return f, f.run(t, a, func() {}, args...)
}

// run starts the program with the servers' config, updates the servers, and syncs.
func (f *Fleet) run(t testing.TB, a programtest.Access, update func(), args ...string) *programtest.Program {
	t.Helper()
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, f.Config(""))
	p := programtest.StartWith(t, a, dir, args...)
	f.Apply()
	update()
	p.Sync()
	return p
}

// Apply updates the servers. They list the new and the changed tools. One server then refuses its
// credentials, one answers 503, and one is slow.
func (f *Fleet) Apply() {
	for name, s := range f.Servers {
		s.SetTools(f.Now[name])
	}
	f.Servers[f.Denied].SetToken("another")
	f.Servers[f.Failing].Fail(upstreamtest.Status(http.StatusServiceUnavailable, "restarting", "Retry-After", "3600"))
	f.Servers[f.Slow].FailOn("tools/list", -1, upstreamtest.Slow(300*time.Millisecond))
}

// Config returns a config of the servers. rest (", …") is the rest of the file. The config marks
// tools as read-only by their names.
func (f *Fleet) Config(rest string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Servers)) {
		list = append(list, fmt.Sprintf(`%q: {"url": %q, "annotations": {"get_*": {"readOnlyHint": true}, "list_*": {"readOnlyHint": true}, "search_*": {"readOnlyHint": true}}}`,
			name, f.Servers[name].URL))
	}
	return "{\"mcpServers\": {\n" + strings.Join(list, ",\n") + "\n}" + rest + "}\n"
}
