package console_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// wide is the look of most pictures in docs/img.
var wide = browsertest.Look{Name: "desk", Width: 1200, Zoom: 1}

// TestPictures leads through the README's first minute in a browser. It compares the text of each
// page with the file that `make pictures` wrote together with the picture in docs/img.
func TestPictures(t *testing.T) {
	t.Parallel()
	d := &fixture{Program: programtest.Start(t, t.TempDir(), "--demo", "--actor", "kim")}
	d.begin(t)
	const call = `{"name": "tickets:assign_ticket", "args": {"id": 1, "assignee": "kim"}}`
	asked := d.Call("request_access",
		`{"names": ["tickets:assign_ticket"], "note": "kim knows printers"}`).Text
	request := "/admin/requests/" + someID.FindString(asked)

	d.picture("inbox", "/admin", wide)
	d.picture("request", request, wide)
	d.picture("phone", request, phone)
	d.picture("review", "/admin/tools/tickets/assign_ticket", wide)
	d.picture("servers", "/admin/servers", wide)
	d.picture("connect", "/admin/connect/claude-code", wide)
	d.picture("stop", "/admin/stop", wide)
	d.picture("config", "/admin/config", wide)

	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool("get_page", "Read a page of the wiki.", `{"readOnlyHint":true}`),
		upstreamtest.Tool("delete_page", "Delete a page of the wiki.", `{"destructiveHint":true}`),
	}})
	d.tab.Goto("/admin/add-server")
	d.tab.Fill("[name=name]", "wiki")
	d.tab.Fill("[name=url]", server.URL)
	d.tab.Loads("the probe", func() { d.tab.ClickText("main button", "Probe") })
	d.picture("add-server", "", wide)

	d.tab.Goto(request)
	d.tab.Loads("the decision", func() { d.tab.ClickText("main button", "Approve for all") })
	if open := d.Call("call_tool_write", call).Text; !strings.Contains(open, `"assignee":"kim"`) {
		t.Errorf("the agent gets %q, want the answer of the tool", open)
	}
	d.picture("audit", "/admin/audit", wide)
	d.picture("usage", "/admin/usage", wide)
}

// varying matches the parts of a page that differ from run to run. A line with only a number is a
// step of an axis, which follows the longest time of a request.
var varying = regexp.MustCompile(
	`(?m:^\d+$)|R-[0-9A-Z]{8}|\b[0-9a-f]{12,64}\b|\b127\.0\.0\.1:\d+|/\S*/gateway\S*|` +
		`\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d(:\d\d)? UTC|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?|\b\d\d:\d\d(:\d\d)?\b|` +
		`\bjust now\b|\b\d+ (s|seconds?|minutes?) ago\b|\b\d+(\.\d+)? ?(ms|s|MB|KB)\b`,
)

// picture takes a picture of a page, or without a path of the current page. It compares the text of
// the page.
func (d *fixture) picture(name, path string, look browsertest.Look) {
	d.T.Helper()
	d.tab.Run(name, func(t *testing.T) {
		d.tab.Look(look)
		if path != "" {
			d.tab.Goto(path)
		}
		d.tab.See("body")
		d.tab.Fits()
		if !look.Phone {
			look.Height = browsertest.Eval[int](d.tab, `document.body.scrollHeight`)
		}
		d.tab.Look(look) // the bar with the buttons is at the end of the picture
		d.tab.Shot(name)
		text := varying.ReplaceAllString(
			browsertest.Eval[string](d.tab, `document.body.innerText`),
			"…",
		)
		golden.Check(t, filepath.Join("testdata", "pictures", name+".txt"), text+"\n")
		if t.Failed() {
			t.Errorf(
				"docs/img/%s.png no longer matches %s: run make pictures, and look at it",
				name,
				path,
			)
		}
	})
}
