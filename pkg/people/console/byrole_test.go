package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sends matches the addresses to which a page can send a form.
var sends = regexp.MustCompile(`<form[^>]*method="post"[^>]*action="([^"]*)"|<form[^>]*action="([^"]*)"[^>]*method="post"|formaction="([^"]*)"`)

// No page shows a button whose request would be refused.
func TestNoButtonIsRefused(t *testing.T) {
	all, h := rows(), newStage(t)
	h.setBackHere()
	mux := http.NewServeMux()
	for route := range all {
		if route != "/" {
			mux.HandleFunc(route, func(http.ResponseWriter, *http.Request) {})
		}
	}
	offered := map[string]int{}
	for _, p := range people()[2:] {
		for route, r := range all {
			method, _, _ := strings.Cut(route, " ")
			if method != http.MethodGet || !r.may(p) {
				continue
			}
			a := access{T: t, stage: h, route: route, row: r, html: true}
			send := a.prepare()
			h.who = p
			page := send()
			h.who = people()[6]
			for _, m := range sends.FindAllStringSubmatch(page.Body, -1) {
				to, err := url.Parse("https://gate.example.com" + a.sent)
				require.OK(t, err)
				to, err = to.Parse(strings.ReplaceAll(m[1]+m[2]+m[3], "&amp;", "&"))
				require.OK(t, err)
				_, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodPost, to.String(), nil))
				target, ok := all[pattern]
				if target.server != "" && !strings.HasPrefix(to.Path, "/admin/requests/") { // all requests of the stage are about one server
					target.server = strings.Split(to.Path, "/")[3]
				}
				if m[3] != "" && target.server != "" && !strings.HasPrefix(to.Path, a.sent+"/") {
					t.Errorf("%s: %s offers %s, which is about another item", p.name, a.sent, to.Path)
				}
				offered[p.name]++
				if !ok || !target.may(p) {
					t.Errorf("%s: %s offers %s (%q), which is refused", p.name, a.sent, to.Path, pattern)
				}
			}
		}
	}
	if offered["viewer"] == 0 || offered["viewer"] >= offered["approver of mail"] || offered["approver of fs"] >= offered["approver"] || offered["approver"] >= offered["operator"] {
		t.Errorf("number of buttons: %v; want more for a role with more rights", offered)
	}
}

// setBackHere restores an old state of the store, and syncs. It does not change the caller of the
// stage.
func (s *stage) setBackHere() {
	s.RestoreOldStore()
	s.Sync()
}

func (s *stage) be(name string, rights identity.Rights) { s.who = person{name: name, rights: rights} }

// If a page omits an action because of the role, the page says who may do it.
func TestPagesByRole(t *testing.T) {
	h := newStage(t)
	h.setBackHere()
	mail, fs := identity.Rights{Role: approver, Servers: []string{"mail"}}, identity.Rights{Role: approver, Servers: []string{"fs"}}
	for _, tt := range []struct {
		rights     identity.Rights
		path       string
		says, lack []string
	}{
		{identity.Rights{Role: viewer}, "/admin/tools/mail/send", []string{"</span></a> · viewer", "You are &#34;kim&#34;, a viewer, and this needs the role approver. An operator assigns roles."}, []string{`value="approve"`, `id="decide"`, "Tokens"}},
		{identity.Rights{Role: viewer}, "/admin/tools", []string{"As a viewer you can only read"}, []string{"checkbox", "Approve…"}},
		{identity.Rights{Role: viewer}, "/admin/servers", []string{"An operator can sync now."}, []string{"Sync now"}},
		{identity.Rights{Role: viewer}, "/admin/config", []string{"An operator chooses."}, []string{`approvals/restore"`}},
		{identity.Rights{Role: viewer}, "/admin", []string{"Waiting for an approver", "<title>Inbox"}, []string{"Review"}},
		{mail, "/admin/tools/mail/send", []string{" · approver", `id="decide"`}, []string{"You decide about items of"}},
		{fs, "/admin/tools/mail/send", []string{"You decide about items of fs, and this item is of mail. Ask somebody who decides about mail."}, []string{`id="decide"`}},
		{identity.Rights{Role: viewer}, "/admin/me", []string{"Your role is <b>viewer</b>: you can see everything and decide nothing. It comes with the credentials that you send"}, nil},
		{mail, "/admin/me", []string{"<b>approver</b>, for items of mail: you can see everything and decide about the items of these servers."}, nil},
		{mail, "/admin", []string{"Waiting for you", "<title>(", "mine=yes"}, nil},
		{fs, "/admin", []string{"Nothing waits for you", "Nothing of fs waits for a decision", "<title>Inbox"}, []string{"Waiting for"}},
		{fs, "/admin/tools?status=pending_approval", []string{"that I decide about"}, []string{`name="item"`}},
		{fs, "/admin/tools?status=pending_approval&mine=yes", []string{"Nothing waits here"}, []string{"mail:"}},
		{identity.Everything(), "/admin/tools/mail/send", []string{" · operator", `id="decide"`, "Tokens"}, []string{"You may look"}},
	} {
		h.be("kim", tt.rights)
		page := h.Page(http.StatusOK, tt.path)
		says(t, page, tt.says...)
		lacks(t, page, tt.lack...)
	}
}

