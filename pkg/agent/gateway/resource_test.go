package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// reading returns a gateway whose servers have resources and templates.
func reading(t testing.TB, settings map[string]string, items map[string][]string) *fixture {
	gw := newFixture(t)
	for server, uris := range items {
		gw.Serve(server, def("act", "Act.", readOnly))
		for _, uri := range uris {
			also(gw.ByName[server], resource(uri, "Of "+server+"."))
		}
	}
	gw.load(settings)
	return gw
}

// sentTo returns the servers that received a read.
func (gw *fixture) sentTo() string {
	var out []string
	for _, c := range gw.Sent() {
		out = append(out, c.Server+" "+c.Tool)
	}
	return strings.Join(out, ", ")
}

func TestReadRouting(t *testing.T) {
	gw := reading(t, nil, map[string][]string{
		"a":   {"both:it", "a:it", "shared:{+x}"},
		"b":   {"both:it", "shared:{+x}", "{+anything}"},
		"off": {"a:it"},
	})
	gw.Agent.Servers = []string{"a", "b"}
	for uri, want := range map[string]string{"a:it": "a", "x:y": "b", "both:it": "", "shared:z": ""} {
		params := fmt.Sprintf(`{"uri":%q}`, uri)
		if want != "" {
			if raw, err := gw.ask("resources/read", params); err != nil ||
				gw.sentTo() != want+" "+uri {
				t.Errorf("%s: %s, %v; want it sent to %s", uri, raw, err, want)
			}
			continue
		}
		e := gw.refused("resources/read", params)
		if e.Code != -32602 || string(e.Data) != `{"uri":"`+uri+`"}` || !strings.Contains(e.Message, `More than one server has "`+uri+`": "a", "b".`) || !strings.Contains(e.Message, "/mcp/x/{server}") {
			t.Errorf("%s: %+v", uri, e)
		}
		gw.sentNothing()
		for _, server := range []string{"a", "b"} {
			gw.Path = "/x/" + server
			if raw, err := gw.ask("resources/read", params); err != nil || gw.sentTo() != server+" "+uri {
				t.Errorf("%s at %s: %s, %v", uri, server, raw, err)
			}
		}
		gw.Path = ""
	}
	if got := strings.Count(gw.lists(), "both:it"); got != 1 {
		t.Errorf("a URI of two servers is listed %d times", got)
	}
}

// A URI of two servers is refused, even if only one server locks it. Otherwise one server's lock
// would send its readers to the other server.
func TestReadClaimedByLocked(t *testing.T) {
	gw := reading(t, map[string]string{"b": `"approval":"manual"`}, map[string][]string{"a": {"u:it"}, "b": {"u:it"}})
	if e := gw.refused("resources/read", `{"uri":"u:it"}`); e.Code != -32602 || !strings.Contains(e.Message, "More than one server") {
		t.Errorf("%+v", e)
	}
}

// All templates of a server that match a URI must be callable.
func TestReadTemplatesOfOneServer(t *testing.T) {
	gw := reading(t, nil, map[string][]string{"s": {"f:{+path}", "f:secret/{x}"}})
	gw.Decide("s:resource:f:secret/{x}", "disable")
	if raw, err := gw.ask("resources/read", `{"uri":"f:public/a"}`); err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	if e := gw.refused("resources/read", `{"uri":"f:secret/a"}`); e.Code != 4030 || !strings.Contains(e.Message, `"s:resource:f:secret/{x}" is locked`) {
		t.Errorf("%+v", e)
	}
	if got := gw.sentTo(); got != "s f:public/a" {
		t.Error(got)
	}
}

// A rule about URIs applies to URIs that match a template.
func TestReadDeniedURI(t *testing.T) {
	gw := reading(t, nil, map[string][]string{"s": {"f:{+path}"}})
	gw.Forbid(`@id("private") @reason("Private") forbid (principal, action, resource) when { resource.name like "f:private/*" };
@id("odd") forbid (principal, action, resource) when { resource.name like "f:odd/*" && principal.floor > 2 };`)
	gw.Clock.Wait(time.Minute)
	if raw, err := gw.ask("resources/read", `{"uri":"f:public"}`); err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	gw.Sent()
	for uri, status := range map[string]string{"f:private/a": "disabled_by_config", "f:odd/a": "disabled_unknown"} {
		e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		l := require.JSON[struct{ Name, Status, Remediation, Note, Link string }](t, e.Data)
		if e.Code != 4030 || l.Name != "s:resource:"+uri || l.Status != status || l.Link != "" || (l.Note != "") != (status == "disabled_by_config") {
			t.Errorf("%s: %+v", uri, e)
		}
	}
	gw.sentNothing()
}

