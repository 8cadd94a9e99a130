package gateway_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// toolNames returns the names in a whole list of tools, page by page.
func (u *unlocking) toolNames() (names []string) {
	u.T.Helper()
	for cursor := ""; ; {
		raw, err := u.Open().ListTools(u.T.Context(), cursor)
		require.OK(u.T, err)
		page := require.JSON[struct {
			Tools      []struct{ Name string }
			NextCursor string
		}](u.T, string(raw))
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			return names
		}
	}
}

// In direct mode request_access is the first of the tools, once, if agents may request access.
func TestRequestAccessInDirectMode(t *testing.T) {
	manual := map[string]string{"s": `"approval":"manual"`, "out": `"approval":"manual"`}
	u := unlock(t)
	for gateway, want := range map[string]string{
		`"gateway":{"requests":true,"mode":"direct"}`: "request_access s__pay s__read",
		`"gateway":{"mode":"direct"}`:                 "s__pay s__read",
	} {
		u.Configure(manual, gateway)
		u.States.Refresh(t.Context())
		if got := strings.Join(u.toolNames(), " "); got != want {
			t.Errorf("%s lists %s, want %s", gateway, got, want)
		}
	}
	u.Configure(manual, `"gateway":{"requests":true,"mode":"direct"}`)
	u.States.Refresh(t.Context())
	for _, name := range []string{"s:push", "s__push"} {
		if state, id, _ := u.want(name); state != "open" || id == "" {
			t.Errorf("request_access for %s: %s", name, state)
		}
	}

	// With many tools it is only on the first page.
	var all []string
	want := []string{"request_access"}
	for _, name := range strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z") {
		want = append(want, "s__"+name)
		all = append(all, def(name, strings.Repeat("long ", 24<<10), ""))
	}
	u.Serve("s", all...)
	u.Configure(map[string]string{"s": `"approval":"off"`, "out": `"approval":"manual"`}, `"gateway":{"requests":true,"mode":"direct"}`)
	u.Sync()
	if got := u.toolNames(); !slices.Equal(got, want) {
		t.Errorf("page by page: %q", got)
	}
	first, err := u.Open().ListTools(t.Context(), "")
	if err != nil || !strings.Contains(string(first), "nextCursor") {
		t.Errorf("the first page has no nextCursor, or error %v", err)
	}
}

// If a server has a tool named request_access, the gateway lists and calls that tool instead.
func TestServersOwnRequestAccess(t *testing.T) {
	u := &unlocking{fixture: newFixture(t)}
	u.Serve("s", def("request_access", "The server's own.", ""))
	u.Options.Requests = u.Requests()
	u.Restart()
	u.Configure(map[string]string{"s": `"approval":"off"`}, `"gateway":{"requests":true,"mode":"direct","prefix":false}`)
	u.Sync()
	r := u.Call("request_access", `{}`)
	if names := u.toolNames(); len(names) != 1 || r.IsError || !strings.Contains(r.Text, "request_access did it") {
		t.Errorf("lists %q, calls %s", names, r.Text)
	}
}

// For a tool that is listed with an output schema, clients refuse a result without structured
// content, unless it is an error.
func TestLockOfTypedTool(t *testing.T) {
	u := unlock(t)
	u.Serve("s", def("typed", "Typed.", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`), def("plain", "Plain.", ""))
	for mode, failed := range map[string][2]bool{"search": {false, false}, "direct": {true, false}} {
		u.Configure(map[string]string{"s": `"approval":"off"`}, `"gateway":{"requests":true,"locked":"result","mode":"`+mode+`"}`, `"tools":{"confirm":["s:*"]}`)
		u.Sync()
		for n, name := range []string{"typed", "plain"} {
			tool, args := "s__"+name, `{}`
			if mode == "search" {
				tool, args = "call_tool_destructive", `{"name":"s:`+name+`","args":{}}`
			}
			r := u.Call(tool, args)
			if r.IsError != failed[n] || !strings.Contains(r.Text, "A person must confirm each call") || !json.Valid([]byte(r.Raw)) {
				t.Errorf("%s mode, %s: isError %v: %s", mode, name, r.IsError, r.Text)
			}
		}
	}
}
