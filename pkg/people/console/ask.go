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

// askAt is below which the links stand that agents give to the people for whom they act. Whoever signed
// in may open them, also without a role: such a page shows nothing of the gateway but what was asked for.
const askAt = "/admin/ask/"

// An askPage is behind a link with which the agent's user asks for something.
type askPage struct {
	Page
	polled
	Asking    decide.Asking
	Agent     string
	Name      string // of the item, clipped
	Whole     bool   // who looks is shown what was written, and not only what it is about
	Arguments string // of one call
	Own       string // address of the page
	Request   string // address of the page on which it is decided, or of that about the item; "": who looks may open neither

	MayAsk  bool // the form applies
	MayEnd  bool // an open request can be withdrawn
	Cannot  string
	Why     string // what was typed
	For     string // chosen: minutes, or "other"
	Minutes string // of "other"
	Kept    bool   // what was typed was kept, and nothing else was asked for
}

// Spans are for how long a person can say that it would do.
func (p *askPage) Spans() []lasting { return append([]lasting{{0, "for good"}}, spans...) }

// Is reports whether a span is the one that was chosen.
func (p *askPage) Is(minutes int) bool { return p.For == strconv.Itoa(minutes) }

// asking shows what is behind a link.
func (c *Console) asking(w http.ResponseWriter, r *http.Request) { c.askPage(w, r, nil) }

// askPage shows what is behind a link; after a form that was refused, why, with what was typed.
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
	p.typed(r, refusal == nil)
	if refusal != nil {
		e := c.o.Service.Explain(r.Context(), "ask", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
	} else if fromHere(r) {
		if p.Message = p.said(r.URL.Query().Get("did")); p.Message != "" && r.URL.Query().Get("audit") == "lost" {
			p.Problem = notAudited
		}
	}
	if p.poll(w, r, p.Own, p.Asking, p.Cannot, p.MayAsk, p.MayEnd) {
		return
	}
	c.render(w, r, status, "ask", p)
}

// offer says what who looks may do, or why nothing.
func (p *askPage) offer() {
	a := p.Asking
	open := a.State == decide.RequestOpen || a.ID == ""
	switch {
	case a.ID != "" && !open: // what became of it stands there
	case a.Elsewhere:
		p.Cannot = "The definition of this changed since the link was made, so the link asks for nothing any more. Tell the agent to try again, which gives a new one."
	case a.Callable && !a.OneCall():
		p.Cannot = "The agent can call it now, so there is nothing to ask for. Tell it to try again."
	case a.Locked == lock.DisabledUnknown:
		p.Cannot = "It is not known why this is locked, so there is nothing that a person could open. Tell an operator of this gateway."
	case !a.Person:
		p.Cannot = "Only the person of the agent's token can ask, and you are not signed in as that person. Nothing was asked for by opening this page."
	default:
		p.MayAsk = true
	}
	p.MayEnd = a.Person && a.ID != "" && a.State == decide.RequestOpen
}

// typed fills in what the person typed before, or asked for.
func (p *askPage) typed(r *http.Request, kept bool) {
	p.choose(p.Asking.Minutes)
	p.Why = p.Asking.Why
	p.Kept = kept && r.Method == http.MethodPost
	if form := typedOf(r); form != nil {
		p.Why, p.For = firstOf(form.Get("why"), request.MaxNote), form.Get("for")
		p.Minutes = firstOf(form.Get("minutes"), len("43200"))
	}
}

// choose has the form say so many minutes.
func (p *askPage) choose(minutes int) {
	p.For = strconv.Itoa(minutes)
	for _, s := range p.Spans() {
		if s.Minutes == minutes {
			return
		}
	}
	p.For, p.Minutes = "other", p.For
}

// said says what was done, by the address that led here, if the request is so.
func (p *askPage) said(did string) string {
	switch open := p.Asking.ID != "" && p.Asking.State == decide.RequestOpen; {
	case did == "asked" && open:
		return "You asked. Whoever decides about it sees it now, with what you wrote. You can close this page: the agent goes on when it tries again after the decision."
	case did == "withdrawn" && p.Asking.State == decide.RequestWithdrawn:
		return "You withdrew it. Nobody can decide about it any more."
	}
	return ""
}

// ask asks for what is behind a link. A form without its button is what the Enter key sends, and asks for
// nothing.
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
	case minutes == "": // of one call, for which no time is asked
	case err != nil, n < 0, n > request.MaxMinutes, n == 0 && r.PostForm.Get("for") == "other":
		c.askPage(w, r, decide.Refuse(http.StatusUnprocessableEntity, "minutes: want a whole number from 1 to "+strconv.Itoa(request.MaxMinutes)+"; nothing was asked for"))
		return
	}
	want.Minutes = n
	a, err := c.o.Service.Ask(r.Context(), r.PathValue("code"), want)
	c.asked(w, r, "./", a, "asked", err)
}

// withdraw ends an open request.
func (c *Console) withdraw(w http.ResponseWriter, r *http.Request) {
	a, err := c.o.Service.Withdraw(r.Context(), r.PathValue("code"))
	c.asked(w, r, "../", a, "withdrawn", err)
}

// asked leads to the page of what was asked for, or says why it was not.
func (c *Console) asked(w http.ResponseWriter, r *http.Request, up string, a decide.Asking, did string, err error) {
	if err != nil {
		c.askPage(w, r, err)
		return
	}
	c.forgetAsks()
	to := withQuery(up+a.ID, url.Values{}, "did", did, "audit", auditIs[!a.Unrecorded])
	redirectTo(w, http.StatusSeeOther, to)
}

// loggedPath returns the path of r as a log may have it: a link's code is a request that is sealed, and
// is known to whoever was given it alone.
func loggedPath(r *http.Request) string {
	code, ok := strings.CutPrefix(r.URL.Path, askAt)
	if _, err := request.ParseID(strings.TrimSuffix(code, "/withdraw")); !ok || err == nil {
		return r.URL.Path
	}
	return askAt + "…"
}
