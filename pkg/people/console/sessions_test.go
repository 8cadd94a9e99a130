package console_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An operator sees who is signed in, and ends sessions of any person. Every process that shares the
// store refuses the next request of an ended session.
func TestSessionsOfOthers(t *testing.T) {
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	h := newStage(t)
	open := func() (list []admin.Session) {
		return admintest.Into[struct{ Sessions []admin.Session }](h.Fixture, "/admin/sessions", "").Sessions
	}
	sessions := h.Console.SignIn.Sessions
	says(t, h.Page(http.StatusOK, "/admin/sessions"), "Nobody is signed in")
	says(t, h.Page(http.StatusOK, "/admin/me"), `href="../admin/sessions"`)
	sams, err := sessions.Open(t.Context(), personSam, firefox)
	require.OK(t, err)
	anns, err := sessions.Open(t.Context(), signin.Person{Actor: "ann", Way: signin.WayKey}, "curl/8.17.0")
	require.OK(t, err)
	page := h.Page(http.StatusOK, "/admin/sessions")
	says(t, page, "sam", "Firefox 145 on Linux", "the admin key", "curl/8.17.0", "operator")
	lacks(t, page, "Gecko")
	list := open()
	if len(list) != 2 || list[0].Browser == "" || list[0].Created.IsZero() || list[0].Way != signin.WayKey {
		t.Fatalf("sessions as JSON: %+v", list)
	}
	of := map[string]string{}
	for _, s := range list {
		of[s.Actor] = s.ID
	}
	if a := h.Submit("/admin/sessions/"+of["sam"]+"/revoke", url.Values{"x": {""}}); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "../../sessions?ended=1" {
		t.Fatalf("status %d, redirect to %q", a.Status, a.Header.Get("Location"))
	}
	says(t, h.Page(http.StatusOK, "/admin/sessions?ended=1"),
		"The session ended. Every process refuses its next request")
	if _, err := sessions.Look(t.Context(), sams); !errors.Is(err, signin.ErrNotFound) {
		t.Errorf("sam's session is still open: %v", err)
	}
	lines := h.Deeds.Lines()
	if l := lines[len(lines)-1]; l.Action != audit.ActionSessionRevoked || l.Subject != "session:sam" || l.Actor != "kim" {
		t.Errorf("audit event %+v, want the revocation of sam's session by kim", l)
	}
	if got := admintest.Into[admin.Session](h.Fixture, "/admin/sessions/"+of["ann"]+"/revoke", "{}"); got.Actor != "ann" {
		t.Errorf("the ended session is %+v, want ann's", got)
	}
	if _, err := sessions.Look(t.Context(), anns); !errors.Is(err, signin.ErrNotFound) {
		t.Errorf("ann's session is still open: %v", err)
	}
	h.Problem(http.StatusNotFound, "/admin/sessions/"+of["ann"]+"/revoke", "{}")
	if a := h.Submit("/admin/sessions/"+of["sam"]+"/revoke", url.Values{"x": {""}}); a.Status != http.StatusSeeOther { // already ended
		t.Errorf("ending sam's session again: status %d", a.Status)
	}
}

func TestHealthPage(t *testing.T) {
	h := newStage(t)
	says(t, h.Page(http.StatusOK, "/admin/health"), "Nothing is wrong", "<dt>Tools<dd>4", "<dt>Prompts<dd>1", "<dt>Resources<dd>2", "<dt>Program<dd>v1.2.3", "mcp_config.json<dd>")
	h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Denied, Reason: "forbidden", HTTPStatus: 403}
	h.Sync()
	h.Put(config.Key, `{"mcpServers":{},"oops":1}`)
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/health")
	says(t, page, "degraded", "State", `<a href="../admin/servers">/admin/servers</a> says why`, `<time datetime="2026-11-20`, `data-th="Next step"`, `<span class="chip denied">denied</span> 1`, `<span class="chip available">available</span> 1`)
	says(t, h.Page(http.StatusOK, "/admin/servers"), `href="../admin/health"`)
	says(t, h.Page(http.StatusOK, "/admin/config"), `href="../admin/health"`)
}
