package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const directMode = `"gateway":{"mode":"direct"}`

// page reads one page of tools/list.
func (gw *fixture) page(cursor string) (definitions []json.RawMessage, next string) {
	gw.T.Helper()
	raw, err := gw.Open().ListTools(gw.T.Context(), cursor)
	require.OK(gw.T, err)
	l := require.JSON[struct {
		Tools      []json.RawMessage
		NextCursor string
	}](gw.T, raw)
	return l.Tools, l.NextCursor
}

// toolNames returns the names in tools/list, and the number of pages. between runs after the first
// page.
func (gw *fixture) toolNames(between func()) (names []string, pages int) {
	gw.T.Helper()
	for cursor := ""; ; between() {
		list, next := gw.page(cursor)
		for _, raw := range list {
			names = append(names, nameOf(gw.T, raw))
		}
		pages++
		if cursor = next; cursor == "" {
			return names, pages
		}
	}
}

// menuOf returns the names in tools/list.
func (gw *fixture) menuOf() string {
	gw.T.Helper()
	names, _ := gw.toolNames(func() {})
	return strings.Join(names, " ")
}

func nameOf(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	return require.JSON[struct{ Name string }](t, raw).Name
}

func TestListSearchMode(t *testing.T) {
	gw := everyStatus(t)
	list, next := gw.page("")
	if len(list) != 6 || next != "" {
		t.Errorf("%d tools, next %q", len(list), next)
	}
	for _, cursor := range []string{"x", "YWZ0ZXI6YQ"} {
		_, err := gw.Open().ListTools(t.Context(), cursor)
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestListDirect(t *testing.T) {
	const odd = `{ "zeta":9007199254740993, "description":"a <b> \u00e9","name":"odd" ,"inputSchema":{"type":"object", "default":1e2},"annotations":{"x":1}}`
	long := strings.Repeat("l", 80)
	gw := newFixture(t)
	gw.Serve("s", odd, def(long, "Long.", ""), def("locked", "Locked.", ""), def("hinted", "Hinted.", ""))
	gw.Serve("w", def("waits", poison, ""))
	gw.Configure(map[string]string{
		"s": `"disabled_tools":["locked"],"annotations":{"hinted":{"readOnlyHint":true}}`, "w": `"approval":"manual"`,
	}, directMode)
	gw.Sync()
	list, next := gw.page("")
	longName := tool.ID{Server: "s", Name: long}.Direct()
	want := []string{
		`{"name":"s__hinted","description":"Hinted.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
		fmt.Sprintf(`{"name":%q,"description":"Long.","inputSchema":{"type":"object"}}`, longName),
		strings.Replace(odd, `"odd"`, `"s__odd"`, 1),
	}
	var got []string
	for _, raw := range list {
		got = append(got, string(raw))
	}
	if diff := cmp.Diff(want, got); diff != "" || next != "" {
		t.Errorf("next %q\n%s", next, diff)
	}
	if len(longName) != 64 {
		t.Errorf("%q has %d bytes", longName, len(longName))
	}

	const params = `{"name":"s__odd","arguments":{"n":9007199254740993},"later":"r","_meta":{"k":1}}`
	if _, err := gw.Try(params); err != nil {
		t.Fatal(err)
	}
	if _, err := gw.Try(fmt.Sprintf(`{"name":%q}`, longName)); err != nil {
		t.Fatal(err)
	}
	sentNow := gw.Sent()
	if len(sentNow) != 2 || sentNow[0].Tool != "odd" || sentNow[0].Params != `{"arguments":{"n":9007199254740993},"later":"r"}` || sentNow[0].Meta != `{"k":1}` || sentNow[1].Tool != long {
		t.Errorf("sent %+v", sentNow)
	}
	for name, status := range map[string]string{"s__locked": "disabled_by_config", "w__waits": "pending_approval"} {
		r := gw.Call(name, `{}`)
		if !r.IsError || !strings.Contains(r.Text, status) || strings.Contains(r.Text, "retrieve_tools") || r.Meta["dev.portcullis/lock"] == nil {
			t.Errorf("%s: %s", name, r.Raw)
		}
	}
	for _, name := range []string{"odd", "s:odd", "s__none", "retrieve_tools", "call_tool_read", "S__odd"} {
		_, err := gw.Try(fmt.Sprintf(`{"name":%q,"arguments":{}}`, name))
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 || e.Message != fmt.Sprintf("Unknown tool: %q", name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gw.sentNothing()
}

func TestListDirectPages(t *testing.T) {
	const size = 120_000
	var want []string
	gw := newFixture(t)
	s := gw.Serve("s")
	for i := range 24 {
		name := fmt.Sprintf("t%02d", i)
		s.Tools = append(s.Tools, def(name, strings.Repeat("x", size), ""))
		also(s, resource("a:"+name, strings.Repeat("x", size)))
		if i != 22 {
			want = append(want, "s__"+name)
		}
	}
	gw.load(nil, directMode)
	if first, _ := gw.page(""); len(first)*size > 5<<19 {
		t.Errorf("the first page has more than %d bytes", len(first)*size)
	}
	names, pages := gw.toolNames(func() {
		gw.Decide("s:t22", "disable") // a change between pages does not move other tools
		gw.Clock.Wait(3 * time.Second)
	})
	if diff := cmp.Diff(want, names); diff != "" || pages != 2 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
	if uris := gw.list("resources/list", "resources", "uri"); len(uris) != 24 ||
		uris[23] != "a:t23" {
		t.Errorf("resources page by page: %q", uris)
	}
	_, err := gw.Open().ListTools(t.Context(), "bm90IG1pbmU")
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 {
		t.Errorf("a cursor that the gateway did not make: %v", err)
	}
}

func TestListDirectWithoutPrefix(t *testing.T) {
	gw := serving(t, `"disabled_tools":["locked"]`, `"gateway":{"mode":"direct","prefix":false}`, def("act", "Act.", ""), def("locked", "Locked.", ""))
	list, _ := gw.page("")
	if len(list) != 1 || string(list[0]) != gw.ByName["s"].Tools[0] {
		t.Errorf("listed %s, want the definition as its server gave it", list)
	}
	if r := gw.Call("act", `{}`); r.IsError {
		t.Error(r.Text)
	}
	if r := gw.Call("locked", `{}`); !r.IsError || !strings.Contains(r.Text, "disabled_by_config") {
		t.Error(r.Text)
	}
	for _, name := range []string{"s__act", "none", "s:act"} {
		if _, err := gw.Try(fmt.Sprintf(`{"name":%q}`, name)); err == nil {
			t.Errorf("%s exists", name)
		}
	}
	if n := len(gw.Sent()); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}

func TestListTTL(t *testing.T) {
	for mode, want := range map[string]string{"search": `"ttlMs":300000`, "direct": `"ttlMs":30000`} {
		gw := serving(t, "", `"gateway":{"mode":"`+mode+`"}`, def("read", "Read.", ""))
		list, err := gw.Open().ListTools(t.Context(), "")
		if err != nil || strings.Count(string(list), "ttlMs") != 1 || !strings.Contains(string(list), want) {
			t.Errorf("%s: %s, %v; want %s", mode, list, err, want)
		}
	}
}

func TestDeclaresOutput(t *testing.T) {
	for mode, want := range map[string]bool{"search": false, "direct": true} {
		gw := serving(t, "", `"gateway":{"mode":"`+mode+`"}`, def("typed", "Typed.", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`), def("plain", "Plain.", ""))
		s := gw.Open()
		for name, declared := range map[string]bool{"s__typed": want, "s__plain": false, "s__none": false, "call_tool_read": false} {
			if got := s.DeclaresOutput(name); got != declared {
				t.Errorf("%s mode: DeclaresOutput(%s) = %v", mode, name, got)
			}
		}
	}
}