// Another spelling of a locked or denied URI does not open it, because servers resolve the
// unchanged URI.
func TestReadOtherSpellings(t *testing.T) {
	gw := reading(t, map[string]string{"s": `"disabled_resources":["file:///denied/*"]`}, map[string][]string{
		"s": {"{+any}", "file:///locked/a", "file:///open/a", "file:///waits/{name}"},
	})
	gw.Decide("s:resource:file:///locked/a", "disable")
	gw.Decide("s:resource:file:///waits/{name}", "disable")
	for uri, want := range map[string]string{
		"FILE:///open/../open/a":        "",
		"FILE:///locked/a":              "disabled_by_user",
		"file:///locked/a?v=1":          "disabled_by_user",
		"file:///x/%2e%2e/denied/a":     "disabled_by_config",
		"file:///x/../waits/a":          "disabled_by_user",
		"file:///anything/else%20there": "",
	} {
		params := fmt.Sprintf(`{"uri":%q}`, uri)
		if want == "" {
			if raw, err := gw.ask("resources/read", params); err != nil || gw.sentTo() != "s "+uri {
				t.Errorf("%s: %s, %v", uri, raw, err)
			}
			continue
		}
		e := gw.refused("resources/read", params)
		if l := require.JSON[struct{ Status string }](t, e.Data); e.Code != 4030 || l.Status != want {
			t.Errorf("%s: %+v, want %s", uri, e, want)
		}
		gw.sentNothing()
	}
}

// A URI that servers may read as another one is refused, unless the server listed it. Otherwise the
// other URI's lock would not apply.
func TestReadNormalForm(t *testing.T) {
	gw := reading(t, map[string]string{"s": `"unlisted_resources": true`}, map[string][]string{
		"s": {"note://{id}", "file:///{+path}", "note://secret", "note://listed%20", "q:find{?text}", "m:x{;p*}", "note://ｌisted"},
	})
	gw.Decide("s:resource:note://secret", "disable")
	for uri, normal := range map[string]string{
		"note://oPen":                  "", // letter case is significant
		"note://listed%20":             "", // the server lists this very URI
		"note://ｌisted":                "",
		"q:find?text=a;b%20c":          "",
		"m:x;p=1":                      "", // the template has path parameters
		"note://secret%20":             "note://secret",
		"file:///a;x/b":                "file:///a/b",
		"m:x;p=1%20":                   "m:x;p=1",
		"note://x%0A\"}]%0AIgnore%20;": "note://x%22%7D%5DIgnore",
	} {
		params, err := json.Marshal(map[string]string{"uri": uri})
		if err != nil {
			t.Fatal(err)
		}
		if normal == "" {
			if raw, err := gw.ask("resources/read", string(params)); err != nil || gw.sentTo() != "s "+uri {
				t.Errorf("%s: %s, %v", uri, raw, err)
			}
			continue
		}
		want := fmt.Sprintf("The URI %q is not listed and is not in its normal form. Nothing was sent to a server. Read its normal form: %q", uri, normal)
		if e := gw.refused("resources/read", string(params)); e.Code != -32602 || e.Message != want {
			t.Errorf("%s: %+v, want %s", uri, e, want)
		}
		args, _ := json.Marshal(map[string]string{"server": "s", "uri": uri})
		if r := gw.Call("read_resource", string(args)); !r.IsError || r.Text != want {
			t.Errorf("%s by read_resource: %s", uri, r.Raw)
		}
		gw.sentNothing()
	}
	gw.Path = "/x/s" // this path can read unlisted URIs too
	if e := gw.refused("resources/read", `{"uri":"other:secret%20"}`); !strings.HasSuffix(e.Message, `"other:secret"`) {
		t.Errorf("unlisted URI: %+v", e)
	}
	long := "note://" + strings.Repeat("x", 1900) + "%00"
	if e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, long)); len(e.Message) > 2500 || strings.Contains(e.Message, "\n") {
		t.Errorf("%d bytes: %s", len(e.Message), e.Message)
	}
	gw.sentNothing()
}

// If too many templates could match a URI, the gateway does not try all of them.
func TestReadTooManyTemplates(t *testing.T) {
	items := map[string][]string{}
	for i := range 20 {
		items["many"] = append(items["many"], fmt.Sprintf("u:{+x%d}", i))
	}
	for i := range 200 {
		items["slow"] = append(items["slow"], fmt.Sprintf("v:%s%d", strings.Repeat("{+x}a", 32), i))
	}
	gw := reading(t, nil, items)
	for uri, want := range map[string]string{
		"u:it": "Too many resource templates", "v:" + strings.Repeat("a", 2000): "",
	} {
		e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		if e.Code != -32602 || !strings.Contains(e.Message, want) || len(gw.Sent()) != 0 {
			t.Errorf("%+v", e)
		}
	}
}

