package console

import (
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// requiredRole returns the role that a request requires. Reading requires the lowest role. To
// change something, the addresses below require their own role, and every other address requires
// the highest role. An address in a non-canonical form also requires the highest role, even if the
// mux would accept it.
func requiredRole(method, address string) identity.Role {
	address = strings.TrimSuffix(address, "/")
	below, ok := strings.CutPrefix(address, "/admin/")
	switch {
	case address == "/admin" && isSafe(method):
		return identity.Viewer
	case !ok || address != path.Clean(address):
		return identity.Operator
	}
	parts := strings.Split(below, "/")
	switch first := parts[0]; {
	case isForOperators(parts):
		return identity.Operator
	case first == "ask" && (len(parts) == 2 || len(parts) == 3 && parts[2] == "withdraw"):
		return identity.NoRole // the page shows only the request; only the agent's user can act
	case isSafe(method), first == "me":
		return identity.Viewer
	case first == "requests" && len(parts) == 2:
		return identity.Viewer // the page of a request keeps the typed text
	case first == "requests" && len(parts) == 3:
		return identity.Approver
	case !slices.Contains([]string{"tools", "prompts", "resources"}, first):
		return identity.Operator
	case len(parts) == 3:
		return identity.Viewer // the page of an item keeps the typed note
	}
	return identity.Approver
}

// isForOperators reports whether only operators may open an address below /admin.
func isForOperators(parts []string) bool {
	switch parts[0] {
	case "tokens", "sessions": // these pages name all agents and all signed-in people
		return true
	case "call", "add-server", "policy": // a call of a tool, and forms of the operator's files
		return true
	case "servers": // messages may contain data of agents' calls
		return len(parts) == 3 && slices.Contains([]string{"messages", "edit"}, parts[2])
	}
	return false
}

// permits reports whether the caller has the role for r. If not, it answers r.
func (c *Console) permits(w http.ResponseWriter, r *http.Request, who caller) bool {
	need := requiredRole(r.Method, r.URL.Path)
	if who.Rights.Role >= need {
		return true
	}
	c.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "admin request without the role refused",
		slog.String("path", loggedPath(r)), slog.String("actor", who.Name), slog.String("role", who.Rights.Role.String()), slog.String("needs", need.String()))
	e := decide.RefuseRole(who.Actor, need)
	if who.Rights.Role == identity.NoRole && c.isOfIssuer(who.session) {
		e.Detail = noRole(c.o.SignIn.Issuer, who.Name)
	}
	if r.PostForm.Get(noteField)+r.PostForm.Get("reason") != "" && wantsHTML(r.Header.Get("Accept")) { // an operator can remove a role while the person writes
		c.showResubmit(w, r, http.StatusForbidden, who.csrf, &resubmitPage{Form: resubmissionOf(w, r), Page: Page{Title: "Nothing was done", Problem: sentence(e.Detail)}})
		return false
	}
	c.refuse(w, r, e)
	return false
}

// MayOperate reports whether the caller is an operator.
func (p *Page) MayOperate() bool { return p.rights.Role >= identity.Operator }

// MayDecide reports whether the caller decides about items of the server.
func (p *Page) MayDecide(server string) bool { return p.rights.Decides(server) }

// Decides reports whether the caller decides about items of any server.
func (p *Page) Decides() bool { return p.rights.Role >= identity.Approver }

// Bound returns the servers that limit an approver, in words; "": no limit.
func (p *Page) Bound() string { return serversOf(p.rights) }

func serversOf(rights identity.Rights) string {
	if rights.Role != identity.Approver || rights.Servers == nil {
		return ""
	}
	return text.List(rights.Servers, maxNamedServers)
}

// maxNamedServers limits the servers of an approver that a page names.
const maxNamedServers = 12

// fillRights sets MayNot and Two for the caller.
func (p *itemView) fillRights() {
	o := p.Tool.Facts.Before(approval.ActionApprove, decide.ShownOpened, false)
	switch {
	case o != nil && (o.Code == decide.NoRole || o.Code == decide.OtherServer):
		p.MayNot = sentence(o.Detail)
	case o != nil && slices.Contains(notOffered, o.Code):
		p.Two = sentence(o.Detail)
	case o != nil && o.Code != decide.Severe:
	case p.Tool.TakesTwo && p.Tool.Record.Proposed == nil:
		p.Two = "Approving it takes two people. Yours is the first approval; it unlocks nothing " +
			"until another person approves too."
	case p.Tool.TakesTwo:
		p.Two = "Yours is the second approval, and unlocks it."
	}
}

// notOffered are the obstacles to an approval that no other part of the page shows.
var notOffered = []decide.Code{decide.TooDeep, decide.NoIssuer, decide.NotSignedIn, decide.SamePerson}