// A bulk page names the items that it leaves out because they are on other servers.
func TestSheetOfOtherServers(t *testing.T) {
	h := newStage(t)
	row := admintest.Into[decide.Page](h.Fixture, "/admin/tools?server=mail&status=pending_approval", "").Tools[0]
	h.be("kim", identity.Rights{Role: approver, Servers: []string{"fs"}})
	form := url.Values{"action": {"block"}, "item": {row.ID + " " + string(row.Hash) + " 1"}}
	for _, path := range []string{"/admin/tools/bulk", "/admin/tools"} {
		page := h.Submit(path, form).Body
		says(t, page, row.ID,
			"ou decide about items of fs, and this item is of mail. Ask somebody who decides about mail.")
	}
	if s := h.Status(row.ID); s != lock.PendingApproval {
		t.Errorf("%s is %q", row.ID, s)
	}
}

// If an operator removes a person's role while the person has a page open, the form of the page
// decides nothing. The answer keeps the typed text.
func TestRoleTakenAway(t *testing.T) {
	h := newStage(t)
	page := h.Page(http.StatusOK, "/admin/tools/mail/send")
	form := url.Values{"hash": {h.Field(page, "hash")}, "rev": {h.Field(page, "rev")}, "note": {"read it <twice>"}}
	for _, tt := range []struct {
		rights identity.Rights
		says   string
	}{
		{identity.Rights{Role: viewer}, "a viewer, and this needs the role approver. An operator"},
		{identity.Rights{}, "without a role, and this needs the role approver. An operator"},
		{identity.Rights{Role: approver, Servers: []string{"fs"}}, "Nothing was decided: you"},
	} {
		h.be("kim", tt.rights)
		a := h.Submit("/admin/tools/mail/send/approve", form)
		if a.Status != http.StatusForbidden {
			t.Errorf("%v: %d", tt.rights, a.Status)
		}
		says(t, a.Body, tt.says, "read it &lt;twice&gt;", "/admin/tools/mail/send"[len("/admin/"):])
		lacks(t, a.Body, `value="approve"`)
	}
	if r := h.Record("mail:send"); r.State != approval.Pending || r.Rev != 1 {
		t.Errorf("got record %+v, want pending at revision 1", r)
	}
}

// TestFourEyesPages has two people approve a tool on the pages.
func TestFourEyesPages(t *testing.T) {
	h := newStage(t)
	h.Put(config.Key, strings.Replace(admintest.Config, "{", `{"review":{"four_eyes":"destructive"},`, 1))
	h.Sync()
	const at = "/admin/tools/mail/send"
	approve := func(as *decide.Actor) string {
		t.Helper()
		as.Rights = identity.Everything()
		h.actor = as
		page := h.Page(http.StatusOK, at)
		a := h.Submit(at+"/approve", url.Values{"hash": {h.Field(page, "hash")}, "rev": {h.Field(page, "rev")}, "note": {"mine"}})
		if a.Status != http.StatusSeeOther {
			return a.Body
		}
		to, err := url.Parse("https://gate.example.com" + at + "/approve")
		require.OK(t, err)
		to, err = to.Parse(a.Header.Get("Location"))
		require.OK(t, err)
		return page + h.Page(http.StatusOK, to.RequestURI())
	}
	says(t, approve(&decide.Actor{Name: "kim", Subject: "1"}),
		"this gateway has no such sign-in. The operator", `class="banner"`,
		"review.four_eyes needs two people")
	h.Decide.Issuer = true
	h.Open()
	says(t, approve(&decide.Actor{Name: "token:ci"}),
		"you are &#34;token:ci&#34;, who is not. Sign in",
		"Approving it takes two people who are signed in with the issuer, and you are")
	first := approve(&decide.Actor{Name: "kim", Subject: "1"})
	says(t, first, "Yours is the first approval",
		"Approved, as the first of two people, mail:send. It unlocks when another person approves it too.", `value="undo"`)
	lacks(t, first, `class="banner"`)
	page := h.Page(http.StatusOK, at)
	says(t, page, "approved by kim", "“mine”; one more person is needed",
		"You approved this definition already, as the first of two people.", `value="block"`)
	lacks(t, page, `value="approve"`)
	says(t, h.Page(http.StatusOK, "/admin/tools?server=mail"), "approved by kim, one more person needed")
	says(t, h.Page(http.StatusOK, "/admin"), "kim · propose")
	row := admintest.Into[decide.Page](h.Fixture, "/admin/tools?server=mail&status=pending_approval&kind=tool", "").Tools[0]
	form := url.Values{"action": {"approve"}, "item": {row.ID + " " + string(row.Hash) + " 2"}}
	says(t, h.Submit("/admin/tools/bulk", form).Body,
		"You approved this definition already, as the first of two people.")
	says(t, approve(&decide.Actor{Name: "sam", Subject: "2"}), "Yours is the second approval, and unlocks it.", "Approved mail:send.")
	if s := h.Status("mail:send"); s != lock.None || !slices.Contains(decide.Actions(), "undo") {
		t.Errorf("mail:send is %q, want callable", s)
	}
	says(t, h.Page(http.StatusOK, at+"/history"), "approved as the first of two people; it waited for the second")
}
