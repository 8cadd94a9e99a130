package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// raws are definitions of a server.
func raws(list ...string) []json.RawMessage {
	out := []json.RawMessage{}
	for _, raw := range list {
		out = append(out, json.RawMessage(raw))
	}
	return out
}

// withItems returns the options of a server with items in each list.
func withItems(o upstreamtest.Options) upstreamtest.Options {
	o.Tools = tools(1)
	o.Prompts = raws(`{"name":"review","arguments":[ {"name":"code"} ]}`, `{"name":"plan"}`, `{"name":"tool0"}`)
	o.Resources = raws(`{"uri":"note://1","name":"one","x":9007199254740993}`, `{"uri":"note://2","name":"two"}`)
	o.Templates = raws(`{"uriTemplate":"note://{id}","name":"any"}`)
	return o
}

var allItems = []string{"prompt:review", "prompt:plan", "prompt:tool0", "resource:note://1", "resource:note://2", "resource:note://{id}"}

// keys returns the keys of an outcome's items.
func keys(items []tool.Definition) []string {
	out := []string{}
	for _, d := range items {
		out = append(out, strings.TrimPrefix(d.ID("").String(), ":"))
	}
	return out
}

// lists returns the lists that could not be read, and why.
func lists(unread []outcome.Unread) []string {
	out := []string{}
	for _, u := range unread {
		out = append(out, u.List+" "+u.Reason)
	}
	return out
}

// refusals returns the definitions that a load refused, and why.
func refusals(out outcome.Outcome) (list []string) {
	for _, r := range out.Refused {
		list = append(list, fmt.Sprintf("%v %s %s", r.Kind, r.Name, r.Reason))
	}
	return list
}

func TestLoadItems(t *testing.T) {
	for name, o := range map[string]upstreamtest.Options{
		"stateless":               {Protocols: upstreamtest.Modern},
		"handshake":               {Protocols: upstreamtest.Legacy},
		"sessions, event streams": {Protocols: upstreamtest.Legacy, Sessions: true, SSE: true},
		"pages":                   {PageSize: 1},
	} {
		t.Run(name, func(t *testing.T) {
			out := newFixture(t, Options{}, withItems(o)).available()
			if diff := cmp.Diff(allItems, keys(out.Items)); diff != "" || len(out.Tools) != 1 || out.Unread != nil || out.Refused != nil {
				t.Errorf("items (-want +got):\n%s and %d tools, unread %v, refused %v", diff, len(out.Tools), out.Unread, out.Refused)
			}
			if raw := string(out.Items[3].Raw); raw != `{"uri":"note://1","name":"one","x":9007199254740993}` {
				t.Errorf("the definition is %s", raw)
			}
			for _, d := range append(out.Items, out.Tools...) {
				if !out.Read(d) {
					t.Errorf("the list of %s counts as unread", d.ID(""))
				}
			}
		})
	}
}

