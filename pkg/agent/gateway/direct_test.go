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

func nameOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	d := require.JSON[struct{ Name string }](t, raw)
	return d.Name
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

func TestListDirectScope(t *testing.T) {
	gw := everyStatus(t)
	gw.Configure(nil, directMode)
	gw.Clock.Wait(30e9)
	gw.Agent.Servers, gw.Agent.Tiers = []string{"docs"}, []tool.Tier{tool.Read}
	list, _ := gw.page("")
	if len(list) != 3 {
		t.Errorf("%d tools in a scope of one server", len(list))
	}
	for name, status := range map[string]int{"docs__delete_document": 403, "user__share_document": 0, "docs__none": 0} {
		_, err := gw.Try(fmt.Sprintf(`{"name":%q}`, name))
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Status != status {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := gw.Call("docs__read_document", `{}`); r.IsError {
		t.Error(r.Text)
	}
}

func TestListDirectPages(t *testing.T) {
	var all []string
	for i := range 120 {
		all = append(all, def(fmt.Sprintf("t%03d", i), strings.Repeat("x", 100_000), ""))
	}
	gw := serving(t, "", directMode, all...)
	var names []string
	cursor, pages := "", 0
	for {
		list, next := gw.page(cursor)
		pages++
		size := 0
		for _, raw := range list {
			names = append(names, nameOf(t, raw))
			size += len(raw)
		}
		if size > 3<<20 || len(list) == 0 {
			t.Fatalf("page %d has %d tools of %d bytes", pages, len(list), size)
		}
		if next == "" {
			break
		}
		if cursor = next; pages == 1 {
			gw.Decide("s:t060", "disable") // a change between pages does not move other tools
			gw.Clock.Wait(3 * time.Second)
		}
	}
	if len(names) != 119 || pages < 4 {
		t.Errorf("got %d tools on %d pages, want 119 on at least 4", len(names), pages)
	}
	for i, name := range names[1:] {
		if name <= names[i] {
			t.Errorf("%s comes after %s", name, names[i])
		}
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

// A name with underscores is found by its listed name.
func TestListDirectUnderscores(t *testing.T) {
	gw := newFixture(t)
	gw.Serve("a_b", def("c__d", "C.", ""), def("_e", "E.", ""), def("f_", "F.", ""))
	gw.Serve("x-", def("_y_", "Y.", ""))
	gw.Configure(nil, directMode)
	gw.Sync()
	list, _ := gw.page("")
	if len(list) != 4 {
		t.Fatalf("%d tools", len(list))
	}
	for _, raw := range list {
		if r := gw.Call(nameOf(t, raw), `{}`); r.IsError {
			t.Errorf("%s: %s", raw, r.Text)
		}
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
