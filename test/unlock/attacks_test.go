package unlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// To an agent, a tool out of its scope looks like a missing tool, in each kind of request.
func TestOutOfScopeCannotBeLearntOf(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	for _, e := range eras {
		for name, bearer := range map[string]string{"of a person": w.actsFor(sam), "of nobody": w.token("outside-" + e.name[:4])} {
			a := w.agent(e, bearer)
			for _, ask := range []map[string]any{
				destructive("vault:open", `{}`),
				{"name": "request_access", "arguments": json.RawMessage(`{"names":["vault:open"],"note":"vault:open"}`)},
				{"name": "describe_tools", "arguments": json.RawMessage(`{"names":["vault:open"]}`)},
				{"name": "retrieve_tools", "arguments": json.RawMessage(`{"query":"open the vault","include_disabled":true}`)},
			} {
				there := a.post("tools/call", ask)
				data, err := json.Marshal(ask)
				require.OK(t, err)
				none := a.post("tools/call", require.JSON[map[string]any](t, strings.ReplaceAll(string(data), "vault:open", "ghost:opem")))
				got, want := anonymous(there, "vault:open"), anonymous(none, "ghost:opem")
				if there.Status != none.Status || got != want {
					t.Errorf("%s, %s: answer for %v\n%s\nbut for a missing tool\n%s", e.name, name, ask["name"], got, want)
				}
			}
		}
	}
	if list := w.listed("all"); len(list) > 0 {
		t.Errorf("the gateway stored requests: %+v", list)
	}
	if posted := w.slack.posted(); len(posted) > 0 {
		t.Errorf("messages to people: %q", posted)
	}
	w.wantNothing("vault", len(w.vault.Calls()))
}

func (w *world) wantNothing(what string, n int) {
	w.T.Helper()
	if n > 0 {
		w.T.Errorf("%d calls reached the %s", n, what)
	}
}

// anonymous returns an answer without the parts that always differ: the requested name and the id.
func anonymous(a agenttest.Answer, name string) string {
	id := regexp.MustCompile(`"id":\d+`)
	return id.ReplaceAllString(strings.ReplaceAll(a.Body, name, "NAME"), `"id":0`)
}

// Fifty agents ask for a thousand names each. The store keeps a bounded number, and people still
// see the list.
func TestFloodIsBounded(t *testing.T) {
	t.Parallel()
	const names, agents = 1000, 50
	each := 100 // names that most agents ask for; the first one asks for all
	if os.Getenv("PORTCULLIS_LANES") != "" {
		each = names
	}
	w := openBolt(t)
	w.more(names)
	tokens := make([]*agent, agents)
	for i := range tokens {
		tokens[i] = w.agent(eras[0], w.token(fmt.Sprintf("flood-%d", i)))
	}
	fire := strings.Repeat("🔥", 500)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := i; n < agents; n += 8 {
				if n == 0 {
					tokens[n].floods(names, fire)
				} else {
					tokens[n].floods(each, fire)
				}
			}
		})
	}
	wg.Wait()
	asked := time.Since(began)
	began = time.Now()
	list := w.listed("open")
	listed := time.Since(began)
	began = time.Now()
	w.Ask(http.StatusOK, "/admin/requests/"+list[0].ID, nil, nil)
	one := time.Since(began)
	if len(list) != agents*request.MaxOpen {
		t.Errorf("%d requests are open, want %d", len(list), agents*request.MaxOpen)
	}
	if listed > 10*time.Second || one > 10*time.Second {
		t.Errorf("the list takes %v, one request %v", listed, one)
	}
	store, done := w.place.requests(t)
	defer done()
	kept, bytes := 0, 0
	pointers, all, err := store.Requests(t.Context())
	require.OK(t, err)
	seen := map[string]bool{}
	for _, p := range pointers {
		if seen[p.Key] {
			continue
		}
		seen[p.Key] = true
		a, err := store.List(t.Context(), p.Key)
		require.OK(t, err)
		_, data, err := a.Encode()
		require.OK(t, err)
		kept, bytes = kept+len(a.List), max(bytes, len(data))
	}
	if !all || len(seen) != agents || kept != agents*request.MaxOpen || bytes > 100<<10 {
		t.Errorf("the store has %d requests of %d agents, at most %d bytes of an agent", kept, len(seen), bytes)
	}
	t.Logf("%d asked in %v; kept: %d requests, at most %d bytes an agent; the list of all takes %v, one request %v", names+(agents-1)*each, asked, kept, bytes, listed, one)
}

