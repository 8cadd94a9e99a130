package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An asker is a fixture in which people sign in through an OIDC issuer, and links are sealed.
type asker struct {
	*fixture
	sealer *seal.Sealer
	rights identity.Rights // of the signed-in person
	cookie string
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	h := &asker{fixture: newFixture(t)}
	h.sealer = seal.New(func(context.Context) (seal.Keys, error) {
		return seal.Keys{Current: []byte(strings.Repeat("k", seal.MinKey))}, nil
	})
	h.Decide.Sealer = h.sealer
	h.Console.Actor = nil
	h.Console.SignIn = &console.SignIn{
		Sessions: signin.NewSessions(signin.NewStore(&documenttest.Store{Now: h.Clock.Now}, h.Clock.Now), tokentest.Key(t), &signin.SessionOptions{Client: "console", Now: h.Clock.Now}),
		Rights:   func(signin.Session) identity.Rights { return h.rights },
	}
	h.Open()
	return h
}

// enter signs in a person at the issuer.
func (h *asker) enter(name, sub string, rights identity.Rights) {
	h.T.Helper()
	cookie, err := h.Console.SignIn.Sessions.Open(h.T.Context(), signin.Person{Actor: name, Way: signin.WayOIDC, Subject: "https://login.example.com " + sub}, "")
	require.OK(h.T, err)
	h.cookie, h.rights = "Cookie: __Host-portcullis="+cookie.Reveal(), rights
}

// link returns the code of a link for a refused call of an agent.
func (h *asker) link(a request.Agent, id string) string {
	h.T.Helper()
	item := gatewaytest.ID(h.T, id)
	v := h.States.Load(h.T.Context()).View(h.Agent)
	i, ok := v.Find(item)
	if !ok {
		h.T.Fatalf("%s is not in the catalog", id)
	}
	code, err := request.SealCode(h.T.Context(), h.sealer, request.Code{Agent: a, Item: item, Hash: v.Tool(i).Definition.Hash, Status: v.Status(i)}, h.Clock.Now())
	require.OK(h.T, err)
	return code
}

func (h *asker) get(path string) agenttest.Answer {
	h.T.Helper()
	return h.Send(path, "", browser, h.cookie)
}

func (h *asker) page(path string) string {
	h.T.Helper()
	a := h.get(path)
	if a.Status != http.StatusOK || len(a.Body) > maxPage {
		h.T.Fatalf("%s: %d, %d bytes: %s", path, a.Status, len(a.Body), a.Body)
	}
	return a.Body
}

// send sends a form of the page, and returns the next page or the refusal.
func (h *asker) send(page, path string, form url.Values) agenttest.Answer {
	h.T.Helper()
	form.Set("csrf", h.Field(page, "csrf"))
	return h.Submit(path, form, h.cookie)
}

