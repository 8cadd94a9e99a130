package bootadmin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A fleet is the processes of one gateway and the stores that they share.
type fleet struct {
	t      *testing.T
	env    map[string]string
	folder string
	data   *bolt.Store
	logins *signin.Store
	boot   secret.Text // the bootstrap token
	owner  *boot.Owner
	codes  *signin.Codes
	log    *local.Buffer
	answer strings.Builder // all answers
}

const tokenKey = "a key that is for tests alone, of 32 bytes and more"

func newFleet(t *testing.T, auth string) *fleet {
	t.Helper()
	h := &fleet{t: t, folder: t.TempDir(), logins: signin.NewStore(new(documenttest.Store), nil),
		boot: token.New(), log: &local.Buffer{}}
	h.env = map[string]string{"PORTCULLIS_AUTH": auth, "PORTCULLIS_BASE_URL": "https://gate.example.com", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(h.boot)}
	if strings.Contains(auth, "token") {
		h.env["PORTCULLIS_TOKEN_KEY"] = tokenKey
	}
	h.data = bolttest.Open(t, h.folder)
	return h
}

// A process is one process of the gateway, with the requests of a browser and a program.
type process struct {
	agenttest.Client
	fleet   *fleet
	handler http.Handler
	cookie  string
}

func (h *fleet) start() *process {
	h.t.Helper()
	s, err := boot.Load(func(name string) string { return h.env[name] })
	require.OK(h.t, err)
	p := boot.New(s, boot.Stores{Objects: dir.New(h.folder), Approvals: h.data, Tokens: token.NewStore(h.data)}, boot.Options{
		Log: slog.New(slog.NewTextHandler(h.log, nil)), Owner: h.owner,
	})
	handler, err := bootadmin.Everything(p, bootadmin.Browsers{Store: h.logins, Codes: h.codes})
	require.OK(h.t, err)
	return &process{fleet: h, handler: handler, Client: agenttest.Client{
		T: h.t, URL: "https://gate.example.com", Transport: agenttest.InProcess(handler),
		Check: func(a agenttest.Answer) { fmt.Fprintln(&h.answer, a.Header, a.Body) },
	}}
}

// signIn sends the form of the sign-in page, and returns the answer with its cookie.
func (p *process) signIn(text string, headers ...string) agenttest.Answer {
	p.T.Helper()
	a := p.Send("/admin/login", url.Values{"key": {text}}.Encode(),
		append([]string{admintest.Browser, admintest.Form, "Origin: https://gate.example.com", "Sec-Fetch-Site: same-origin"}, headers...)...)
	for _, c := range a.Cookies() {
		p.cookie = "Cookie: " + c.Name + "=" + c.Value
	}
	return a
}

// actor returns the name with which the inbox greets the bearer of a cookie, or "".
func (p *process) actor(cookie string) string {
	p.T.Helper()
	_, after, _ := strings.Cut(p.Send("/admin", "", admintest.Browser, cookie).Body, `<span class="actor">`)
	name, _, _ := strings.Cut(after, "<")
	return name
}

// mint creates an agent token with the bootstrap token.
func (p *process) mint(body string) (made struct{ ID, Token string }) {
	p.T.Helper()
	check := p.Check
	p.Check = nil // the only answer that contains a token
	defer func() { p.Check = check }()
	p.Ask(http.StatusCreated, "/admin/tokens", body, &made,
		"Authorization: Bearer "+p.fleet.boot.Reveal())
	return made
}

const (
	adminToken = `{"name":"kim","servers":[],"tiers":[],"admin":true,"days":1}`
	agentToken = `{"name":"ci","servers":["*"],"tiers":["read"],"days":1}`
)

