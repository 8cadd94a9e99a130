package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestTry(t *testing.T) {
	h := newFixture(t)
	says(t, h.Page(http.StatusOK, "/admin/try"), `name="servers" value="*"`, `name="tiers" value="read, write, destructive"`)
	page := html.UnescapeString(h.Page(http.StatusOK, "/admin/try?servers=fs&tiers=read&query=reads+a+file+or+drafts"))
	says(t, page, `Answer for made-up`, `"name": "fs:read_file"`, `<a href="../admin/tools/fs/read_file">fs:read_file</a>`, "rank 1: words ",
		"✓</span> approved", "Hidden", "denied by the policy (policy.cedar:1 no-drafts)", `>mail:read_drafts</a>`, "its server is not in the agent's scope")
	_, answer, _ := strings.Cut(page, `<pre class="server"`)
	answer, _, _ = strings.Cut(answer, "</pre>")
	lacks(t, answer, "drafts")

	locked := html.UnescapeString(h.Page(http.StatusOK, "/admin/try?servers=*&tiers=read&query=send&include_disabled=1"))
	says(t, locked, `"disabled": [`, `pending_approval`, "✕</span> waits for approval", "the agent may not call this tier (destructive)")
	explanation := admintest.Into[decide.Explanation](h.Fixture, "/admin/try?servers=*&tiers=read&query=send", "")
	says(t, locked, `<span class="tier" title="counts as destructive">not annotated</span>`)
	lacks(t, locked, `class="tier destructive"`)
	if len(explanation.Groups) != 3 || explanation.Groups[1].Tools[0].ID != "mail:send" || explanation.Groups[1].Tools[0].Status != "pending_approval" {
		t.Errorf("%+v", explanation)
	}
}

func TestTryInTheNameOf(t *testing.T) {
	h := withTokens(t)
	for _, servers := range [][]string{{"mail"}, {"fs"}} { // the second replaces the first
		_, _, err := h.Console.Tokens.Make(t.Context(), "ann", token.Spec{Name: "ci", Servers: servers, Tiers: []string{"read"}, Days: 1})
		require.OK(t, err)
		h.Clock.Set(h.Clock.Now().Add(time.Second), time.Millisecond)
	}
	h.Decide.Agents = identity.Names{Tokens: h.Console.Tokens.Store, Claims: &identity.ClaimMap{}}
	h.Open()
	says(t, h.Page(http.StatusOK, "/admin/try"), `<option value="" selected>`, `<option value="token:ci">token:ci</option>`, `name="claims"`)
	if n := strings.Count(h.Page(http.StatusOK, "/admin/try"), `<option value="token:ci"`); n != 1 {
		t.Errorf("an agent with two tokens is listed %d times", n)
	}
	says(t, html.UnescapeString(h.Page(http.StatusOK, "/admin/try?agent=token:ci&query=reads+a+file")), "Answer for token:ci", `"name": "fs:read_file"`)
	claims := url.QueryEscape(`{"sub":"kim","scope":"portcullis:read","portcullis_servers":["mail"]}`)
	says(t, h.Page(http.StatusOK, "/admin/try?query=drafts&claims="+claims), "Answer for kim", "mail:read_drafts", "disabled by config")
	for query, want := range map[string]string{
		"agent=token:gone&query=x":                            `No agent is called "token:gone"`,
		"query=x&claims=" + url.QueryEscape(`{"sub":"a"} {}`): "more than one value of JSON",
		"query=x&claims=%7B":                                  "The claims do not describe an agent",
		"query=x&claims=" + url.QueryEscape(`{"sub":"sync"}`): "The claims do not describe an agent",
		"query=&servers=*":                                    "The query is empty",
		"query=x&tiers=admin":                                 `"admin" is not a tier`,
	} {
		says(t, html.UnescapeString(h.Page(http.StatusUnprocessableEntity, "/admin/try?"+query)), want)
	}
	says(t, h.Page(http.StatusRequestURITooLong, "/admin/try?query=x&claims="+strings.Repeat("a", 8<<10)), "nothing was tried")
	says(t, html.UnescapeString(h.Page(http.StatusOK, "/admin/try?agent=token:ci&query=x&path=/x/nowhere")), "The gateway refuses the request:", "nowhere")
	h.Decide.Agents = identity.Names{Tokens: downTokens(), Claims: &identity.ClaimMap{}}
	h.Open()
	says(t, html.UnescapeString(h.Page(http.StatusOK, "/admin/try?query=drafts&servers=*&tiers=read")), "Some agents are not listed.", "mail:read_drafts")
}