// The agent's user requests access by a sealed link, without a role. Opening the page writes
// nothing.
func TestAskByLink(t *testing.T) {
	h := newAsker(t)
	code := h.link(bot, "mail:send")
	h.enter("sam", "1", identity.Rights{})
	at := "/admin/ask/" + code
	page := h.page(at)
	says(t, page, "<bdi>deploy-bot for sam</bdi> needs access to mail:<b>send</b>", "which acts for you", "No request was made yet", `name="for" value="0" checked`, `name="ask" value="1"`, "sam", "Sign out")
	lacks(t, page, "Inbox", `aria-label="Main"`, "admin/me", "Emergency stop", "admin/tools", "viewer", "class=\"banner\"", "Withdraw")
	if strings.Index(page, `<button class="hide"`) > strings.Index(page, `name="ask"`) {
		t.Error("pressing the Enter key in a field would send the request")
	}
	kept := h.send(page, at, url.Values{"why": {"half <typed>"}, "for": {"other"}, "minutes": {"90"}})
	says(t, kept.Body, "No request was made. The text that you typed is below", `value="half &lt;typed&gt;"`, `value="other" checked`, `value="90"`)
	refused := h.send(page, at, url.Values{"why": {"typed"}, "for": {"other"}, "minutes": {"soon"}, "ask": {"1"}})
	says(t, refused.Body, "Minutes: want a whole number from 1 to 43200; no request was made", `value="typed"`)
	if list, err := h.Requests().List(t.Context(), bot.Key()); err != nil || len(list.List) > 0 {
		t.Fatalf("got requests %v, error %v; want no requests", list, err)
	}

	asked := h.send(page, at, url.Values{"why": {"the <report>"}, "for": {"480"}, "ask": {"1"}})
	to := asked.Header.Get("Location")
	if asked.Status != http.StatusSeeOther || !strings.HasPrefix(to, "./R-") {
		t.Fatalf("%d to %q: %s", asked.Status, to, asked.Body)
	}
	at = "/admin/ask/" + strings.TrimPrefix(to, "./")
	page = h.page(at)
	says(t, page, "You asked. The people who decide see the request now", "the &lt;report&gt;", `value="480" checked`, "Save", "Withdraw")
	id, _, _ := strings.Cut(strings.TrimPrefix(to, "./"), "?")
	if again := h.page("/admin/ask/" + code); !strings.Contains(again, id) {
		t.Error("the link does not open the request that was made through it")
	}
	withdrawn := h.send(page, "/admin/ask/"+id+"/withdraw", url.Values{})
	if withdrawn.Status != http.StatusSeeOther || withdrawn.Header.Get("Location") != "../"+id+"?did=withdrawn" {
		t.Fatalf("%d to %q: %s", withdrawn.Status, withdrawn.Header.Get("Location"), withdrawn.Body)
	}
	says(t, h.page("/admin/ask/"+id+"?did=withdrawn"), "You withdrew the request", "withdrawn</span>")
}

// The page shows the outcome to the agent's user, even if they have no role.
func TestAskBecomes(t *testing.T) {
	h := newAsker(t)
	h.enter("kim", "9", identity.Everything())
	id := h.Asks(bot, "mail:send", "note of the agent", "")
	page := h.page("/admin/requests/" + id)
	if a := h.send(page, "/admin/requests/"+id+"/decide", url.Values{"verdict": {"declined"}, "hash": {h.Field(page, "hash")}, "reason": {"use <staging>"}}); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	h.enter("sam", "1", identity.Rights{})
	page = h.page("/admin/ask/" + id)
	says(t, page, "declined", "<bdi>kim</bdi>", "use &lt;staging&gt;", "The agent can ask again", "note of the agent")
	lacks(t, page, `name="ask"`, "Withdraw", "admin/requests")
}