// floods requests many names, ten in each call.
func (a *agent) floods(names int, why string) {
	for n := 0; n < names; n += 10 {
		var list []string
		for i := range 10 {
			list = append(list, fmt.Sprintf("shop:t%d", n+i))
		}
		a.post("tools/call", map[string]any{"name": "request_access", "arguments": map[string]any{"names": list, "note": why}})
	}
}

// hostileNotes contains hostile notes that an agent could send with its request.
var hostileNotes = map[string]string{
	"html":     `</blockquote><script>alert(1)</script><img src=x onerror=alert(2)><b>APPROVED by kim</b>`,
	"bidi":     "invoice \u202ecod.exe\u2066 now\u2069\u200b\u200d\ufeff",
	"control":  "\x1b[2J\x1b]0;pwned\x07\x00 bell\b\b\b\r\nstate: approved",
	"emoji":    strings.Repeat("👨‍👩‍👧‍👦", 71) + "🔥🔥🔥",
	"markdown": "[click](https://evil.example.com) **bold** `code` # head\n\n| a | b |",
	"slack":    "<!channel> <!here> <@U012> <https://evil.example.com|Approve> *bold* @everyone",
}

// A note is text on every page and in every output. Messages do not contain it.
func TestHostileNotes(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	w.more(len(hostileNotes))
	a := w.agent(eras[0], w.token("hostile"))
	tab := w.opens(kim, w.URL+"/admin/requests")
	n := 0
	for name, hostile := range hostileNotes {
		item := fmt.Sprintf("shop:t%d", n)
		n++
		state, id := a.wants(item, hostile)
		if state != "open" {
			t.Errorf("%s: %s", name, state)
			continue
		}
		_, message := w.told(id, item)
		w.wantSilent(message, name)
		for _, page := range []string{"/admin/requests/" + id, "/admin/requests", "/admin", "/admin/ask/" + id} {
			tab.Goto(page)
			w.wantText(tab, name)
		}
		tab.Goto("/admin/requests/" + id)
		tab.SeeText("main blockquote", firstWord(hostile))
		tab.Everywhere("request-hostile-" + name)
		for _, args := range [][]string{{"requests", "--url", w.URL}, {"requests", "show", id, "--url", w.URL}} {
			cmd := exec.CommandContext(t.Context(), programtest.Build(t), args...)
			cmd.Env = append(cmd.Environ(), "PORTCULLIS_TOKEN="+w.Admin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v: %s", args, err, out)
			}
			if bad := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{200b}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{feff}]`).FindString(string(out)); bad != "" {
				t.Errorf("%s: the terminal gets %q: %q", name, bad, out)
			}
		}
	}
}

// The page shows all arguments of a call that a person confirms, as text. If the arguments are too
// long, the gateway does not request a confirmation.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	a := w.agent(eras[0], w.token("hostile-args"))
	tab := w.opens(kim, w.URL+"/admin/requests")
	n := 0
	for name, hostile := range hostileNotes {
		n++
		args, err := json.Marshal(map[string]any{"to": hostile, hostile: n})
		require.OK(t, err)
		got := a.call("shop:pay", string(args))
		id := got.Lock.Confirm.Request
		if id == "" {
			t.Fatalf("%s: %s", name, got.Raw)
		}
		_, message := w.told(id, "shop:pay")
		w.wantSilent(message, name)
		tab.Goto("/admin/requests/" + id)
		w.wantText(tab, name)
		tab.SeeText("#arguments", firstWord(hostile))
		w.press(tab, verdict{value: "confirmed"})
		a.wantRan(a.call("shop:pay", string(args)))
	}
	w.wantCalls("pay", n)
	for _, args := range []string{
		`{"to":"` + strings.Repeat("x", request.MaxArgs) + `"}`, `{"to":"ann","to":"eve"}`, `{"to":"\ud800"}`,
	} {
		if got := a.call("shop:pay", args); got.Ran || got.Lock.Confirm.Request != "" {
			t.Errorf("the gateway requests a confirmation of %.40s: %s", args, got.Raw)
		}
	}
	w.wantCalls("pay", n)
}

// wantSilent checks that a message contains no part of a hostile text.
func (w *world) wantSilent(message, name string) {
	w.T.Helper()
	for _, part := range []string{"evil", "channel", "alert", "pwned", "invoice", "cod.exe", "🔥", "👨"} {
		if strings.Contains(message, part) {
			w.T.Errorf("%s: the message contains %q: %s", name, part, message)
		}
	}
}

// firstWord returns the start of a note that pages show without changes.
func firstWord(note string) string {
	return regexp.MustCompile(`[a-zA-Z]+|🔥`).FindString(note)
}

// wantText checks that no part of a note became an element of the page.
func (w *world) wantText(tab *browsertest.Tab, name string) {
	w.T.Helper()
	if tab.Has(`main script, main img[src=x], main b:is([onerror]), [href*="evil"]`) || browsertest.Eval[bool](tab, `/[\u0000-\u0008\u001b\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)`) {
		w.T.Errorf("%s: a part of the note is an element of %s", name, tab.Path())
	}
}

// sealed returns the code of a link, sealed with the gateway's key.
func (w *world) sealed(c request.Code, at time.Time) string {
	w.T.Helper()
	s := seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{Current: []byte(sealKey)}, nil })
	code, err := request.SealCode(w.T.Context(), s, c, at)
	require.OK(w.T, err)
	return code
}

// A link works only for the user of its agent, only unchanged, and only for a day.
func TestLinksOfOthers(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	a := w.agent(eras[0], w.actsFor(sam))
	link := a.call("shop:ship", `{}`).Link
	code := strings.TrimPrefix(link, w.URL+"/admin/ask/")
	_, id := a.wants("shop:drop", "the secret reason")

	// Other people can read the page, but cannot act on it.
	other := w.opens(lee, link)
	other.SeeText("main", "shop")
	stranger := w.opens(person{"u-eve", "eve@example.com", nil}, w.URL+"/admin/ask/"+id)
	stranger.SeeText("main", "shop")
	if text := stranger.Text("main"); strings.Contains(text, "secret reason") || strings.Contains(text, sam.name) {
		t.Errorf("a stranger reads %q", text)
	}
	owner := w.opens(sam, w.URL+"/admin/ask/"+id)
	owner.See("button[name=ask]")
	for _, tab := range []*browsertest.Tab{other, stranger} {
		if tab.Has("button[name=ask]") || tab.Has("form[action$=withdraw]") {
			t.Errorf("%s has a button for another person", tab.Path())
		}
		jar := "portcullis=" + tab.Cookie("portcullis")
		proof := w.proof(jar)
		for path, form := range map[string]url.Values{
			"/admin/ask/" + code: {"ask": {"1"}, "why": {"mine"}}, "/admin/ask/" + id: {"ask": {"1"}, "why": {"mine"}}, "/admin/ask/" + id + "/withdraw": {},
		} {
			form.Set("csrf", proof)
			if got := w.posts(path, form, jar); got.Status != http.StatusForbidden {
				t.Errorf("another person sends the form of %.40s: %d", path, got.Status)
			}
		}
	}

	// The gateway does not find a link that is forged, changed or expired.
	jar := "Cookie: portcullis=" + owner.Cookie("portcullis")
	agentOf := func(p person) request.Agent {
		return request.Agent{Way: identity.WayJWT, ID: "ide", Human: p.subject, Subject: w.issuer.URL + " " + p.subject}
	}
	hash := tool.Hash(w.see(id).Hash)
	ship := request.Code{Agent: agentOf(sam), Item: tool.ID{Server: "shop", Name: "rotate"}, Hash: hash, Status: lock.PendingApproval}
	now := time.Now()
	flipped := []byte(code)
	flipped[len(flipped)/2] ^= 1
	for name, text := range map[string]string{
		"changed": string(flipped), "cut off": code[:len(code)-4], "made up": strings.Repeat("A", 120), "empty": "%20",
		"expired": w.sealed(ship, now.Add(-25*time.Hour)), "no request": "R-00000000",
	} {
		if got := w.Send("/admin/ask/"+text, "", jar, "Authorization: ", htmlOnly); got.Status != http.StatusNotFound {
			t.Errorf("a link that is %s: %d", name, got.Status)
		}
	}
	// A link for another definition, a missing tool or another person creates no request.
	proof := w.proof(strings.TrimPrefix(jar, "Cookie: "))
	before := len(w.listed("all"))
	for name, c := range map[string]request.Code{
		"of another definition":                      {Agent: agentOf(sam), Item: ship.Item, Hash: tool.Hash(strings.Repeat("0", 64)), Status: ship.Status},
		"of a tool that is gone":                     {Agent: agentOf(sam), Item: tool.ID{Server: "shop", Name: "gone"}, Hash: hash, Status: ship.Status},
		"of another person's":                        {Agent: agentOf(lee), Item: ship.Item, Hash: hash, Status: ship.Status},
		"of an agent without a user":                 {Agent: request.Agent{Way: identity.WayToken, ID: "token:ci"}, Item: ship.Item, Hash: hash, Status: ship.Status},
		"of another issuer's user with the same sub": {Agent: request.Agent{Way: identity.WayJWT, ID: "ide", Human: sam.subject, Subject: "https://other.example.com " + sam.subject}, Item: ship.Item, Hash: hash, Status: ship.Status},
	} {
		got := w.posts("/admin/ask/"+w.sealed(c, now), url.Values{"ask": {"1"}, "for": {"60"}, "csrf": {proof}}, strings.TrimPrefix(jar, "Cookie: "))
		if got.Status < 400 || got.Status >= 500 {
			t.Errorf("a link %s: %d", name, got.Status)
		}
	}
	if after := len(w.listed("all")); after != before {
		t.Errorf("%d new requests", after-before)
	}
}

const htmlOnly = "Accept: text/html"

// proof returns the CSRF token of a session.
func (w *world) proof(jar string) string {
	w.T.Helper()
	page := w.Send("/admin/me", "", "Cookie: "+jar, "Authorization: ", htmlOnly).Body
	m := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		page = w.Send("/admin/ask/R-00000000", "", "Cookie: "+jar, "Authorization: ", htmlOnly).Body
		m = regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	}
	if m == nil {
		w.T.Fatalf("no form has a CSRF token: %s", page)
	}
	return html.UnescapeString(m[1])
}

// posts sends a form as a browser with these cookies does.
func (w *world) posts(path string, form url.Values, jar string, headers ...string) agenttest.Answer {
	w.T.Helper()
	return w.Send(path, form.Encode()+"&x=", append([]string{
		htmlOnly, "Content-Type: application/x-www-form-urlencoded", "Cookie: " + jar, "Authorization: ", "Origin: " + w.URL, "Sec-Fetch-Site: same-origin",
	}, headers...)...)
}

// An agent cannot decide with its own credentials, and another site cannot decide for a person.
func TestOnlyPeopleDecide(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	token, jwt := w.token("decider"), w.actsFor(sam)
	a := w.agent(eras[0], jwt)
	code := strings.TrimPrefix(a.call("shop:ship", `{}`).Link, w.URL+"/admin/ask/")
	_, id := a.wants("shop:drop", note)
	s := w.see(id)
	paths := map[string]string{
		"/admin/requests/" + id + "/decide":  fmt.Sprintf(`{"verdict":"approved","hash":%q}`, s.Hash),
		"/admin/ask/" + code:                 `{"why":"me"}`,
		"/admin/ask/" + id:                   `{"why":"me"}`,
		"/admin/ask/" + id + "/withdraw":     `{}`,
		"/admin/tools/shop/drop/approve":     fmt.Sprintf(`{"hash":%q}`, s.Hash),
		"/admin/requests/" + id + "/decide/": `{}`,
	}
	for name, bearer := range map[string]string{"an agent token": token, "a person's JWT": jwt, "nothing": ""} {
		for _, path := range []string{"/admin/requests", "/admin/requests/" + id, "/admin/ask/" + id, "/admin/ask/" + code} {
			if got := w.Send(path, "", "Authorization: Bearer "+bearer); got.Status != http.StatusForbidden && got.Status != http.StatusUnauthorized {
				t.Errorf("%s reads %.40s: %d %s", name, path, got.Status, got.Body)
			}
		}
		for path, body := range paths {
			if got := w.Send(path, body, "Authorization: Bearer "+bearer); got.Status != http.StatusForbidden && got.Status != http.StatusUnauthorized {
				t.Errorf("%s sends %.40s: %d %s", name, path, got.Status, got.Body)
			}
		}
	}

	// An agent with the token of an approver has the approver's role, but cannot decide about its
	// own requests.
	chief := w.issuer.Token(audience, map[string]any{"sub": kim.subject, "client_id": "ide", "groups": kim.groups, "scope": "portcullis:destructive"})
	_, own := w.agent(eras[0], chief).wants("shop:ship", note)
	for _, id := range []string{id, own} {
		s := w.see(id)
		for _, v := range []string{"approved", "allowed", "confirmed", "declined"} {
			body := fmt.Sprintf(`{"verdict":%q,"hash":%q,"args":%q,"minutes":1,"reason":"mine"}`, v, s.Hash, s.Args)
			if got := w.Send("/admin/requests/"+id+"/decide", body, "Authorization: Bearer "+chief); got.Status != http.StatusForbidden {
				t.Errorf("an agent with an approver's token: %s: %d %s", v, got.Status, got.Body)
			}
		}
	}

	approver, asker := w.opens(kim, w.URL+"/admin/requests/"+id), w.opens(sam, w.URL+"/admin/ask/"+id)
	for path, tab := range map[string]*browsertest.Tab{
		"/admin/requests/" + id + "/decide": approver, "/admin/ask/" + code: asker, "/admin/ask/" + id: asker, "/admin/ask/" + id + "/withdraw": asker,
	} {
		jar := "portcullis=" + tab.Cookie("portcullis")
		form := url.Values{"verdict": {"approved"}, "hash": {s.Hash}, "ask": {"1"}, "why": {"forged"}, "for": {"60"}}
		forged := func(name string, csrf string, headers ...string) {
			t.Helper()
			form.Set("csrf", csrf)
			if got := w.posts(path, form, jar, headers...); got.Status < 400 || got.Status >= 500 {
				t.Errorf("%s, %.40s: %d %s", name, path, got.Status, got.Header)
			}
		}
		forged("without a proof", "")
		forged("with a made up proof", strings.Repeat("a", 43))
		forged("with another's proof", w.proof("portcullis="+map[bool]*browsertest.Tab{true: asker, false: approver}[tab == approver].Cookie("portcullis")))
		forged("from another site", w.proof(jar), "Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site")
		forged("as text", w.proof(jar), "Content-Type: text/plain")
	}
	if now := w.see(id); now.State != "open" {
		t.Errorf("the request is %s", now.State)
	}
	if list := w.listed("open"); len(list) != 2 {
		t.Errorf("%d requests are open", len(list))
	}
}
