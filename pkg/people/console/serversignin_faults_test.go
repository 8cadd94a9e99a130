package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// If the issuer registers no clients, the page names the callback to register. If the issuer
// refuses the callback, the page names the command, which uses another callback.
func TestServerSignInWithoutClient(t *testing.T) {
	const command = "On your own machine, use: portcullis servers login notes."
	issuer := issuertest.New(t, issuertest.Habits{NoRegistration: true})
	h := newSignInFixtureAt(t, issuer)
	a := h.askToSignIn("")
	says(t, a.Body, "Nobody was signed in: the issuer 127.0.0.1", h.URL+connection.CallbackPath)
	lacks(t, a.Body, command)
	issuer.Metadata = map[string]any{"registration_endpoint": issuer.URL + "/register"}
	a = h.askToSignIn("")
	if a.Status != http.StatusConflict || a.Header.Get("Set-Cookie") != "" {
		t.Errorf("%d, cookie %s", a.Status, a.Header.Get("Set-Cookie"))
	}
	says(t, a.Body, "Nobody was signed in: the issuer 127.0.0.1",
		"refused to register Portcullis", command)
}

func TestServerSignInWithoutMetadata(t *testing.T) {
	issuer := issuertest.New(t, issuertest.Habits{NoMetadata: true})
	h := newSignInFixtureAt(t, issuer)
	h.Put(config.Key, fmt.Sprintf(`{"mcpServers": {"notes": {"url": "%s/mcp"}}}`, issuer.URL))
	h.Sync()
	says(t, h.askToSignIn("").Body,
		"nobody knows whether it protects the sign-in with PKCE",
		"Continue at 127.0.0.1")
}

// A changed issuer needs a person who confirms it. Until then there is no link and no cookie.
func TestServerSignInAtChangedIssuer(t *testing.T) {
	h := newSignInFixture(t)
	to, c := h.start(t)
	h.back(issuertest.Query(t, to), c)
	next := issuertest.New(t, issuertest.Habits{})
	h.configure(next, `"scopes": ["read"]`)
	a := h.askToSignIn("")
	says(t, a.Body, "The server&#39;s issuer was 127.0.0.1", "Confirm", `name="confirm" value="1"`)
	lacks(t, a.Body, "/authorize")
	if got := a.Header.Get("Set-Cookie"); got != "" || next.Count(&next.Registered) != 0 {
		t.Errorf("cookie %s, %d registrations before the person confirmed", got, next.Registered)
	}
	a = h.askToSignIn("1")
	says(t, a.Body, next.URL+"/authorize")
	if a.Header.Get("Set-Cookie") == "" {
		t.Error("no cookie after the person confirmed")
	}
}

func TestServerSignInFaults(t *testing.T) {
	h := newSignInFixture(t)
	to, c := h.start(t)
	query, err := url.ParseQuery(issuertest.Query(t, to))
	if err != nil {
		t.Fatal(err)
	}
	declined := url.Values{"state": query["state"], "iss": query["iss"], "error": {"access_denied"}}
	a := h.back(declined.Encode(), c)
	says(t, a.Body, "Nobody was signed in: the sign-in at 127.0.0.1", "was declined")
	lacks(t, a.Body, "Continue")
	query.Set("iss", "https://other.example")
	says(t, h.back(query.Encode(), c).Body, "the callback comes from another issuer than 127.0.0.1")
	to, c = h.start(t)
	real := issuertest.Query(t, to)
	h.Clock.Set(h.Clock.Now().Add(11*time.Minute), time.Millisecond)
	says(t, h.back(real, c).Body, "the sign-in took longer than 10 minutes")
	lacks(t, h.Page(http.StatusOK, "/admin/servers/notes"), "Disconnect")
}

// A code works once. A copy of the cookie and of the callback changes nothing.
func TestServerSignInReplayed(t *testing.T) {
	h := newSignInFixture(t)
	to, c := h.start(t)
	query := issuertest.Query(t, to)
	says(t, h.back(query, c).Body, "Signed in to notes")
	a := h.back(query, c)
	if a.Status != http.StatusConflict {
		t.Errorf("a replay: %d", a.Status)
	}
	says(t, a.Body, "Nobody was signed in")
	says(t, h.Page(http.StatusOK, "/admin/servers/notes"), "signed in")
}