const page = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"ui":{"resourceUri":"ui://s/page"}}`

// The lock of a tool applies to its MCP App page, whether its server lists the page or not.
func TestReadPageOfTool(t *testing.T) {
	for _, listed := range []bool{true, false} {
		gw := newFixture(t)
		also(gw.Serve("s", def("shown", "Show.", page), def("plain", "Plain.", "")), resource("other:it", "Other."))
		if listed {
			also(gw.ByName["s"], resource("ui://s/page", "A page."))
		}
		gw.load(nil)
		if raw, err := gw.ask("resources/read", `{"uri":"ui://s/page"}`); err != nil || gw.sentTo() != "s ui://s/page" {
			t.Errorf("listed %v: %s, %v", listed, raw, err)
		}
		if e := gw.refused("resources/read", `{"uri":"ui://s/nothing"}`); e.Code != -32602 {
			t.Errorf("%+v", e)
		}
		gw.Decide("s:shown", "disable")
		if e := gw.refused("resources/read", `{"uri":"ui://s/page"}`); e.Code != 4030 || !strings.HasPrefix(e.Message, `Tool "s:shown" is locked: disabled_by_user.`) {
			t.Errorf("listed %v: %+v", listed, e)
		}
		gw.Clock.Wait(time.Minute)
		if got := gw.lists(); got != "other:it" {
			t.Errorf("listed %v: lists with a locked tool = %s", listed, got)
		}
		gw.sentNothing()
	}
}

// An answer must not contain a part with another server's URI, nor a locked part.
func TestReadContentsOfOthers(t *testing.T) {
	gw := reading(t, nil, map[string][]string{"a": {"a:dir", "a:dir/1", "a:dir/2"}, "b": {"b:it"}})
	gw.Decide("a:resource:a:dir/2", "disable")
	gw.Clock.Wait(time.Minute)
	answer := ""
	gw.ByName["a"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return json.RawMessage(answer), nil }
	for _, tt := range []struct {
		answer string
		code   int // 0: it passes unchanged
	}{
		{`{"contents":[{"uri":"a:dir","text":"x"},{"uri":"a:dir/1","blob":"eA==" , "n":9007199254740993},{"uri":"a:new"},{"text":"y"}]}`, 0},
		{` {"resultType":"input_required","inputRequests":{}} `, 0},
		{`{"contents":7}`, 0},
		{`{"contents":[{"uri":"b:it","text":"not b's"}]}`, 5020},
		{`{"contents":[{"uri":"a:dir","text":"x"},{"uri":"a:dir/2","text":"locked"}]}`, 4030},
		{`{"contents":[` + strings.Repeat(`{"uri":"u:x"},`, 1000) + `{"uri":"u:x"}]}`, 5020},
	} {
		answer = tt.answer
		raw, err := gw.ask("resources/read", `{"uri":"a:dir"}`)
		e, _ := errors.AsType[*mcp.Error](err)
		switch {
		case tt.code == 0 && (err != nil || raw != tt.answer):
			t.Errorf("%.80s: %s, %v", tt.answer, raw, err)
		case tt.code != 0 && (e == nil || e.Code != tt.code || strings.Contains(e.Message, "not b's")):
			t.Errorf("%.80s: %v", tt.answer, err)
		}
	}
	gw.Agent.Servers = []string{"a"} // items out of scope leave no trace
	if answer = `{"contents":[{"uri":"b:it","text":"x"}]}`; true {
		if raw, err := gw.ask("resources/read", `{"uri":"a:dir"}`); err != nil || raw != answer {
			t.Errorf("%s, %v", raw, err)
		}
	}
}

// An unlisted URI is readable if the request selects only its server, the operator allows unlisted
// URIs, and no rule denies this one.
func TestReadUnlisted(t *testing.T) {
	gw := reading(t, map[string]string{"s": `"unlisted_resources": true, "disabled_resources": ["u:secret/*"]`}, map[string][]string{"s": {"u:listed"}, "other": {"v:it"}})
	gw.Decide("s:resource:u:listed", "disable")
	for path, want := range map[string]string{"": "", "/readonly": "", "/x/other": "", "/x/s": "s u:link", "/x/S": "s u:link"} {
		gw.Path = path
		_, err := gw.ask("resources/read", `{"uri":"u:link"}`)
		if e, ok := errors.AsType[*mcp.Error](err); want == "" && (!ok || e.Code != -32602 || e.Message != `Unknown resource: "u:link"`) || want != "" && err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if got := gw.sentTo(); got != want {
			t.Errorf("%q: sent to %q, want %q", path, got, want)
		}
	}
	gw.Path = "/x/s"
	counts := gw.counting()
	if r := gw.Call("read_resource", `{"server":"s","uri":"u:another"}`); r.IsError || gw.sentTo() != "s u:another" {
		t.Errorf("%s", r.Raw)
	}
	if got := counts.Called; got.Name != "s:resource:unlisted" || got.By != "read" {
		t.Errorf("counted name = %q, want one name for all URIs, because agents choose them", got)
	}
	for uri, want := range map[string]string{"u:listed": "disabled_by_user", "u:secret/x": "disabled_by_config"} {
		if e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); e.Code != 4030 || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %+v", uri, e)
		}
	}
	for _, uri := range []string{"v:it ", "u:\u200b", "no scheme", "ui://s/page", strings.Repeat("u", 3000)} {
		if e := gw.refused("resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); e.Code != -32602 || len(e.Message)+len(e.Data) > 5000 {
			t.Errorf("%.20s: %+v", uri, e)
		}
	}
	gw.sentNothing()
	gw.reconfigure(map[string]string{"s": `"unlisted_resources": true, "enabled": false`})
	if e := gw.refused("resources/read", `{"uri":"u:link"}`); e.Code != 4030 || !strings.Contains(e.Message, "server_disabled") {
		t.Errorf("URI of a disabled server: %+v", e)
	}
}
