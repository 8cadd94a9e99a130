package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

var kims = request.Agent{Way: identity.WayJWT, ID: "bot", Human: "kim", Subject: "https://login.example.com kim"}

// A note with malicious characters is unchanged in the list and in the answer.
const hostile = "\x1b[2J<script>alert(1)</script> \u202e\"}]"

func TestRequests(t *testing.T) {
	h := newFixture(t)
	id := h.Asks(kims, "mail:send", hostile, "")
	list := admintest.Into[admin.Requests](h.Fixture, "/admin/requests", "")
	if !list.All || len(list.Requests) != 1 || list.Requests[0].ID != id || list.Requests[0].Note != hostile || !strings.HasSuffix(list.Requests[0].Link, "/admin/requests/"+id) {
		t.Fatalf("listed as %+v", list)
	}
	r := admintest.Into[decide.Request](h.Fixture, "/admin/requests/"+strings.ToLower(id), "")
	if o := r.Obstacles; o["approved"] != nil || o["declined"] != nil || o["confirmed"].Code != decide.WrongVerdict {
		t.Errorf("obstacles of an open request: %+v", o)
	}
	body := func(verdict, more string) string {
		return fmt.Sprintf(`{"verdict": %q, "hash": %q%s}`, verdict, r.Hash, more)
	}
	path := "/admin/requests/" + id + "/decide"
	h.Problem(http.StatusUnprocessableEntity, path, body("declined", ""))
	h.Problem(http.StatusUnprocessableEntity, path, body("maybe", ""))
	h.Problem(http.StatusConflict, path, body("approved", `, "tool": "mail:read_drafts"`))
	got := admintest.Into[decide.Request](h.Fixture, path, body("allowed", `, "minutes": 480, "tool": "mail:send"`))
	if got.State != decide.RequestAllowed || got.Decided.Ends.Sub(got.Decided.At).Hours() != 8 || got.Decided.By != "ann" || got.Locked != "" {
		t.Errorf("allowed: %+v", got)
	}
	if text := h.Problem(http.StatusConflict, path, body("approved", "")); !strings.Contains(text, "ann decided about this request") {
		t.Errorf("decided again: %s", text)
	} else if o := got.Obstacles["approved"]; o == nil || text != "nothing was decided: "+o.Detail {
		t.Errorf("decided again: %s, obstacle: %+v", text, o)
	}
	if list := admintest.Into[admin.Requests](h.Fixture, "/admin/requests", ""); len(list.Requests) != 0 {
		t.Errorf("open requests: %+v", list)
	}
	if list := admintest.Into[admin.Requests](h.Fixture, "/admin/requests?state=all", ""); len(list.Requests) != 1 {
		t.Errorf("all requests: %+v", list)
	}
	if got := admintest.Into[decide.Request](h.Fixture, path, `{"verdict": "revoked"}`); got.State != decide.RequestRevoked || got.Locked != "pending_approval" {
		t.Errorf("revoked: %+v", got)
	}
	h.Problem(http.StatusNotFound, "/admin/requests/R-00000000", "")
	h.Problem(http.StatusUnprocessableEntity, "/admin/requests?state=closed", "")
	h.Problem(http.StatusUnsupportedMediaType, path, body("approved", ""), admintest.Form)
}

func TestAskAPI(t *testing.T) {
	h := newFixture(t)
	id := h.Asks(kims, "mail:send", "", "")
	if a := admintest.Into[decide.Asking](h.Fixture, "/admin/ask/"+id, ""); a.Person || !a.Decides || a.Callable {
		t.Errorf("for ann: %+v", a)
	}
	h.Problem(http.StatusForbidden, "/admin/ask/"+id, `{"why": "please"}`)
	h.Problem(http.StatusForbidden, "/admin/ask/"+id+"/withdraw", `{}`)
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "kim", Subject: kims.Subject, Rights: identity.Everything()}, nil
	}
	h.Open()
	a := admintest.Into[decide.Asking](h.Fixture, "/admin/ask/"+id, `{"why": "please", "minutes": 60}`)
	if !a.Person || a.Why != "please" || a.Minutes != 60 {
		t.Errorf("after the request of kim: %+v", a)
	}
	if a := admintest.Into[decide.Asking](h.Fixture, "/admin/ask/"+id+"/withdraw", `{}`); a.State != decide.RequestWithdrawn {
		t.Errorf("after kim withdrew: %+v", a)
	}
	h.Problem(http.StatusNotFound, "/admin/ask/no-such-code", "")
}
