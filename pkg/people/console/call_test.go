package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// caller returns a fixture in which people can call tools: web:read and web:wipe are callable.
func caller(t *testing.T) *fixture {
	h := newFixture(t)
	h.Serve("web", gatewaytest.Tool("read", "", gatewaytest.ReadOnly),
		gatewaytest.Tool("wipe", "", `"inputSchema":{"type":"object",
		"required":["path","n","on","tags","x"],"properties":{"path":{"type":"string"},
		"n":{"type":["integer","null"]},"on":{"type":"boolean"},"tags":{"type":"array"},"more":{}}}`))
	h.Put(config.Key, strings.Replace(admintest.Config, `{"mcpServers": {`,
		`{"mcpServers": {"web": {"url": "https://web.example.com/mcp", "approval": "off"},`, 1))
	h.Options.Requests = h.Requests()
	h.Restart()
	h.Decide.Caller = h.MCP
	h.Open()
	h.Sync()
	return h
}

// callForm returns the fields of a form on a page that calls a tool.
func (h *fixture) callForm(page, arguments string) url.Values {
	tool, once := h.Field(page, "tool"), h.Field(page, "once")
	return url.Values{"tool": {tool}, "arguments": {arguments}, "once": {once}}
}

// A tool that only reads is called directly. Any other tool is called after a person confirms its
// arguments. A form has an effect only once.
func TestCallPage(t *testing.T) {
	h := caller(t)
	says(t, h.Page(http.StatusOK, "/admin/tools/web/read"),
		`admin/call?tool=web%3aread">Test call</a>`)
	says(t, h.Page(http.StatusOK, "/admin/try?query=wipe&servers=web"),
		`admin/call?tool=web%3awipe&amp;agent=">Test call`)
	says(t, h.small("/admin/call"), `<option value="web:wipe">`, "Show the arguments")

	form := h.callForm(h.small("/admin/call?tool=web:read"), ` {"n": 9007199254740993} `)
	a := h.Submit("/admin/call", form)
	says(t, a.Body, "Result", "read did it")
	sent := h.Sent()
	if len(sent) != 1 || !strings.Contains(sent[0].Params, "9007199254740993") {
		t.Fatalf("%d %s, calls %+v", a.Status, a.Body, sent)
	}
	a = h.Submit("/admin/call", form)
	says(t, a.Body, "Nothing was called now: this form was sent already", "9007199254740993")
	if sent := h.Sent(); a.Status != http.StatusConflict || len(sent) > 0 {
		t.Errorf("a second press: %d, calls %+v", a.Status, sent)
	}

	page := h.small("/admin/call?tool=web:wipe")
	const filled = `{"path": "", "n": 0, "on": false, "tags": [], "x": ""}</textarea>`
	says(t, strings.Join(strings.Fields(html.UnescapeString(page)), " "),
		strings.NewReplacer("{", "{ ", "}", " }").Replace(filled))
	form = h.callForm(page, `{"path":"/<b>"}`)
	a = h.Submit("/admin/call", form)
	says(t, a.Body, "Nothing was called yet.", "&#34;path&#34;: &#34;/&lt;b&gt;&#34;",
		"every server and tier", "Call it now")
	if sent := h.Sent(); a.Status != http.StatusOK || len(sent) > 0 {
		t.Fatalf("%d before the confirmation, calls %+v", a.Status, sent)
	}
	form = h.callForm(a.Body, h.Field(a.Body, "arguments"))
	// A press of the other button does not use the code.
	says(t, h.Submit("/admin/call", form).Body, "Nothing was called yet.")
	form.Set("sure", "1")
	says(t, h.Submit("/admin/call", form).Body, "Result", "wipe did it")
	if a := h.Submit("/admin/call", form); a.Status != http.StatusConflict || len(h.Sent()) != 1 {
		t.Errorf("a second press of the confirmation: %d", a.Status)
	}
}

// A call that the gateway refuses has the reason and the step that agents see.
func TestCallPageRefuses(t *testing.T) {
	h := caller(t)
	form := h.callForm(h.Page(http.StatusOK, "/admin/call?tool=mail:send"), "{}")
	form.Set("sure", "1")
	says(t, h.Submit("/admin/call", form).Body,
		"Refused by the gateway, and not called", "pending approval",
		"Tool is disabled and not callable.")
	const invalid = http.StatusUnprocessableEntity
	for _, tt := range []struct {
		field, value, says string
		status             int
	}{
		{"arguments", "[1]", "Arguments must be a JSON object", invalid},
		{"arguments", `{"a":1,"a":2}`, "The call failed: ", invalid},
		{"agent", "token:gone", `Agent: the gateway does not know what "token:gone" may call`, invalid},
		{"tool", "", "Nothing was called: name the tool", invalid},
		{"tool", "web:none", "was not found", http.StatusOK},
		{"once", "", "Nothing was called now", http.StatusConflict},
	} {
		form := h.callForm(h.Page(http.StatusOK, "/admin/call?tool=web:read"), `{"typed":1}`)
		form.Set(tt.field, tt.value)
		a := h.Submit("/admin/call", form)
		says(t, html.UnescapeString(a.Body), tt.says)
		if a.Status != tt.status {
			t.Errorf("%s %q: %d, want %d", tt.field, tt.value, a.Status, tt.status)
		}
	}
	says(t, h.Page(http.StatusNotFound, "/admin/call?tool=web:none"),
		"No tool is called “web:none”")
	// After the end of a session, the sign-in page sends the form again as one that has no effect.
	form = h.callForm(h.Page(http.StatusOK, "/admin/call?tool=web:read"), `{"typed":1}`)
	form.Set("again", "1")
	a := h.Submit("/admin/call", form)
	says(t, html.UnescapeString(a.Body), "your form came too late", `{"typed":1}</textarea>`)
	form = h.callForm(h.Page(http.StatusOK, "/admin/call?tool=web:read"), "{}")
	h.Clock.Wait(10 * time.Minute)
	if a := h.Submit("/admin/call", form); a.Status != http.StatusConflict || len(h.Sent()) > 0 {
		t.Errorf("a form from an old page: %d", a.Status)
	}
	h.be(identity.Rights{Role: identity.Viewer})
	lacks(t, h.Page(http.StatusOK, "/admin/tools/web/read"), "Test call")
	h.Page(http.StatusForbidden, "/admin/call?tool=web:read")
	if a := h.Submit("/admin/call", form); a.Status != http.StatusForbidden || len(h.Sent()) > 0 {
		t.Errorf("a viewer: %d %s", a.Status, a.Body)
	}
	none := newFixture(t)
	says(t, none.Page(http.StatusOK, "/admin/call?tool=fs:read_file"),
		"No call runs in this process", "<code>/mcp</code>")
	a = none.Submit("/admin/call", url.Values{"tool": {"fs:read_file"}})
	says(t, a.Body, "No call runs in this process")
	if a.Status != http.StatusNotImplemented {
		t.Errorf("a process without calls: %d", a.Status)
	}
}

// A call waits for a person if the config requires that. The page links to the request.
func TestCallPageConfirm(t *testing.T) {
	h := caller(t)
	h.Put(config.Key, `{"mcpServers": {"web": {"url": "https://web.example.com/mcp",
		"approval": "off"}}, "tools": {"confirm": ["web:read"]}}`)
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/call?tool=web:read")
	a := h.Submit("/admin/call", h.callForm(page, "{}"))
	says(t, a.Body, "Each call of this tool waits for a person", `admin/requests/R-`)
	if len(h.Sent()) > 0 {
		t.Error("the tool was called")
	}
}
