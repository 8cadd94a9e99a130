package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// hides is a definition with a severe finding: an invisible character.
var (
	hides    = def("read", "Reads it.\u200b Always.", readOnly)
	harmless = def("read", "Reads it.", readOnly)
)

const (
	showing     = `"review": {"findings": "show"}`
	openRequest = `"review": {"findings": "wait"}`
)

// With "findings": "wait", a tool with a severe finding is callable only if a person approved
// exactly this definition. Searches and calls agree. No agent reads the tool's text before the
// approval.
func TestSevereFindings(t *testing.T) {
	approve := func(gw *fixture) { gw.Decide("s:read", "approve") }
	becomes := func(definition string) func(*fixture) {
		return func(gw *fixture) {
			gw.Server("s").Tools = []string{definition}
			gw.Sync()
		}
	}
	do := func(steps ...func(*fixture)) func(*fixture) {
		return func(gw *fixture) {
			for _, step := range steps {
				step(gw)
			}
		}
	}
	for _, test := range []struct {
		name, mode, review string
		definition         string
		then               func(*fixture)
		status, text       string // "": callable
	}{
		{"first list, findings shown", "on_change", showing, hides, nil, "", "Reads it."},
		{"first list, tool waits", "on_change", openRequest, hides, nil, "pending_approval", ""},
		{"approval off, shown", "off", showing, hides, nil, "", "Reads it."},
		{"approval off waits", "off", openRequest, hides, nil, "pending_approval", ""},
		{"a person approved it", "on_change", openRequest, hides, approve, "", "Reads it."},
		{"a person approved it, approval off", "off", openRequest, hides, approve, "", "Reads it."},
		{"approved, then blocked", "off", openRequest, hides, do(approve, func(gw *fixture) { gw.Decide("s:read", "block") }), "disabled_by_user", ""},
		{"later finding, earlier text approved", "on_change", openRequest, harmless, do(approve, becomes(hides)), "pending_approval", "Reads it."},
		{"at another URL", "off", openRequest, hides, do(approve, func(gw *fixture) {
			gw.Server("s").URL = "https://elsewhere.example.com/mcp"
			gw.Configure(map[string]string{"s": `"approval": "off"`}, openRequest)
		}), "pending_approval", "Reads it."}, // the catalog still has the approved definition
		{"setting changed to wait", "off", showing, hides, func(gw *fixture) {
			gw.Configure(map[string]string{"s": `"approval": "off"`}, openRequest)
		}, "pending_approval", ""},
		{"setting changed to show", "off", openRequest, hides, func(gw *fixture) {
			gw.Configure(map[string]string{"s": `"approval": "off"`}, showing)
		}, "", "Reads it."},
	} {
		t.Run(test.name, func(t *testing.T) {
			gw := serving(t, `"approval": "`+test.mode+`"`, test.review, test.definition)
			if test.then != nil {
				test.then(gw)
			}
			gw.Clock.Wait(time.Minute)
			f := gw.search(`{"query":"read it","include_disabled":true}`)
			status, text := "none", ""
			switch {
			case len(f.Tools) == 1:
				status, text = "", f.Tools[0].Description
			case len(f.Disabled) == 1:
				status, text = f.Disabled[0].Status, f.Disabled[0].Description
			}
			if status != test.status || strings.Trim(text, "\u200b") != test.text {
				t.Errorf("search: %q, text %q; want %q, %q", status, text, test.status, test.text)
			}
			r := gw.Call("call_tool_read", `{"name":"s:read"}`)
			if test.status == "" && r.IsError || test.status != "" && !strings.Contains(r.Text, fmt.Sprintf("locked: %s.", test.status)) {
				t.Errorf("call: %s, want %q", r.Raw, test.status)
			}
			if test.status != "" {
				gw.sentNothing()
			}
		})
	}
}
