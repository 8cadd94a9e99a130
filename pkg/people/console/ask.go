package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// askAt is the address prefix of the links that agents give to their users. Every signed-in person
// may open such a link, even without a role: the page then shows only the subject of the request.
const askAt = "/admin/ask/"

// An askPage is the page that such a link opens. On it, the agent's user makes the request.
type askPage struct {
	Page
	polled
	Asking    decide.Asking
	Agent     string
	Name      string // of the item, clipped
	Whole     bool   // show all of the request, not only its subject
	Arguments string // of one call
	Own       string // address of this page
	Request   string // address of the request's page, or of the item's page; "": this person may open neither

	MayAsk   bool // the person can use the form
	MayEnd   bool // an open request can be withdrawn
	Cannot   string
	Why      string // the text that the person typed
	For      string // selected duration: minutes, or "other"
	Minutes  string // the number typed for "other"
	TextKept bool   // the person only saved the typed text on the page
}

// Spans returns the durations that a person can choose.
func (p *askPage) Spans() []lasting { return append([]lasting{{Text: "permanently"}}, spans...) }

// Is reports whether the person chose this number of minutes.
func (p *askPage) Is(minutes int) bool { return p.For == strconv.Itoa(minutes) }

// asking shows the page of a link.
func (c *Console) asking(w http.ResponseWriter, r *http.Request) { c.askPage(w, r, nil) }

// askPage shows the page of a link. After a refused form it also shows the refusal and the typed
// text.
func (c *Console) askPage(w http.ResponseWriter, r *http.Request, refusal error) {
	a, err := c.o.Service.Asking(r.Context(), r.PathValue("code"))
	if err != nil {
		c.failed(w, r, "ask", err)
		return
	}
	p, status := &askPage{Page: Page{Title: "Ask", Here: "-"}, Asking: a}, http.StatusOK
	p.Agent, p.Name = agentName(a.Agent), shorten(a.Tool)
	p.Own = rootOf(r) + "admin/ask/" + url.PathEscape(r.PathValue("code"))
	role := callerOf(r.Context()).Rights.Role
	if p.Whole = a.Person || role >= identity.Viewer; p.Whole {
		p.Arguments = argumentsText(a.Arguments)
	}
	if !p.Whole {
		p.Agent = shorten(a.Agent.ID)
	}
	switch {
	case role < identity.Viewer:
	case a.ID != "":
		p.Request = rootOf(r) + "admin/requests/" + a.ID
	default:
		p.Request = toolLink(rootOf(r), a.Item(), nil)
	}
	p.offer()
	p.fillTyped(r, refusal == nil)
	if refusal != nil {
		e := c.o.Service.Explain(r.Context(), "ask", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
	} else if fromHere(r) {
		if p.Message = p.message(r.URL.Query().Get("did")); p.Message != "" && r.URL.Query().Get("audit") == "lost" {
			p.Problem = notAudited
		}
	}
	if p.poll(w, r, p.Own, p.Asking, p.Cannot, p.MayAsk, p.MayEnd) {
		return
	}
	c.render(w, r, status, "ask", p)
}

// offer sets what this person may do, or the reason why they can do nothing.
func (p *askPage) offer() {
	a := p.Asking
	open := a.State == decide.RequestOpen || a.ID == ""
	switch {
	case a.ID != "" && !open: // the page shows the outcome
	case a.Elsewhere:
		p.Cannot = "The definition has changed since the link was made, so the link is no longer valid. Tell the agent to try again: it then gets a new link."
	case a.Callable && !a.OneCall():
		p.Cannot = "The agent can call it now, so no request is needed. Tell the agent to try again."
	case a.Locked == lock.DisabledUnknown:
		p.Cannot = "The gateway does not know why this is locked, so nobody can unlock it here. " +
			"Tell an operator of this gateway."
	case !a.Person:
		p.Cannot = "Only the agent's user can ask, and you are not signed in as that user. Opening this page made no request."
	default:
		p.MayAsk = true
	}
	p.MayEnd = a.Person && a.ID != "" && a.State == decide.RequestOpen
}

// fillTyped fills in what the person typed, or the values of their request.
func (p *askPage) fillTyped(r *http.Request, isKept bool) {
	p.choose(p.Asking.Minutes)
	p.Why = p.Asking.Why
	p.TextKept = isKept && r.Method == http.MethodPost
	if form := typedOf(r); form != nil {
		p.Why, p.For = firstOf(form.Get("why"), request.MaxNote), form.Get("for")
		p.Minutes = firstOf(form.Get("minutes"), len("43200"))
	}
}

// choose selects the option for this number of minutes.
func (p *askPage) choose(minutes int) {
	p.For = strconv.Itoa(minutes)
	for _, s := range p.Spans() {
		if s.Minutes == minutes {
			return
		}
	}
	p.For, p.Minutes = "other", p.For
}

// message returns the message about the action in the address, if the state of the request confirms
// it.
func (p *askPage) message(did string) string {
	switch open := p.Asking.ID != "" && p.Asking.State == decide.RequestOpen; {
	case did == "asked" && open:
		return "You asked. The people who decide see the request now, with your text. You can close this page: the agent continues when it tries again after the decision."
	case did == "withdrawn" && p.Asking.State == decide.RequestWithdrawn:
		return "You withdrew the request. Nobody can decide about it now."
	}
	return ""
}

// ask sends the request of the page. The Enter key submits the form without a button; in that case
// ask only shows the page again.
func (c *Console) ask(w http.ResponseWriter, r *http.Request) {
	if r.PostForm.Get("ask") == "" {
		c.asking(w, r)
		return
	}
	want := decide.Want{Why: strings.TrimSpace(r.PostForm.Get("why"))}
	minutes := r.PostForm.Get("for")
	if minutes == "other" {
		minutes = strings.TrimSpace(r.PostForm.Get("minutes"))
	}
	n, err := strconv.Atoi(minutes)
	switch {
	case minutes == "": // a request for one call has no duration
	case err != nil, n < 0, n > request.MaxMinutes, n == 0 && r.PostForm.Get("for") == "other":
		c.askPage(w, r, decide.Refuse(http.StatusUnprocessableEntity, "minutes: want a whole number from 1 to "+strconv.Itoa(request.MaxMinutes)+"; no request was made"))
		return
	}
	want.Minutes = n
	a, err := c.o.Service.Ask(r.Context(), r.PathValue("code"), want)
	c.finishAsk(w, r, "./", a, "asked", err)
}

// withdraw ends an open request.
func (c *Console) withdraw(w http.ResponseWriter, r *http.Request) {
	a, err := c.o.Service.Withdraw(r.Context(), r.PathValue("code"))
	c.finishAsk(w, r, "../", a, "withdrawn", err)
}

// finishAsk redirects to the page of the request, or shows why nothing was requested.
func (c *Console) finishAsk(w http.ResponseWriter, r *http.Request, up string, a decide.Asking, did string, err error) {
	if err != nil {
		c.askPage(w, r, err)
		return
	}
	to := withQuery(up+a.ID, url.Values{}, "did", did, "audit", auditIs[!a.Unrecorded])
	redirectTo(w, http.StatusSeeOther, to)
}

// loggedPath returns the path of r for the log. It omits the code of a link, because the code
// contains a sealed request that only the recipients of the link may see.
func loggedPath(r *http.Request) string {
	code, ok := strings.CutPrefix(r.URL.Path, askAt)
	if _, err := request.ParseID(strings.TrimSuffix(code, "/withdraw")); !ok || err == nil {
		return r.URL.Path
	}
	return askAt + "…"
}