func TestTokenIsTradedForASession(t *testing.T) {
	for _, auth := range []string{"token", "jwt,token"} {
		t.Run(auth, func(t *testing.T) {
			h, jwt := newFleet(t, auth), "a.b.c"
			if auth != "token" {
				issuer := identitytest.Start(t)
				h.env["PORTCULLIS_ISSUER"], h.env["PORTCULLIS_AUDIENCE"] = issuer.URL, "https://gate.example.com/mcp"
				jwt = issuer.Token("https://gate.example.com/mcp", map[string]any{"scope": "portcullis:admin"})
			}
			here, there := h.start(), h.start()
			if a := here.Send("/admin/servers", "", "Authorization: Bearer "+jwt); (a.Status == http.StatusOK) != (auth != "token") {
				t.Errorf("the API with the JWT: %d %s", a.Status, a.Body)
			}
			kim, ci := here.mint(adminToken), here.mint(agentToken)
			if a := here.signIn(kim.Token + "\n"); a.Status != http.StatusSeeOther || here.cookie == "" {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if got := there.actor(here.cookie); got != "token:kim" {
				t.Errorf("another process greets %q", got)
			}
			if a := there.signIn(ci.Token); a.Status != http.StatusForbidden || there.cookie != "" || !strings.Contains(a.Body, "it is not an admin token") {
				t.Errorf("sign-in with an agent's token: %d %s", a.Status, a.Body)
			}
			for _, text := range []string{"", "x", token.New().Reveal(), token.NewAdmin().Reveal(), jwt, kim.ID, here.cookie, "Bearer " + kim.Token} {
				if a := there.signIn(text); a.Status != http.StatusUnauthorized || there.cookie != "" {
					t.Errorf("%.20q: %d", text, a.Status)
				}
			}
			for _, secret := range []string{kim.Token, ci.Token, h.boot.Reveal()} {
				if all := h.log.String() + h.answer.String(); strings.Contains(all, secret) || strings.Contains(all, secret[4:20]) {
					t.Error("a token is in the log or in an answer")
				}
			}
			if !strings.Contains(h.log.String(), `msg="signed in" actor=token:kim way=token`) {
				t.Errorf("log: %s", h.log)
			}
		})
	}
}

func TestSessionOfATokenEndsEverywhere(t *testing.T) {
	h := newFleet(t, "token")
	here, there := h.start(), h.start()
	kim := here.mint(adminToken)
	enter := func() string {
		t.Helper()
		if a := here.signIn(kim.Token); a.Status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return here.cookie
	}
	one, two := enter(), enter()
	proof := func(cookie string) url.Values {
		return url.Values{"csrf": {(&admintest.Fixture{T: t}).Field(there.Send("/admin", "", admintest.Browser, cookie).Body, "csrf")}}
	}
	if a := there.Send("/admin/logout", proof(one).Encode(), admintest.Browser, admintest.Form, one); a.Status != http.StatusSeeOther {
		t.Errorf("logout: %d %s", a.Status, a.Body)
	}
	if a, b := here.actor(one), here.actor(two); a != "" || b != "token:kim" {
		t.Errorf("after a logout at another process, the two sessions belong to %q and %q", a, b)
	}
	if got := h.start().actor(two); got != "token:kim" {
		t.Errorf("after a restart, the session belongs to %q", got)
	}
	there.Ask(http.StatusOK, "/admin/tokens/"+kim.ID+"/revoke", "{}", nil, "Authorization: Bearer "+h.boot.Reveal())
	if got := here.actor(two); got != "" {
		t.Errorf("after another process revoked the token, the session belongs to %q", got)
	}
	if a := here.signIn(kim.Token); a.Status != http.StatusUnauthorized {
		t.Errorf("the revoked token signs in: %d", a.Status)
	}
	if a := here.signIn(h.boot.Reveal()); a.Status != http.StatusSeeOther || there.actor(here.cookie) != "bootstrap" {
		t.Errorf("sign-in with the bootstrap token: %d, as %q", a.Status, there.actor(here.cookie))
	}
	h.env["PORTCULLIS_BOOTSTRAP_SHA256"] = token.Digest(token.New())
	if got := h.start().actor(here.cookie); got != "" {
		t.Errorf("after the bootstrap token changed, the session belongs to %q", got)
	}
}

// The cookie of a person does not authenticate agents.
func TestSessionIsNoAgent(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	h := newFleet(t, "token")
	p := h.start()
	kim := p.mint(adminToken)
	p.signIn(kim.Token)
	_, value, _ := strings.Cut(p.cookie, "=")
	for _, path := range []string{"/mcp", "/mcp/readonly", "/mcp/x/files"} {
		for _, header := range []string{p.cookie, "Authorization: Bearer " + value, "Authorization: Bearer pct_" + value} {
			if a := p.Send(path, ping, header); a.Status != http.StatusUnauthorized {
				t.Errorf("%s with %.25s…: %d %s", path, header, a.Status, a.Body)
			}
		}
		if a := p.Send(path, ping, p.cookie, "Authorization: Bearer "+kim.Token); path == "/mcp" && a.Status != http.StatusOK {
			t.Errorf("%s with the token: %d %s", path, a.Status, a.Body)
		}
	}
}

// Failed attempts in the form and in the API count together. They count only against the sender's
// address.
func TestSignInIsThrottled(t *testing.T) {
	h := newFleet(t, "token")
	h.env["PORTCULLIS_TRUSTED_PROXIES"] = "1"
	p := h.start()
	kim, late := p.mint(adminToken), p.mint(adminToken)
	const bad, good = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 198.51.100.9"
	if a := p.signIn(kim.Token, bad); a.Status != http.StatusSeeOther {
		t.Fatalf("%d", a.Status)
	}
	for range 10 {
		if a := p.signIn(token.New().Reveal(), bad); a.Status != http.StatusUnauthorized {
			t.Fatalf("form: %d %s", a.Status, a.Body)
		}
		if a := p.Send("/admin/servers", "", bad, "Authorization: Bearer "+token.New().Reveal()); a.Status != http.StatusUnauthorized {
			t.Fatalf("API: %d %s", a.Status, a.Body)
		}
	}
	if a := p.signIn(late.Token, bad); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, "was not checked") {
		t.Errorf("sign-in after twenty failures: %d %s", a.Status, a.Body)
	}
	if a := p.Send("/admin/servers", "", bad, "Authorization: Bearer "+late.Token); a.Status != http.StatusTooManyRequests {
		t.Errorf("API after twenty failures: %d", a.Status)
	}
	if got := p.actor(p.cookie); got != "token:kim" {
		t.Errorf("the session at that address belongs to %q", got)
	}
	for name, a := range map[string]agenttest.Answer{"that was valid before": p.signIn(kim.Token, bad), "at another address": p.signIn(late.Token, good)} {
		if a.Status != http.StatusSeeOther {
			t.Errorf("sign-in with a token %s: %d", name, a.Status)
		}
	}
}

