package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// In direct mode request_access is the first of the tools, once, if agents may request access.
func TestRequestAccessInDirectMode(t *testing.T) {
	manual := map[string]string{"s": `"approval":"manual"`, "out": `"approval":"manual"`}
	u := unlock(t)
	for gateway, want := range map[string]string{
		`"gateway":{"requests":true,"mode":"direct"}`: "request_access s__pay s__read",
		`"gateway":{"mode":"direct"}`:                 "s__pay s__read",
	} {
		u.reconfigure(manual, gateway)
		if got := u.menuOf(); got != want {
			t.Errorf("%s lists %s, want %s", gateway, got, want)
		}
	}
	u.reconfigure(manual, `"gateway":{"requests":true,"mode":"direct"}`)
	for _, name := range []string{"s:push", "s__push"} {
		if state, id, _ := u.want(name); state != "open" || id == "" {
			t.Errorf("request_access for %s: %s", name, state)
		}
	}

	// With many tools it is only on the first page.
	var all []string
	want := []string{"request_access"}
	for i := range 24 {
		name := fmt.Sprintf("t%02d", i)
		want = append(want, "s__"+name)
		all = append(all, def(name, strings.Repeat("x", 120_000), ""))
	}
	u.Serve("s", all...)
	u.load(
		map[string]string{"s": `"approval":"off"`, "out": `"approval":"manual"`},
		`"gateway":{"requests":true,"mode":"direct"}`,
	)
	if got, pages := u.toolNames(func() {}); !slices.Equal(got, want) || pages != 2 {
		t.Errorf("%d pages: %q", pages, got)
	}
}

// If a server has a tool named request_access, the gateway lists and calls that tool instead.
func TestServersOwnRequestAccess(t *testing.T) {
	u := &unlocking{fixture: newFixture(t)}
	u.Serve("s", def("request_access", "The server's own.", ""))
	u.Options.Requests = u.Requests()
	u.Restart()
	u.load(
		map[string]string{"s": `"approval":"off"`},
		`"gateway":{"requests":true,"mode":"direct","prefix":false}`,
	)
	r := u.Call("request_access", `{}`)
	if names := u.menuOf(); names != "request_access" || r.IsError ||
		!strings.Contains(r.Text, "request_access did it") {
		t.Errorf("lists %q, calls %s", names, r.Text)
	}
}

// For a tool that is listed with an output schema, clients refuse a result without structured
// content, unless it is an error.
func TestLockOfTypedTool(t *testing.T) {
	u := unlock(t)
	u.Serve("s", def("typed", "Typed.", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`), def("plain", "Plain.", ""))
	for mode, failed := range map[string][2]bool{"search": {false, false}, "direct": {true, false}} {
		u.load(
			map[string]string{"s": `"approval":"off"`},
			`"gateway":{"requests":true,"locked":"result","mode":"`+mode+`"}`,
			`"tools":{"confirm":["s:*"]}`,
		)
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
