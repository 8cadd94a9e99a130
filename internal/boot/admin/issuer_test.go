package bootadmin_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const callback = "https://gate.example.com/admin/login/callback"

// newIssued returns a fleet in which people sign in at an issuer. The issuer has one person: kim,
// an operator.
func newIssued(t *testing.T, auth string) (*fleet, *identitytest.Issuer) {
	t.Helper()
	h, i := newFleet(t, auth), identitytest.Start(t)
	i.Client("gate", "the client's own", callback)
	i.Become("8f3", map[string]any{"email": "kim@example.com", "email_verified": true, "groups": []string{"ops", "staff"}})
	maps.Copy(h.env, map[string]string{
		"PORTCULLIS_ISSUER": i.URL, "PORTCULLIS_ADMIN_CLIENT_ID": "gate", "PORTCULLIS_ADMIN_CLIENT_SECRET": "the client's own", "PORTCULLIS_OPERATORS": "ops",
		"PORTCULLIS_SEAL_KEY": strings.Repeat("k", 32),
	})
	switch {
	case strings.Contains(auth, "jwt"):
		h.env["PORTCULLIS_AUDIENCE"] = "https://gate.example.com/mcp"
		fallthrough
	case auth == "none":
		delete(h.env, "PORTCULLIS_BOOTSTRAP_SHA256")
	}
	if strings.Contains(auth, "token") {
		h.env["PORTCULLIS_BOOTSTRAP_SHA256"] = token.Digest(h.boot)
	}
	return h, i
}

// A jar is a browser with its cookies.
type jar struct {
	t    *testing.T
	kept map[string]string
}

func newJar(t *testing.T) *jar { return &jar{t, map[string]string{}} }

// send sends a request to a process: a form, or a GET if the form is nil.
func (j *jar) send(p *process, path string, form url.Values) agenttest.Answer {
	j.t.Helper()
	var cookies []string
	for _, name := range slices.Sorted(maps.Keys(j.kept)) {
		cookies = append(cookies, name+"="+j.kept[name])
	}
	headers, body := []string{admintest.Browser, "Cookie: " + strings.Join(cookies, "; ")}, ""
	if form != nil {
		headers = append(headers, admintest.Form, "Origin: https://gate.example.com", "Sec-Fetch-Site: same-origin", "Referer: https://gate.example.com"+path)
		body = form.Encode()
	}
	a := p.Send(path, body, headers...)
	for _, c := range a.Cookies() {
		if j.kept[c.Name] = c.Value; c.MaxAge < 0 {
			delete(j.kept, c.Name)
		}
	}
	return a
}

// leave presses the button of the sign-in page, and returns the address of the redirect.
func (j *jar) leave(p *process, form url.Values) (to string) {
	j.t.Helper()
	sent := url.Values{"issuer": {"1"}, "key": {""}}
	maps.Copy(sent, form)
	a := j.send(p, "/admin/login", sent)
	to, ok := strings.CutPrefix(a.Header.Get("Refresh"), "0; url=")
	if a.Status != http.StatusOK || !ok || !strings.Contains(html.UnescapeString(a.Body), `href="`+to+`"`) {
		j.t.Fatalf("the button has no valid redirect: %d %v %s", a.Status, a.Header, a.Body)
	}
	return to
}

// enter signs in at the issuer. The issuer sends the browser back, and enter returns the gateway's
// answer to that request.
func (j *jar) enter(p *process, i *identitytest.Issuer, form url.Values) agenttest.Answer {
	j.t.Helper()
	return j.send(p, i.Visit(j.leave(p, form)).RequestURI(), nil)
}

// actor returns the name with which the inbox greets the browser, or "".
func (j *jar) actor(p *process) string {
	j.t.Helper()
	_, after, _ := strings.Cut(j.send(p, "/admin", nil).Body, `<span class="actor">`)
	name, _, _ := strings.Cut(after, "<")
	return name
}

func (j *jar) proof(p *process) string {
	j.t.Helper()
	return (&admintest.Fixture{T: j.t}).Field(j.send(p, "/admin", nil).Body, "csrf")
}