func TestSignInWithoutAgentTokens(t *testing.T) {
	t.Run("by the bootstrap token", func(t *testing.T) {
		h := newFleet(t, "none")
		p := h.start()
		if page := p.Send("/admin/login", "", admintest.Browser).Body; !strings.Contains(page, "BootstrapSha256") || strings.Contains(page, "admin.key") || strings.Contains(page, "agent token") {
			t.Errorf("the page explains %s", page)
		}
		for _, text := range []string{"", token.New().Reveal(), token.Digest(h.boot), "a.b.c"} {
			if a := p.signIn(text); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "the gateway has another SHA-256") {
				t.Errorf("%.10q: %d %s", text, a.Status, a.Body)
			}
		}
		if a := p.signIn(h.boot.Reveal()); a.Status != http.StatusSeeOther || h.start().actor(p.cookie) != "bootstrap" {
			t.Errorf("%d", a.Status)
		}
		h.env["PORTCULLIS_BOOTSTRAP_SHA256"] = token.Digest(token.New())
		if got := h.start().actor(p.cookie); got != "" {
			t.Errorf("after the bootstrap token changed, the session belongs to %q", got)
		}
	})
	t.Run("on a laptop", func(t *testing.T) {
		h := newFleet(t, "none")
		h.owner, h.codes = &boot.Owner{Name: "kim", Key: token.NewAdmin()}, signin.NewCodes(nil)
		p := h.start()
		page := p.Send("/admin/login", "", admintest.Browser).Body
		if !strings.Contains(page, "admin.key") || !strings.Contains(page, "BootstrapSha256") || strings.Contains(page, "agent token") {
			t.Errorf("the page explains %s", page)
		}
		for text, want := range map[string]string{h.owner.Key.Reveal(): "kim", h.boot.Reveal(): "bootstrap"} {
			if a := p.signIn(text); a.Status != http.StatusSeeOther || h.start().actor(p.cookie) != want {
				t.Errorf("%s: %d", want, a.Status)
			}
		}
		w := p.Send("/admin/login", url.Values{"code": {h.codes.New()}}.Encode(), admintest.Browser, admintest.Form)
		if w.Status != http.StatusSeeOther || len(w.Cookies()) != 1 || p.actor("Cookie: __Host-portcullis="+w.Cookies()[0].Value) != "kim" {
			t.Errorf("sign-in with the link: %d %v", w.Status, w.Cookies())
		}
		h.owner = &boot.Owner{Name: "kim", Key: token.NewAdmin()}
		if got := h.start().actor("Cookie: __Host-portcullis=" + w.Cookies()[0].Value); got != "" {
			t.Errorf("after the admin key changed, the session belongs to %q", got)
		}
	})
	t.Run("nobody, if there is no secret to type", func(t *testing.T) {
		issuer := identitytest.Start(t)
		for name, change := range map[string]func(*fleet){
			"none, and no token": func(*fleet) {},
			"signatures":         func(h *fleet) { h.env["PORTCULLIS_AUTH"] = "iam" },
			"an issuer": func(h *fleet) {
				h.env["PORTCULLIS_AUTH"], h.env["PORTCULLIS_ISSUER"], h.env["PORTCULLIS_AUDIENCE"] = "jwt", issuer.URL, "https://gate.example.com/mcp"
			},
		} {
			h := newFleet(t, "none")
			delete(h.env, "PORTCULLIS_BOOTSTRAP_SHA256")
			change(h)
			p := h.start()
			if a := p.signIn(token.New().Reveal()); a.Status != http.StatusNotFound && a.Status != http.StatusForbidden || p.cookie != "" {
				t.Errorf("%s: %d", name, a.Status)
			}
			if a := p.Send("/admin", "", admintest.Browser); a.Status != http.StatusUnauthorized && a.Status != http.StatusForbidden || a.Header.Get("Location") != "" {
				t.Errorf("%s: /admin = %d, and leads to %q", name, a.Status, a.Header.Get("Location"))
			}
		}
	})
}