// If a server declares no prompts and resources, a load lists only its tools. If a server declares
// no tools, a load lists the other kinds.
func TestLoadAsksForWhatIsDeclared(t *testing.T) {
	for name, tt := range map[string]struct {
		o    upstreamtest.Options
		want []string
	}{
		"tools alone":     {upstreamtest.Options{Tools: tools(1)}, []string{"tools/list"}},
		"prompts too":     {upstreamtest.Options{Prompts: raws()}, []string{"tools/list", "prompts/list"}},
		"no tools":        {upstreamtest.Options{NoTools: true, Prompts: raws(`{"name":"a"}`)}, []string{"tools/list", "prompts/list"}},
		"resources":       {upstreamtest.Options{Resources: raws()}, []string{"tools/list", "resources/list", "resources/templates/list"}},
		"templates alone": {upstreamtest.Options{Templates: raws()}, []string{"tools/list", "resources/list", "resources/templates/list"}},
	} {
		for _, protocol := range []upstreamtest.Protocols{upstreamtest.Modern, upstreamtest.Legacy} {
			tt.o.Protocols = protocol
			f := newFixture(t, Options{}, tt.o)
			for range 2 {
				out := f.available()
				if out.Unread != nil {
					t.Errorf("%s: unread %v", name, out.Unread)
				}
			}
			var got []string
			for _, r := range f.servers[0].Requests() {
				if strings.HasSuffix(r.Method, "/list") {
					got = append(got, r.Method)
				}
			}
			if diff := cmp.Diff(slices.Repeat(tt.want, 2), got); diff != "" {
				t.Errorf("%s: lists requested by two loads (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A failing list does not make other lists fail.
func TestLoadUnreadLists(t *testing.T) {
	loop := `{"prompts":[],"nextCursor":"again"}`
	var many []json.RawMessage
	for i := range maxListed + 1 {
		many = append(many, json.RawMessage(fmt.Sprintf(`{"name":"p%d"}`, i)))
	}
	for name, tt := range map[string]struct {
		change func(o *upstreamtest.Options)
		method string
		fault  upstreamtest.Fault
		want   []string
		items  []string
	}{
		"prompts: 503":      {nil, "prompts/list", upstreamtest.Status(503, ""), []string{"prompts http_5xx"}, allItems[3:]},
		"prompts: hang":     {nil, "prompts/list", upstreamtest.Hang(), []string{"prompts timeout"}, allItems[3:]},
		"prompts: 403":      {nil, "prompts/list", upstreamtest.Status(403, ""), []string{"prompts forbidden"}, allItems[3:]},
		"prompts: an error": {nil, "prompts/list", upstreamtest.RPC(-32603, "no"), []string{"prompts upstream_error"}, allItems[3:]},
		"prompts: a loop":   {nil, "prompts/list", upstreamtest.Result(loop), []string{"prompts protocol"}, allItems[3:]},
		"prompts: no list":  {nil, "prompts/list", upstreamtest.Result(`{"prompts":{}}`), []string{"prompts protocol"}, allItems[3:]},
		"prompts: unknown":  {nil, "prompts/list", upstreamtest.RPC(-32601, "no"), []string{}, allItems[3:]},
		"prompts: too many": {func(o *upstreamtest.Options) { o.Prompts = many }, "", nil, []string{"prompts protocol"}, allItems[3:]},
		"resources":         {nil, "resources/list", upstreamtest.Status(500, ""), []string{"resources http_5xx"}, []string{allItems[0], allItems[1], allItems[2], allItems[5]}},
		"templates":         {nil, "resources/templates/list", upstreamtest.Status(500, ""), []string{"templates http_5xx"}, allItems[:5]},
		"no templates":      {func(o *upstreamtest.Options) { o.Templates = nil }, "", nil, []string{}, allItems[:5]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := withItems(upstreamtest.Options{})
				if tt.change != nil {
					tt.change(&o)
				}
				f := newFixture(t, Options{}, o)
				if tt.fault != nil {
					f.servers[0].FailOn(tt.method, -1, tt.fault)
				}
				out := f.available()
				if diff := cmp.Diff(tt.want, lists(out.Unread)); diff != "" {
					t.Errorf("unread lists (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.items, keys(out.Items)); diff != "" || len(out.Tools) != 1 {
					t.Errorf("items (-want +got):\n%s and %d tools", diff, len(out.Tools))
				}
				for _, u := range out.Unread {
					if u.Error == "" {
						t.Errorf("no error of %s", u.List)
					}
				}
				if out.Attempts != 1 {
					t.Errorf("%d attempts", out.Attempts)
				}
			})
		})
	}
}

func TestLoadBadItems(t *testing.T) {
	o := withItems(upstreamtest.Options{})
	o.Prompts = append(o.Prompts, raws(`{"name":"review"}`, `{"name":"two words"}`)...)
	o.Resources = append(o.Resources, raws(`{"uri":"note://1","name":"again"}`, `{"uri":"a\nb","name":"n"}`, `{"uriTemplate":"x://{y}","name":"n"}`)...)
	o.Templates = append(o.Templates, raws(`{"uriTemplate":"note://2","name":"n"}`, `{"uri":"x://z","name":"n"}`)...)
	out := newFixture(t, Options{}, o).available()
	if diff := cmp.Diff(allItems, keys(out.Items)); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	want := []string{
		`prompt "review" the server lists another prompt of that name before it`,
		`prompt "two words" definition: prompt name "two words" holds a character other than A-Z, a-z, 0-9 and _.-`,
		`resource "note://1" the server lists another resource or template of that URI before it`,
		`resource "a\nb" definition: URI "a\nb" has white space or a character that does not show`,
		`resource "" a template is listed among the resources`,
		`resource "note://2" the server lists another resource or template of that URI before it`,
		`resource "" a resource is listed among the templates`,
	}
	if diff := cmp.Diff(want, refusals(out)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// A load requests the capabilities of a server without sessions again after an hour, not earlier.
func TestLoadAsksAgainWhatIsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{Protocols: upstreamtest.Modern, Prompts: raws()})
		for _, wait := range []time.Duration{0, maxDeclared - 1, 1} {
			time.Sleep(wait)
			f.available()
		}
		if n := len(f.servers[0].Received("server/discover")); n != 2 {
			t.Errorf("%d requests of the server's capabilities, want 2", n)
		}
	})
}

// A load refuses a definition that is nested too deeply, by name, and keeps it. No other definition
// may have its name.
func TestLoadNested(t *testing.T) {
	deep := func(head string, levels int) json.RawMessage {
		return json.RawMessage(`{` + head + `,"x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
	}
	o := withItems(upstreamtest.Options{})
	o.Tools = []json.RawMessage{
		deep(`"name":"edge"`, tool.MaxDepth), deep(`"name":"deep"`, tool.MaxDepth+1), json.RawMessage(`{"name":"deep"}`),
		deep(`"name":"edge"`, 9_400), deep(`"name":"deepest"`, 9_400),
	}
	o.Prompts = append(o.Prompts, deep(`"name":"deep"`, 201))
	o.Resources = append(o.Resources, deep(`"uri":"note://deep","name":"n"`, 201))
	o.Templates = append(o.Templates, deep(`"uriTemplate":"deep://{x}","name":"n"`, 201))
	out := newFixture(t, Options{}, o).available()
	if diff := cmp.Diff([]string{"edge"}, keys(out.Tools)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(allItems, keys(out.Items)); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"deep", "deepest", "prompt:deep", "resource:note://deep", "resource:deep://{x}"}, keys(out.Nested)); diff != "" {
		t.Errorf("nested (-want +got):\n%s", diff)
	}
	const another, levels = "the server lists another tool of that name before it", "nested too deeply: it has %d levels, at most 200 are allowed"
	want := []string{
		`tool "deep" ` + fmt.Sprintf(levels, 201), `tool "deep" ` + another, `tool "edge" ` + another, `tool "deepest" ` + fmt.Sprintf(levels, 9_400),
		`prompt "deep" ` + fmt.Sprintf(levels, 201), `resource "note://deep" ` + fmt.Sprintf(levels, 201), `resource "deep://{x}" ` + fmt.Sprintf(levels, 201),
	}
	if diff := cmp.Diff(want, refusals(out)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}