func TestSignInAtTheIssuer(t *testing.T) {
	for _, auth := range []string{"jwt", "token", "jwt,token", "none", "jwt,iam"} {
		t.Run(auth, func(t *testing.T) {
			h, i := newIssued(t, auth)
			here, there, b := h.start(), h.start(), newJar(t)
			const link = "/admin/tools/fs/read_file?view=raw"
			a := b.send(here, link, nil)
			if to := a.Header.Get("Location"); a.Status != http.StatusSeeOther || to != "../../../admin/login?next=tools%2Ffs%2Fread_file%3Fview%3Draw" {
				t.Fatalf("%d to %q", a.Status, to)
			}
			page := b.send(here, "/admin/login?next=tools%2Ffs%2Fread_file%3Fview%3Draw", nil).Body
			if typed := strings.Contains(page, "password"); !strings.Contains(page, "Sign in with 127.0.0.1:") || typed != strings.Contains(auth, "token") {
				t.Errorf("the page: %s", page)
			}
			first, _, _ := strings.Cut(page, "<details")
			if strings.Count(first, "<button") != 1 || strings.Contains(first, "password") {
				t.Errorf("the page begins with more than one way to sign in: %s", page)
			}
			if len(b.kept) > 0 {
				t.Errorf("the sign-in page set the cookies %v, want none", b.kept)
			}
			to := b.leave(here, url.Values{"next": {"tools/fs/read_file?view=raw"}})
			pending := b.kept["__Host-portcullis-login0"]
			back := i.Visit(to)
			// the other process started the sign-in
			a = b.send(there, back.RequestURI(), nil)
			if at := a.Header.Get("Location"); a.Status != http.StatusSeeOther || at != ".././tools/fs/read_file?view=raw" {
				t.Fatalf("%d to %q: %s", a.Status, at, a.Body)
			}
			if len(b.kept) != 1 || b.kept["__Host-portcullis"] == "" {
				t.Errorf("the browser keeps %v", slices.Sorted(maps.Keys(b.kept)))
			}
			if got := b.actor(here); got != "kim@example.com" {
				t.Errorf("greets %q", got)
			}
			if me := b.send(there, "/admin/me", nil).Body; !strings.Contains(me, "You signed in at the issuer") || strings.Contains(me, "OS user") {
				t.Errorf("me: %s", me)
			}
			asked, _ := url.Parse(to)
			all := h.log.String() + h.answer.String()
			for _, secret := range []string{back.Query().Get("code"), "the client's own", pending[20:60]} {
				if n := strings.Count(all, secret); n > strings.Count(all, "__Host-portcullis-login0="+pending[:20]) && secret == pending[20:60] || n > 0 && secret != pending[20:60] {
					t.Errorf("%.12s… is in the log or in an answer", secret)
				}
			}
			if log := h.log.String(); strings.Contains(log, asked.Query().Get("state")) || strings.Contains(log, asked.Query().Get("nonce")) || strings.Contains(log, pending[20:60]) ||
				!strings.Contains(log, `msg="signed in" actor=kim@example.com way=oidc`) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// If a person signs out at one process, every process ends the session at once.
func TestSessionAtTheIssuerEndsEverywhere(t *testing.T) {
	h, i := newIssued(t, "jwt")
	here, there := h.start(), h.start()
	one, two := newJar(t), newJar(t)
	one.enter(here, i, nil)
	two.enter(here, i, nil)
	a := two.send(there, "/admin/me/revoke-others", url.Values{"csrf": {two.proof(there)}})
	if a.Status != http.StatusSeeOther || one.actor(here) != "" || two.actor(here) == "" {
		t.Errorf("%d: %q and %q", a.Status, one.actor(here), two.actor(here))
	}
	cookies := maps.Clone(two.kept)
	a = two.send(there, "/admin/logout", url.Values{"csrf": {two.proof(there)}})
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != "../admin/login?out=issuer" {
		t.Fatalf("logout: %d to %q", a.Status, a.Header.Get("Location"))
	}
	page := two.send(there, "/admin/login?out=issuer", nil).Body
	if !strings.Contains(page, "still signed in at 127.0.0.1:") || !strings.Contains(page, `href="`+i.URL+`/logout?client_id=gate"`) {
		t.Errorf("the page: %s", page)
	}
	two.kept = cookies
	if got := two.actor(here); got != "" {
		t.Errorf("after the logout, the inbox greets %q", got)
	}
	if i.SignedOut() != 0 {
		t.Error("the logout also ended the session at the issuer")
	}
	two.enter(here, i, nil)
	h.env["PORTCULLIS_ADMIN_CLIENT_ID"] = "gate2"
	if got := two.actor(h.start()); got != "" {
		t.Errorf("after the client ID changed, the inbox greets %q", got)
	}
}

// The gateway has its own text for each bad answer of the issuer. Such an answer signs in nobody,
// and the text that the person typed is kept.
func TestIssuerRefusals(t *testing.T) {
	set := func(name, value string) func(url.Values) {
		return func(v url.Values) { v.Set(name, value) }
	}
	claim := func(name string, value any) identitytest.Bend {
		return identitytest.Bend{Token: func(c map[string]any) { c[name] = value }}
	}
	for name, tt := range map[string]struct {
		harm   func(url.Values)
		bend   identitytest.Bend
		status int
		want   string
	}{
		"another state":        {set("state", token.Random()), identitytest.Bend{}, 400, "does not belong to the last sign-in that began"},
		"another issuer":       {set("iss", "https://login.example.org"), identitytest.Bend{}, 400, "is not from 127.0.0.1:"},
		"no issuer":            {func(v url.Values) { v.Del("iss") }, identitytest.Bend{Metadata: func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }}, 400, "is not from 127.0.0.1:"},
		"a made up code":       {set("code", "x"), identitytest.Bend{}, 400, "refused the code"},
		"no code":              {func(v url.Values) { v.Del("code") }, identitytest.Bend{}, 400, "came back with an invalid answer"},
		"access denied":        {set("error", "access_denied"), identitytest.Bend{}, 403, "did not sign you in: you declined there"},
		"foreign error text":   {set("error", `"><script>call 0800</script>`), identitytest.Bend{}, 403, "did not sign you in."},
		"an unknown client":    {set("error", "unauthorized_client"), identitytest.Bend{}, 502, "refuses this gateway, not you"},
		"busy":                 {set("error", "temporarily_unavailable"), identitytest.Bend{}, 503, "does not answer now"},
		"another nonce":        {nil, claim("nonce", token.Random()), 502, "belongs to another sign-in"},
		"another token issuer": {nil, claim("iss", "https://login.example.org"), 400, "is not from 127.0.0.1:"},
		"another audience":     {nil, claim("aud", "crm"), 502, "is for another program"},
		"expired":              {nil, claim("exp", time.Now().Add(-time.Hour).Unix()), 502, "has expired or is not valid yet"},
		"a changed signature":  {nil, identitytest.Bend{ID: func(s string) string { return s[:len(s)-6] + "AAAAAA" }}, 502, "its signature or its content is wrong"},
		"groups left out":      {nil, claim("hasgroups", true), 403, "left your groups out"},
		"no role":              {nil, claim("groups", []string{"staff"}), 403, "none of your groups there has a role here"},
		"no groups":            {nil, claim("groups", nil), 403, "in the claim &#34;groups&#34;"},
		"nonsense": {nil, identitytest.Bend{Trade: func(w http.ResponseWriter, _ *http.Request) bool {
			_, err := w.Write([]byte("<html>"))
			return err == nil
		}}, 502, "sent an invalid answer"},
	} {
		t.Run(name, func(t *testing.T) {
			h, i := newIssued(t, "jwt")
			p, b := h.start(), newJar(t)
			i.Bend(identitytest.Bend{Metadata: tt.bend.Metadata})
			back := i.Visit(b.leave(p, url.Values{"next": {"tools/fs/read_file"}, "kept.note": {"read twice"}, "kept.hash": {"abc"}}))
			i.Bend(tt.bend)
			answer := back.Query()
			answer.Set("error_description", "call 0800")
			if tt.harm != nil {
				tt.harm(answer)
			}
			a := b.send(p, back.Path+"?"+answer.Encode(), nil)
			if a.Status != tt.status || !strings.Contains(a.Body, tt.want) || !strings.Contains(a.Body, "ou are not signed in") && !strings.Contains(a.Body, "nothing was done") {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			if strings.Contains(a.Body, "0800") || b.kept["__Host-portcullis"] != "" || b.actor(p) != "" {
				t.Errorf("the page repeats the issuer's text, or the person is signed in: %s",
					a.Body)
			}
			if !strings.Contains(a.Body, `name="next" value="tools/fs/read_file"`) || !strings.Contains(a.Body, `name="kept.note" value="read twice"`) {
				t.Errorf("the typed text is lost: %s", a.Body)
			}
			log := h.log.String()
			if !strings.Contains(log, "refused") || strings.Contains(log, back.Query().Get("code")) || strings.Contains(log, back.Query().Get("state")) || strings.Contains(log, answer.Get("state")) {
				t.Errorf("log: %s", log)
			}
			i.Bend(identitytest.Bend{})
			if a := b.enter(p, i, nil); a.Status != http.StatusSeeOther || b.actor(p) != "kim@example.com" {
				t.Errorf("the next sign-in: %d %s", a.Status, a.Body)
			}
		})
	}
}

func TestIssuerAnswersAtTheWrongTime(t *testing.T) {
	h, i := newIssued(t, "jwt,token")
	p, b := h.start(), newJar(t)
	back := i.Visit(b.leave(p, nil)).RequestURI()
	const none = "This browser has no sign-in in progress"
	if a := newJar(t).send(p, back, nil); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, none) {
		t.Errorf("the answer in another browser: %d %s", a.Status, a.Body)
	}
	if a := b.send(p, back, nil); a.Status != http.StatusSeeOther {
		t.Errorf("the answer in its own browser: %d %s", a.Status, a.Body)
	}
	if a := b.send(p, back, nil); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "../../admin" {
		t.Errorf("the same answer again, while signed in: %d %s", a.Status, a.Body)
	}
	delete(b.kept, "__Host-portcullis")
	if a := b.send(p, back, nil); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, none) {
		t.Errorf("the same answer again, after the session has ended: %d %s", a.Status, a.Body)
	}
	t.Run("an answer to an earlier sign-in does not end the current sign-in", func(t *testing.T) {
		b := newJar(t)
		first := i.Visit(b.leave(p, nil)).RequestURI()
		second := i.Visit(b.leave(p, nil)).RequestURI()
		if a := b.send(p, first, nil); a.Status != http.StatusBadRequest {
			t.Errorf("the answer to the first sign-in: %d", a.Status)
		}
		if a := b.send(p, second, nil); a.Status != http.StatusSeeOther {
			t.Errorf("the answer to the second sign-in: %d %s", a.Status, a.Body)
		}
	})
	t.Run("down", func(t *testing.T) {
		i.Down(true)
		defer i.Down(false)
		p := h.start() // this process has not read the issuer's metadata yet
		a := newJar(t).send(p, "/admin/login", url.Values{"issuer": {"1"}, "next": {"servers"}})
		if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "does not answer now") || !strings.Contains(a.Body, "or sign in with a secret below") || !strings.Contains(a.Body, `value="servers"`) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a := p.signIn(h.boot.Reveal()); a.Status != http.StatusSeeOther || p.actor(p.cookie) != "bootstrap" {
			t.Errorf("sign-in with the bootstrap token: %d", a.Status)
		}
	})
}

// If the settings no longer give a person a role, the person loses the role at the next request.
// The text that the person typed is still there.
func TestRemovedRole(t *testing.T) {
	for to, want := range map[string]string{
		"PORTCULLIS_VIEWERS": "a viewer, and this needs the role approver",
		"":                   "none of your groups there has a role here",
	} {
		h, i := newIssued(t, "jwt")
		b := newJar(t)
		b.enter(h.start(), i, nil)
		proof := b.proof(h.start())
		h.env["PORTCULLIS_OPERATORS"] = "others"
		if to != "" {
			h.env[to] = "ops"
		}
		p := h.start()
		a := b.send(p, "/admin/tools/fs/read_file/approve", url.Values{"csrf": {proof}, "note": {"read <twice>"}, "hash": {"abc"}})
		if a.Status != http.StatusForbidden || !strings.Contains(html.UnescapeString(a.Body), want) || !strings.Contains(a.Body, "nothing was done") || !strings.Contains(a.Body, "read &lt;twice&gt;</q>") {
			t.Errorf("%q: %d %s", to, a.Status, a.Body)
		}
		if inbox := b.send(p, "/admin", nil).Body; !strings.Contains(inbox, "kim@example.com") || !strings.Contains(inbox, "Sign out") || strings.Contains(inbox, "<nav") != (to != "") {
			t.Errorf("%q: the inbox: %s", to, inbox)
		}
		h.env["PORTCULLIS_OPERATORS"] = "ops"
		delete(h.env, to)
		if got := b.actor(h.start()); got != "kim@example.com" {
			t.Errorf("%q: after the role came back, the inbox greets %q", to, got)
		}
	}
}

// If a person sends a form after their session has ended, the gateway keeps the form during the
// sign-in at the issuer, as far as the form fits into the cookies.
func TestLateFormAtTheIssuer(t *testing.T) {
	h, i := newIssued(t, "jwt")
	p := h.start()
	random := func() string {
		return regexp.MustCompile(`.`).ReplaceAllStringFunc(strings.Repeat("x", 2500), func(string) string { return token.Random()[:1] })
	}
	note, other := random(), random()+random()
	for name, form := range map[string]url.Values{
		"a note":               {"note": {"read <twice>"}, "hash": {"abc"}},
		"a long note":          {"note": {note}, "hash": {"abc"}},
		"too much":             {"note": {"read"}, "item": slices.Repeat([]string{note[:500] + token.Random()}, 1), "more": {note}, "rest": {other}},
		"no page to return to": {"note": {"read"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newJar(t)
			a := b.send(p, "/admin/tools/fs/read_file/approve", form)
			if a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "You are no longer signed in, and nothing was done") {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			sent := url.Values{}
			for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(a.Body, -1) {
				sent.Add(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
			}
			a = b.enter(p, i, sent)
			kept := strings.Contains(a.Body, html.EscapeString(form.Get("note"))+"</q>")
			if cut := strings.Contains(a.Body, "Only a part of your form is kept"); a.Status != http.StatusOK || !kept || cut != (name == "too much") || b.kept["__Host-portcullis"] == "" {
				t.Errorf("%d, cut %v: %s", a.Status, cut, a.Body)
			}
			if len(b.kept) != 1 {
				t.Errorf("the browser keeps %v", slices.Sorted(maps.Keys(b.kept)))
			}
		})
	}
}

// A person at the issuer who has the owner's name is not the owner of the machine. The audit
// distinguishes the two.
func TestIssuerBesideTheOwner(t *testing.T) {
	h, i := newIssued(t, "none")
	h.owner, h.codes = &boot.Owner{Name: "kim", Key: token.NewAdmin()}, signin.NewCodes(nil)
	i.Become("8f3", map[string]any{"preferred_username": "kim", "groups": "ops"})
	p, b := h.start(), newJar(t)
	b.enter(p, i, nil)
	if got := b.actor(p); got != "kim (at the issuer)" {
		t.Errorf("greets %q", got)
	}
	if a := p.signIn(h.owner.Key.Reveal()); a.Status != http.StatusSeeOther || p.actor(p.cookie) != "kim" {
		t.Errorf("the owner's key: %d", a.Status)
	}
	if me := b.send(p, "/admin/me", nil).Body; strings.Contains(me, "me/revoke-others") {
		t.Errorf("the owner's session is listed: %s", me)
	}
}

func TestNothingIsTypedBesideTheIssuer(t *testing.T) {
	h, i := newIssued(t, "jwt")
	p := h.start()
	jwt := i.Token("https://gate.example.com/mcp", map[string]any{"scope": "portcullis:admin"})
	for _, text := range []string{jwt, token.New().Reveal(), token.NewAdmin().Reveal()} {
		if a := p.signIn(text); a.Status != http.StatusUnauthorized || p.cookie != "" || !strings.Contains(a.Body, "This gateway accepts no typed secret") {
			t.Errorf("%.10s: %d %s", text, a.Status, a.Body)
		}
	}
	if a := p.Send("/admin/servers", ""); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "/admin/login") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestIssuerWithoutASealKey(t *testing.T) {
	h, _ := newIssued(t, "jwt")
	delete(h.env, "PORTCULLIS_SEAL_KEY")
	s, err := boot.Load(func(name string) string { return h.env[name] })
	require.OK(t, err)
	p := boot.New(s, boot.Stores{Objects: dir.New(h.folder), Approvals: h.data, Tokens: token.NewStore(h.data)}, boot.Options{})
	if _, err := bootadmin.Everything(p, bootadmin.Browsers{Store: h.logins}); err == nil || !strings.Contains(err.Error(), "PORTCULLIS_SEAL_KEY is not") {
		t.Errorf("Everything = %v", err)
	}
}

// One set of keys checks the tokens of agents and the sign-ins of people.
func TestIssuerKeysAreShared(t *testing.T) {
	h, i := newIssued(t, "jwt")
	p, b := h.start(), newJar(t)
	b.enter(p, i, nil)
	jwt := "Authorization: Bearer " + i.Token("https://gate.example.com/mcp", map[string]any{"groups": []string{"ops"}})
	if a := p.Send("/admin/servers", "", jwt); a.Status != http.StatusOK || i.Fetches() != 1 {
		t.Errorf("status %d, the issuer's keys were fetched %d times, want 1",
			a.Status, i.Fetches())
	}
}

// Only an issuer lets the gateway distinguish two people. If four_eyes is set without an issuer,
// /admin/health says so.
func TestTwoPeopleNeedAnIssuer(t *testing.T) {
	for name, want := range map[string]bool{"with": false, "without": true} {
		h, _ := newIssued(t, "token")
		if name == "without" {
			for _, setting := range []string{"PORTCULLIS_ISSUER", "PORTCULLIS_ADMIN_CLIENT_ID", "PORTCULLIS_ADMIN_CLIENT_SECRET", "PORTCULLIS_OPERATORS"} {
				delete(h.env, setting)
			}
		}
		require.OK(t, os.MkdirAll(filepath.Join(h.folder, "config"), 0o700))
		require.OK(t, os.WriteFile(filepath.Join(h.folder, "config", "mcp_config.json"), []byte(`{"mcpServers": {}, "review": {"four_eyes": "destructive"}}`), 0o600))
		a := h.start().Send("/admin/health", "", "Authorization: Bearer "+h.boot.Reveal())
		if got := strings.Contains(a.Body, "four_eyes_without_issuer"); a.Status != http.StatusOK || got != want {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// A browser keeps separate cookies for each name of this machine. So the sign-in page links to the
// name to which the issuer sends browsers back.
func TestIssuerAtAnotherNameOfTheMachine(t *testing.T) {
	h, i := newIssued(t, "token")
	h.env["PORTCULLIS_BASE_URL"] = "http://127.0.0.1:8080"
	p := h.start()
	host := "127.0.0.1:" + strings.Split(i.URL, ":")[2]
	own := `href="http://127.0.0.1:8080/admin/login?next=servers"`
	if page := p.Send("/admin/login?next=servers", "", admintest.Browser, "Host: localhost:8080").Body; !strings.Contains(page, own) || strings.Contains(page, "Sign in with "+host+"</button>") {
		t.Errorf("at localhost: %s", page)
	}
	if page := p.Send("/admin/login?next=servers", "", admintest.Browser, "Host: 127.0.0.1:8080").Body; strings.Contains(page, own) || !strings.Contains(page, "Sign in with "+host+"</button>") {
		t.Errorf("at the configured name: %s", page)
	}
}