// The gateway refuses pages of a foreign name that resolves to this machine.
func TestSignInUnderAReboundName(t *testing.T) {
	h := newFleet(t, "none")
	h.owner, h.codes = &boot.Owner{Name: "kim", Key: token.NewAdmin()}, signin.NewCodes(nil)
	p := h.start()
	server := httptest.NewServer(p.handler)
	defer server.Close()
	p.URL, p.Transport = server.URL, nil
	for host, want := range map[string]int{"evil.example.com": http.StatusMisdirectedRequest, "127.0.0.1:1": http.StatusSeeOther} {
		if a := p.signIn(h.owner.Key.Reveal(), "Host: "+host, "Origin: http://"+host); a.Status != want {
			t.Errorf("%s: %d %s", host, a.Status, a.Body)
		}
	}
}

// If an agent token is stopped, its holder cannot undo the stop and cannot decide anything, neither
// in a browser nor with a program.
func TestStopHoldsAtAdmin(t *testing.T) {
	h := newFleet(t, "token")
	p := h.start()
	kim := p.mint(adminToken)
	if a := p.signIn(kim.Token); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	cookie, boot, bearer := p.cookie, "Authorization: Bearer "+h.boot.Reveal(), "Authorization: Bearer "+kim.Token
	p.Ask(http.StatusOK, "/admin/stop", `{"agent":"token:kim","reason":"key leaked"}`, nil, boot)
	for path, body := range map[string]string{"/admin/stop/undo": `{"every":true}`, "/admin/tokens": adminToken, "/admin/tools": ""} {
		if a := p.Send(path, body, bearer); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "is stopped by bootstrap: key leaked") || !strings.Contains(a.Body, "nothing was done") {
			t.Errorf("%s with the token: %d %s", path, a.Status, a.Body)
		}
		if a := p.Send(path, body, cookie, admintest.Browser, admintest.Form); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "is stopped by bootstrap: key leaked") {
			t.Errorf("%s in the browser: %d %s", path, a.Status, a.Body)
		}
	}
	p.Ask(http.StatusOK, "/admin/stop", `{"agent":"bootstrap","reason":"it is no agent"}`, nil, boot)
	p.Ask(http.StatusOK, "/admin/stop/undo", `{"every":true}`, nil, boot)
	if a := p.Send("/admin/tools", "", bearer); a.Status != http.StatusOK {
		t.Errorf("after the undo: %d %s", a.Status, a.Body)
	}
}