// The issuer grants less than the gateway requests, and cannot revoke tokens.
func TestServerSignInWithLessThanRequested(t *testing.T) {
	h := newSignInFixtureAt(t, issuertest.New(t, issuertest.Habits{
		Metadata: map[string]any{"revocation_endpoint": ""},
		Answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer",
				"expires_in": 3600, "scope": "read"}`, secrettest.New("access"))
		},
	}))
	h.ByName["notes"] = &gatewaytest.Server{
		Outcome: outcome.Outcome{Status: outcome.Permanent, Reason: "tls"},
	}
	to, c := h.start(t)
	a := h.back(issuertest.Query(t, to), c)
	says(t, a.Body, "Signed in to notes", "Not granted: <code>write</code>",
		"the server did not load")
	page := h.Page(http.StatusOK, "/admin/servers/notes")
	says(t, page, "<dt>Not granted<dd><code>write</code>", "the issuer gave no way to renew it")
	out := h.Submit("/admin/servers/notes/sign-out", url.Values{"csrf": {""}})
	if to := out.Header.Get("Location"); to != "../notes?did=unrevoked" {
		t.Errorf("the sign-out leads to %s", to)
	}
	says(t, h.Page(http.StatusOK, "/admin/servers/notes?did=unrevoked"),
		"the tokens are deleted here.", "Revoke the access in your account there.")
	out = h.Submit("/admin/servers/notes/sign-out", url.Values{"csrf": {""}})
	if to := out.Header.Get("Location"); to != "../notes?did=none" {
		t.Errorf("a second sign-out redirects to %s", to)
	}
}

// If the vault gets another key, the sign-in has ended. The gateway cannot read its tokens, so the
// issuer cannot revoke them.
func TestServerSignInRestored(t *testing.T) {
	h := newSignInFixture(t)
	to, c := h.start(t)
	h.back(issuertest.Query(t, to), c)
	h.signsIn(&http.Client{}, "x")
	h.Open()
	says(t, h.Page(http.StatusOK, "/admin/servers/notes"),
		">Sign-in ended<", "<dt>State<dd>ended: restored", "Sign in again", "Disconnect")
	out := h.Submit("/admin/servers/notes/sign-out", url.Values{"csrf": {""}})
	if to := out.Header.Get("Location"); to != "../notes?did=unrevoked" {
		t.Errorf("the sign-out leads to %s", to)
	}
}

// The callback is at the base URL or on loopback. No header of the request changes it.
func TestServerSignInCallback(t *testing.T) {
	h := newSignInFixture(t)
	redirect := func(base string) string {
		h.URL = base
		a := h.askToSignIn("", "X-Forwarded-Host: evil.example")
		_, rest, _ := strings.Cut(a.Body, "redirect_uri=")
		value, _, _ := strings.Cut(rest, "&amp;")
		got, _ := url.QueryUnescape(value)
		return got + " " + strings.SplitN(a.Header.Get("Set-Cookie"), "=", 2)[0]
	}
	const (
		plain  = connection.CallbackPath + " portcullis-server"
		secure = connection.CallbackPath + " __Secure-portcullis-server"
	)
	for base, want := range map[string]string{
		"https://gate.example.com":       gatewaytest.BaseURL + secure,
		"https://gate.example.com:8443":  gatewaytest.BaseURL + secure,
		"http://127.0.0.1:8080":          "http://127.0.0.1:8080" + plain,
		"http://localhost:8080":          "http://localhost:8080" + plain,
		"https://evil.example":           " ",
		"https://127.0.0.1.evil.example": " ",
	} {
		if got := redirect(base); got != want {
			t.Errorf("at %s the callback and the cookie are %q, want %q", base, got, want)
		}
	}
}

// A long client_id fits into the cookie. If the client_id is too long, the page names the command,
// which needs no cookie.
func TestServerSignInTooLargeForACookie(t *testing.T) {
	issuer := issuertest.New(t, issuertest.Habits{})
	h := newSignInFixtureAt(t, issuer)
	h.configure(issuer, fmt.Sprintf(`"client_id": %q`, strings.Repeat("c", 1500)))
	if _, c := h.start(t); len(c.Value) > 3800 {
		t.Errorf("the cookie has %d characters", len(c.Value))
	}
	h.configure(issuer, fmt.Sprintf(`"client_id": %q`, strings.Repeat("c", 3000)))
	a := h.askToSignIn("")
	says(t, a.Body, "does not fit into a cookie", "use: portcullis servers login notes.")
	if got := a.Header.Get("Set-Cookie"); got != "" {
		t.Errorf("cookie %s", got)
	}
}

// If a sync runs elsewhere, the page of the server does not ask for a sign-in that is complete.
func TestServerSignInBeforeSync(t *testing.T) {
	h := newSignInFixture(t)
	h.ByName["notes"] = &gatewaytest.Server{
		Outcome: outcome.Outcome{Status: outcome.Denied, Reason: outcome.ReasonSignInRequired},
	}
	h.Sync()
	says(t, h.Page(http.StatusOK, "/admin/servers/notes"), "Sign-in required")
	h.OpenWith(starter{})
	h.Clock.Wait(time.Minute)
	to, c := h.start(t)
	says(t, h.back(issuertest.Query(t, to), c).Body, "The next sync loads the server.")
	page := h.Page(http.StatusOK, "/admin/servers/notes")
	says(t, page, "The gateway signed in after this load.", "signed in")
	lacks(t, page, "Sign-in required")
}

// The list and the page say that a server needs a sign-in, also to viewers.
func TestServerSignInMarks(t *testing.T) {
	h := newFixture(t)
	as(h, identity.Rights{Role: identity.Viewer})
	for reason, want := range map[string]string{
		outcome.ReasonSignInRequired:    ">Sign-in required<",
		outcome.ReasonCredentialExpired: ">Sign-in ended<",
	} {
		h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Denied, Reason: reason}
		h.Sync()
		says(t, h.Page(http.StatusOK, "/admin/servers"), want)
		says(t, h.Page(http.StatusOK, "/admin/servers/mail"), want)
	}
}