// Other people can open the link, but cannot act. Without a role they see neither texts nor
// definitions.
func TestAskByOthers(t *testing.T) {
	h := newAsker(t)
	h.ByName["mail"].Tools[0] = `{"name":"send","description":"SECRETDESCRIPTION","inputSchema":{"type":"object","properties":{"SECRETPARAMETER":{"type":"string"}}}}`
	h.enter("kim", "9", identity.Everything())
	h.Sync()
	id, code := h.Asks(bot, "mail:send", "SECRETNOTE", ""), h.link(bot, "mail:read_drafts")
	const only = "Only the agent&#39;s user can ask, and you are not signed in as that user."
	h.enter("eve", "2", identity.Rights{})
	for _, at := range []string{"/admin/ask/" + id, "/admin/ask/" + code} {
		page := h.page(at)
		says(t, page, only, "deploy-bot", "mail:")
		lacks(t, page, "SECRET", "sam", `name="ask"`, "Withdraw", "admin/requests", "admin/tools", "Drafts are private", "no-drafts", `aria-label="Main"`)
		a := h.send(page, at, url.Values{"ask": {"1"}, "why": {"I <want> it"}, "for": {"0"}})
		if a.Status != http.StatusForbidden {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	for _, path := range []string{"/admin", "/admin/requests", "/admin/requests/" + id, "/admin/me", "/admin/ask", "/admin/ask/", "/admin/ask/" + id + "/x", "/admin/ask/" + id + "/../../tools", "/admin/tools/mail/send"} {
		if a := h.get(path); a.Status != http.StatusForbidden {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	h.enter("ann", "3", identity.Rights{Role: identity.Viewer})
	page := h.page("/admin/ask/" + id)
	says(t, page, only, "SECRETNOTE", "deploy-bot for sam", "admin/requests/"+id, "View</a>")
	says(t, h.page("/admin/ask/"+code), only, "admin/tools/mail/read_drafts")
	h.enter("kim", "9", identity.Everything())
	says(t, h.page("/admin/ask/"+id), only, "View and decide")
}

func TestAskNothing(t *testing.T) {
	h := newAsker(t)
	code, open := h.link(bot, "mail:send"), h.link(bot, "fs:read_file")
	h.enter("sam", "1", identity.Rights{})
	says(t, h.page("/admin/ask/"+open), "The agent can call it now")
	if a := h.get("/admin/ask/" + code[:len(code)-2]); a.Status != http.StatusNotFound || strings.Contains(a.Body, code[:20]) {
		t.Errorf("a truncated link: %d %s", a.Status, a.Body)
	}
	h.ByName["mail"].Tools[0] = `{"name":"send","description":"Another."}`
	h.Sync()
	page := h.page("/admin/ask/" + code)
	says(t, page, "The definition has changed since the link was made")
	lacks(t, page, `name="ask"`)
}

// A link's code survives the sign-in, even if the code is long. The code is in no log and in no
// Referer.
func TestAskThroughSignIn(t *testing.T) {
	h := newAsker(t)
	long := request.Agent{Way: identity.WayJWT, ID: strings.Repeat("a", 256), Human: strings.Repeat("ü", 128), Subject: "https://login.example.com " + strings.Repeat("s", 512)}
	code := h.link(long, "mail:send")
	a := h.Send("/admin/ask/"+code, "", browser)
	to := "../../admin/login?next=" + url.QueryEscape("ask/"+code)
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != to || len(code) < 1500 {
		t.Fatalf("%d to %q, the code has %d bytes", a.Status, a.Header.Get("Location"), len(code))
	}
	login := h.Send("/admin/login?next="+url.QueryEscape("ask/"+code), "", browser)
	says(t, login.Body, `name="next" value="ask/`+code+`"`)
	for path, answer := range map[string]agenttest.Answer{"the page": a, "the sign-in": login} {
		if got := answer.Header.Get("Referrer-Policy"); got != "strict-origin" {
			t.Errorf("%s: Referrer-Policy %q", path, got)
		}
	}
	h.enter("eve", "2", identity.Rights{})
	page := h.page("/admin/ask/" + code)
	h.send(page, "/admin/ask/"+code, url.Values{"ask": {"1"}})
	h.Submit("/admin/ask/"+code, url.Values{"ask": {"1"}, "csrf": {"wrong"}}, h.cookie)
	h.Submit("/admin/ask/"+code+"/withdraw", url.Values{})
	h.Send("/admin/ask/"+code, `{}`, "Accept: application/json")
	h.Send("/admin/ask/"+code+"/more", "", browser, h.cookie)
	if log := h.Log.String(); strings.Contains(log, code[:40]) || !strings.Contains(log, "path=/admin/ask/…") {
		t.Errorf("the log has the code of a link: %s", log)
	}
	if got := h.get("/admin/login").Header.Get("Referrer-Policy"); got != "strict-origin" {
		t.Errorf("%q", got)
	}
}

// A form that was sent after the session ended is shown again after the sign-in, on its page.
func TestAskTooLate(t *testing.T) {
	h := newAsker(t)
	code := h.link(bot, "mail:send")
	a := h.Submit("/admin/ask/"+code, url.Values{"ask": {"1"}, "why": {"typed"}, "for": {"60"}}, "Referer: https://gate.example.com/")
	says(t, a.Body, `name="next" value="ask/`+code+`"`, `name="kept.why" value="typed"`)
	a = h.Submit("/admin/ask/"+code+"/withdraw", url.Values{"x": {""}}, "Referer: https://gate.example.com/")
	says(t, a.Body, `name="next" value="ask/`+code+`"`)
	h.enter("sam", "1", identity.Rights{})
	a = h.send(h.page("/admin/ask/"+code), "/admin/ask/"+code, url.Values{"again": {"1"}, "ask": {"1"}, "why": {"typed"}, "for": {"60"}})
	says(t, a.Body, `value="typed"`, `value="60" checked`, "Nothing was done: your form came too late.")
	if list, err := h.Requests().List(t.Context(), bot.Key()); err != nil || len(list.List) > 0 {
		t.Errorf("got requests %v, error %v; want no requests", list, err)
	}
}
