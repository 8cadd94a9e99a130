package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// connecting returns a fixture that stores tokens. since is the query of a page that a browser
// opens now.
func connecting(t *testing.T) (h *fixture, since string) {
	t.Helper()
	h = withTokens(t)
	return h, "since=" + strconv.FormatInt(h.Clock.Now().UnixMilli(), 10)
}

// visited records a visit of a client, two seconds after the previous event.
func (h *fixture) visited(agent, client string) {
	h.Clock.Set(h.Clock.Now().Add(2*time.Second), time.Millisecond)
	h.Console.Connect.Seen.Note(connect.Visit{Agent: agent, Client: client, Version: "2.1", Protocol: "2026-07-28"}, func() int { return 6 })
}

func TestConnectPages(t *testing.T) {
	h, since := connecting(t)
	list := h.Page(http.StatusOK, "/admin/connect")
	for _, c := range connect.Clients() {
		if !strings.Contains(list, `<a href="../admin/connect/`+c.ID+`">`+c.Name+`</a>`) {
			t.Errorf("%s is not in the list: %s", c.Name, list)
		}
		page := h.Page(http.StatusOK, "/admin/connect/"+c.ID+"?"+since)
		g, err := connect.For(c.ID, connect.Endpoint{URL: gatewaytest.BaseURL + "/mcp", Auth: connect.Bearer})
		require.OK(t, err)
		for _, text := range append([]string{g.Command, g.After, c.Checked}, g.Traps...) {
			if !strings.Contains(html.UnescapeString(page), text) {
				t.Errorf("%s: the page lacks %q", c.ID, text)
			}
		}
		for _, f := range g.Files {
			if !strings.Contains(html.UnescapeString(page), f.Path) || !strings.Contains(html.UnescapeString(page), f.Text) {
				t.Errorf("%s: the page lacks the file %s", c.ID, f.Path)
			}
		}
		if g.Link != "" && !strings.Contains(html.UnescapeString(page), `href="`+g.Link+`"`) {
			t.Errorf("%s: the page lacks the link: %s", c.ID, page)
		}
		if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "no value") {
			t.Errorf("%s: %s", c.ID, page)
		}
	}
	if a := h.Send("/admin/connect/cursor", "", browser); a.Status != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "./cursor?since=") {
		t.Errorf("a page without since: %d %s, want a redirect that adds it", a.Status, a.Header.Get("Location"))
	}
}

// The page offers existing endpoints only, and by default the form makes a
// token with rights for one endpoint.
func TestConnectEndpoint(t *testing.T) {
	h, since := connecting(t)
	page := h.Page(http.StatusOK, "/admin/connect/claude-code?path=/mcp/x/fs&"+since)
	says(t, page, gatewaytest.BaseURL+"/mcp/x/fs", "servers: fs", `<option selected>/mcp/x/fs</option>`, `<option>/mcp/readonly</option>`, `<option>/mcp/x/mail</option>`)
	lacks(t, page, "/mcp/x/old")
	for field, want := range map[string]string{"name": "claude-code", "servers": "fs", "toolsets": "fs", "days": "30", "path": "/mcp/x/fs"} {
		if !regexp.MustCompile(`name="` + field + `"[^>]* value="` + want + `"`).MatchString(page) {
			t.Errorf("in the form %s does not have the default %q", field, want)
		}
	}
	if !strings.Contains(page, `value="read" checked`) || strings.Contains(page, `value="write" checked`) || strings.Contains(page, `name="admin"`) {
		t.Error("the form preselects more than the tier read")
	}
	h.Page(http.StatusNotFound, "/admin/connect/emacs")
	h.Page(http.StatusUnprocessableEntity, "/admin/connect/cursor?path=/mcp/x/none&"+since)
	h.Page(http.StatusUnprocessableEntity, "/admin/connect/cursor?auth=none&"+since)
	h.Console.Connect = &connect.Gateway{Auths: []connect.Auth{connect.None}}
	h.Open()
	says(t, h.Page(http.StatusServiceUnavailable, "/admin/connect/cursor?"+since), "PORTCULLIS_BASE_URL")
}

func TestConnectAuths(t *testing.T) {
	h, since := connecting(t)
	page := h.Page(http.StatusOK, "/admin/connect/codex?auth=oauth&"+since)
	if !strings.Contains(page, "https://login.example.com") || !strings.Contains(page, "codex mcp login portcullis") || strings.Contains(page, "Make the token") {
		t.Errorf("with an issuer: %s", page)
	}
	h.Console.Connect.BaseURL, h.Console.Connect.Auths = "http://127.0.0.1:8080", []connect.Auth{connect.None}
	h.Open()
	page = html.UnescapeString(h.Page(http.StatusOK, "/admin/connect/claude?"+since))
	says(t, page, "admits every caller", "Anthropic's cloud", "cannot reach a gateway on your own machine", `"mcp-remote"`, `"stdio"`)
	if strings.Contains(page, "claude.ai/customize") || strings.Contains(page, "Make the token") {
		t.Errorf("on a laptop: %s", page)
	}
}

