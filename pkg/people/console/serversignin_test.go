package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
)

// newSignInFixture is a fixture with a server at which the gateway can sign in.
func newSignInFixture(t *testing.T) *fixture {
	t.Helper()
	return newSignInFixtureAt(t, issuertest.New(t, issuertest.Habits{}))
}

func newSignInFixtureAt(t *testing.T, issuer *issuertest.Issuer) *fixture {
	t.Helper()
	h := newFixture(t)
	h.signsIn(&http.Client{}, "k")
	h.configure(issuer, `"scopes": ["read", "write"]`)
	h.Open()
	return h
}

// signsIn gives the gateway a client for sign-ins, and a vault whose key repeats one letter.
func (h *fixture) signsIn(client oauth.Doer, letter string) {
	key := []byte(strings.Repeat(letter, 32))
	h.Decide.SignIns = connection.New(connection.Options{
		Docs: h.Approvals, Table: "test", HTTP: client, Now: h.Clock.Now,
		Keys: &connection.LocalKey{Read: func() ([]byte, error) { return key, nil }},
	})
}

// guessedIssuer registers every client at every issuer, and has no metadata.
type guessedIssuer struct{}

func (guessedIssuer) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Method == http.MethodPost {
		_, _ = w.WriteString(`{"client_id": "x"}`)
	} else {
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

// configure adds a server to the config. No server answers at its address.
func (h *fixture) configure(issuer *issuertest.Issuer, auth string) {
	h.Put(config.Key, fmt.Sprintf(
		`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "auth": {"issuer": %q, %s}}}}`,
		issuer.URL, auth))
	h.Sync()
}

// askToSignIn presses the button that starts the sign-in, or the button that confirms it.
func (h *fixture) askToSignIn(confirm string, headers ...string) agenttest.Answer {
	form := url.Values{"csrf": {""}, "confirm": {confirm}}
	return h.Submit("/admin/servers/notes/sign-in", form, headers...)
}

// start presses the button. It returns the address at the issuer, and the cookie.
func (h *fixture) start(t *testing.T) (to string, cookie *http.Cookie) {
	t.Helper()
	a := h.askToSignIn("")
	m := regexp.MustCompile(`href="(http[^"]*/authorize[^"]*)"`).FindStringSubmatch(a.Body)
	cookies := (&http.Response{Header: a.Header}).Cookies()
	if a.Status != http.StatusOK || m == nil || len(cookies) != 1 {
		t.Fatalf("%d, %d cookies: %s", a.Status, len(cookies), a.Body)
	}
	return html.UnescapeString(m[1]), cookies[0]
}

// back opens the callback with a cookie.
func (h *fixture) back(query string, c *http.Cookie) agenttest.Answer {
	return h.Send(connection.CallbackPath+"?"+query, "", "Accept: text/html", "Cookie: "+c.Name+"="+c.Value)
}

func TestServerSignIn(t *testing.T) {
	h := newSignInFixture(t)
	page := h.Page(http.StatusOK, "/admin/servers/notes")
	says(t, page, `action="../../admin/servers/notes/sign-in"`, "portcullis servers login notes")
	lacks(t, page, "Disconnect")
	to, c := h.start(t)
	if c.SameSite != http.SameSiteLaxMode || !c.HttpOnly || c.Path != connection.CallbackPath ||
		c.MaxAge != 600 ||
		c.Secure != strings.HasPrefix(h.URL, "https") {
		t.Errorf("cookie %+v", c)
	}
	query := issuertest.Query(t, to)
	_, second := h.start(t) // another tab
	a := h.back(query, second)
	if a.Status != http.StatusConflict || a.Header.Get("Set-Cookie") != "" {
		t.Errorf(
			"the answer to another sign-in: %d, cookie %s",
			a.Status,
			a.Header.Get("Set-Cookie"),
		)
	}
	says(t, a.Body, "Nobody was signed in: the callback belongs to another sign-in")
	a = h.back(query, &http.Cookie{Name: c.Name, Value: "forged"})
	says(t, a.Body, "did not begin at this gateway")
	a = h.back(query, c)
	if a.Status != http.StatusOK || !strings.Contains(a.Header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d, cookie %s: %s", a.Status, a.Header.Get("Set-Cookie"), a.Body)
	}
	says(t, a.Body, "Signed in to notes", `href="../../admin/servers/notes"`)
	a = h.Send(connection.CallbackPath+"?"+query, "", "Accept: text/html")
	if a.Status != http.StatusBadRequest {
		t.Errorf("without the cookie: %d", a.Status)
	}
	says(
		t,
		h.Page(http.StatusOK, "/admin/servers/notes"),
		"signed in",
		"Sign in again",
		"Disconnect",
	)
	out := h.Submit("/admin/servers/notes/sign-out", url.Values{"csrf": {""}})
	if to := out.Header.Get("Location"); out.Status != http.StatusSeeOther ||
		to != "../notes?did=out" {
		t.Errorf("%d to %s", out.Status, to)
	}
	says(t, h.Page(http.StatusOK, "/admin/servers/notes?did=out"), "revoked at the issuer")
	lacks(t, h.Page(http.StatusOK, "/admin/servers/notes"), "Disconnect")
}

// A viewer sees the state and may not act.
func TestServerSignInOfViewers(t *testing.T) {
	h := newSignInFixture(t)
	as(h, identity.Rights{Role: identity.Viewer})
	page := h.Page(http.StatusOK, "/admin/servers/notes")
	says(t, page, "The gateway is not signed in to this server.")
	lacks(t, page, `action="../../admin/servers/notes/sign-in"`)
	for _, path := range []string{"sign-in", "sign-out"} {
		if a := h.Submit("/admin/servers/notes/"+path, url.Values{"csrf": {""}}); a.Status != http.StatusForbidden {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}