// The page makes a token, and only this answer shows its text.
func TestConnectToken(t *testing.T) {
	h, since := connecting(t)
	typed := url.Values{"name": {"kim"}, "servers": {"fs"}, "tier": {"read"}, "toolsets": {"fs"}, "days": {"30"}, "path": {"/mcp/x/fs"}, "since": {strings.TrimPrefix(since, "since=")}, "admin": {"1"}}
	answer := h.Submit("/admin/connect/claude-code", typed)
	made := h.sole()
	text := h.Field(strings.ReplaceAll(answer.Body, `class="mono" size="48" readonly value`, `name="text" value`), "text")
	if answer.Status != http.StatusCreated || answer.Header.Get("Cache-Control") != "no-store" || !strings.Contains(answer.Body, "export PCT="+text) || !strings.Contains(html.UnescapeString(answer.Body), `${PCT}`) {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	if made.Admin || made.Name != "kim" || made.ExpiresAt.Sub(made.CreatedAt) != 30*24*time.Hour || made.CreatedBy != "ann" {
		t.Errorf("made %+v", made)
	}
	if strings.Count(answer.Body, text) != 2 || strings.Contains(h.Log.String(), text) {
		t.Error("the token is in the log, or not exactly twice on the page")
	}
	again := "/admin/connect/claude-code?token=" + made.ID + "&path=/mcp/x/fs&" + since
	if page := h.Page(http.StatusOK, again); strings.Contains(page, text) || !strings.Contains(page, "Not yet seen as <code>token:kim</code>") {
		t.Errorf("the page of the token afterwards: %s", page)
	}
	if !strings.Contains(html.UnescapeString(answer.Body), made.ID) {
		t.Error("the polls of the page do not name the token")
	}
	typed.Set("days", "0")
	if answer := h.Submit("/admin/connect/claude-code", typed); answer.Status != http.StatusUnprocessableEntity || !strings.Contains(answer.Body, "No token was made.") || !strings.Contains(answer.Body, `value="kim"`) {
		t.Errorf("a token for 0 days: %d %s", answer.Status, answer.Body)
	}
	h.sole()
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "vic", Rights: identity.Rights{Role: identity.Viewer}}, nil
	}
	h.Open()
	if page := h.Page(http.StatusOK, again); strings.Contains(page, "Make the token") || strings.Contains(page, "token:kim") || !strings.Contains(page, "An operator creates one") {
		t.Errorf("a viewer sees %s", page)
	}
	if answer := h.Submit("/admin/connect/claude-code", typed); answer.Status != http.StatusForbidden {
		t.Errorf("a viewer who makes a token gets %d, want 403", answer.Status)
	}
}

// The page shows the first request that arrives after the page was opened.
func TestConnectSeen(t *testing.T) {
	h, _ := connecting(t)
	h.visited("token:kim", "too-early")
	since := "since=" + strconv.FormatInt(h.Clock.Now().Add(time.Second).UnixMilli(), 10)
	address := "/admin/connect/claude-code?" + since
	waiting := h.Send(address, "", browser)
	if !strings.Contains(waiting.Body, "Not yet seen") || !strings.Contains(waiting.Body, `data-poll="3"`) || strings.Contains(waiting.Body, "too-early") {
		t.Fatalf("before: %s", waiting.Body)
	}
	tag := "If-None-Match: " + waiting.Header.Get("ETag")
	if a := h.Send(address, "", browser, tag); a.Status != http.StatusNoContent || a.Body != "" {
		t.Errorf("a poll without changes: %d", a.Status)
	}
	h.visited("token:kim", "claude-code")
	h.visited("token:mallory", "<b>x\u202e")
	seen := h.Send(address, "", browser, tag)
	body := html.UnescapeString(seen.Body)
	says(t, body, "<b>claude-code</b>/2.1, agent <code>token:kim</code>, 6 tools that it can call", "MCP 2026-07-28", "2 s ago", "0 s ago", `data-poll="20"`)
	if strings.Contains(seen.Body, "<b>x") || strings.Contains(seen.Body, "\u202e") {
		t.Error("the page does not escape the name of a client")
	}
	if a := h.Send("/admin/connect", "", browser); !strings.Contains(a.Body, "too-early") {
		t.Errorf("the list of clients lacks too-early: %s", a.Body)
	}
	made := h.Submit("/admin/connect/claude-code", url.Values{"name": {"kim"}, "tier": {"read"}, "servers": {"fs"}, "days": {"1"}, "since": {strings.TrimPrefix(since, "since=")}})
	if !strings.Contains(made.Body, "claude-code</b>") || strings.Contains(made.Body, "mallory") {
		t.Errorf("the page of kim's token shows other clients: %s", made.Body)
	}
}

// If several processes answer agents, the page shows the last use of the token.
func TestConnectSeenByToken(t *testing.T) {
	h, since := connecting(t)
	h.Console.Connect.Seen = nil
	h.Open()
	if page := h.Page(http.StatusOK, "/admin/connect/codex?"+since); !strings.Contains(page, "keep no list of clients") || strings.Contains(page, "data-poll") {
		t.Errorf("without a token: %s", page)
	}
	h.Submit("/admin/connect/codex", url.Values{"name": {"kim"}, "tier": {"read"}, "servers": {"fs"}, "days": {"1"}, "since": {strings.TrimPrefix(since, "since=")}})
	made := h.sole()
	address := "/admin/connect/codex?token=" + made.ID + "&" + since
	waiting := h.Send(address, "", browser)
	if !strings.Contains(waiting.Body, "<code>token:kim</code> has not been used yet") || !strings.Contains(waiting.Body, `data-poll="3"`) {
		t.Errorf("before: %s", waiting.Body)
	}
	require.OK(t, h.Console.Tokens.Store.TouchToken(t.Context(), made.ID, h.Clock.Now()))
	used := h.Send(address, "", browser, "If-None-Match: "+waiting.Header.Get("ETag"))
	if used.Status != http.StatusOK || !strings.Contains(used.Body, "<code>token:kim</code> was used") {
		t.Errorf("after: %d %s", used.Status, used.Body)
	}
}
