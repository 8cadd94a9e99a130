package console

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A requestPage shows a request of an agent to the person who decides about it.
type requestPage struct {
	Page
	itemView
	Request   decide.Request
	Known     bool   // the item and its record are readable
	Name      string // of the item, clipped
	Agent     string
	AgentPage string // address of the page about the agent; "": its id is too long
	Verified  string // how the agent was authenticated
	Others    []askRow
	OthersN   int
	Arguments string // of one call

	verdictForm
	polled
	Reason   string // the text that the person typed
	Minutes  string
	TextKept bool // the person only saved the typed text on the page
}

// maxOthers limits the other requests for the same item that a page names.
const maxOthers = 6

// verifiedBy describes how an agent was authenticated.
var verifiedBy = map[string]string{ //nolint:gosec // G101: words for people
	"jwt":   "an access token of the issuer",
	"token": "an agent token of this gateway",
	"iam":   "a signature of AWS",
	"none":  "nothing: agents need no credentials here, so the gateway cannot distinguish them",
}

// showRequest shows a request. It also answers a form without a verdict, which the Enter key sends,
// and shows the typed text again.
func (c *Console) showRequest(w http.ResponseWriter, r *http.Request) { c.requestPage(w, r, nil) }

// requestPage shows a request. After a refused form it also shows the refusal and the typed text.
func (c *Console) requestPage(w http.ResponseWriter, r *http.Request, refusal error) {
	q, err := c.o.Service.Request(r.Context(), r.PathValue("id"))
	if err != nil {
		c.failed(w, r, "request", err)
		return
	}
	p, status := &requestPage{Page: Page{Here: "requests"}, Request: q, Agent: agentName(q.Agent), Verified: verifiedBy[q.Agent.Way]}, http.StatusOK
	p.Name, p.AgentPage = shorten(q.Tool), agentLink(rootOf(r), q.Agent.ID)
	p.Title = truncate(p.Agent, 60) + " asks for " + shownID(q.Item())
	p.Arguments = argumentsText(q.Arguments)
	p.fillTyped(r, refusal == nil)
	t, err := c.o.Service.Tool(r.Context(), q.Item())
	if p.itemView = viewOf(r, q.Item(), t); err != nil {
		_ = c.o.Service.Explain(r.Context(), "request", err) // Explain logs the error; the page says that the item is not known
	}
	p.Own, p.Known = rootOf(r)+"admin/requests/"+q.ID, err == nil
	if refusal != nil {
		e := c.o.Service.Explain(r.Context(), "form", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
		p.fillSince(tool.Hash(r.PostForm.Get("hash")), e, c)
	}
	p.others(rootOf(r))
	if p.Known {
		p.fillView(c.o.Service, r.URL.Query())
		c.shown.put(t.Hash, t.Definition)
		if r.Header.Get("Hx-Request") == "" { // the browser may not show the answer to a poll
			c.setViewed(w, r, t.Hash)
		}
	}
	if !p.Known {
		p.Tool.Facts = decide.Facts{ID: q.Item(), Actor: decide.ActorOf(r.Context())}
	}
	p.fillRights()
	if p.NeedsNote != "" {
		p.NeedsNote = "To approve it, or to allow it to this agent, say why: it has a severe " +
			"finding."
	}
	if p.MayNot == "" {
		p.offer()
	}
	c.setRequestMessage(p, r)
	if p.poll(w, r, p.Own, p.Request, p.Tool, p.verdictForm) {
		return
	}
	c.render(w, r, status, "request", p)
}

// fillTyped fills in what the person typed, or the values of the user's request.
func (p *requestPage) fillTyped(r *http.Request, isKept bool) {
	if p.Request.Minutes > 0 {
		p.Minutes = strconv.Itoa(p.Request.Minutes)
	}
	p.TextKept = isKept && r.Method == http.MethodPost
	if form := typedOf(r); form != nil {
		p.Reason = firstOf(form.Get("reason"), request.MaxReason)
		p.Minutes = firstOf(form.Get("minutes"), len("43200"))
	}
}

// others fills in the other agents that request the same item.
func (p *requestPage) others(root string) {
	p.OthersN = len(p.Request.Alike)
	for n, agent := range p.Request.AlikeBy[:min(p.OthersN, maxOthers)] {
		p.Others = append(p.Others, askRow{Link: root + "admin/requests/" + p.Request.Alike[n], Who: agentName(agent)})
	}
}

// Changed reports whether the current definition differs from the definition of the request.
func (p *requestPage) Changed() bool { return p.Known && p.Tool.Hash != p.Request.Hash }

// setRequestMessage sets on p the message about the decision in the address, if the request
// confirms it.
func (c *Console) setRequestMessage(p *requestPage, r *http.Request) {
	query := r.URL.Query()
	did, q := request.Verdict(query.Get("did")), p.Request
	by := callerOf(r.Context()).Name
	if did == "" || !fromHere(r) {
		return
	}
	if did == request.Approved && q.State == decide.RequestOpen && q.Proposed == by {
		p.Message = "Approved, as the first of two people. It unlocks when another person " +
			"approves it too."
		return
	}
	if q.Decided.By != by || q.Decided.Verdict != did {
		return
	}
	p.Message = map[request.Verdict]string{
		request.Approved:  "Approved for all agents. The next call goes through.",
		request.Allowed:   "Allowed for this agent only. Its next call goes through.",
		request.Confirmed: "Confirmed. The agent can make exactly this call once, within an hour.",
		request.Declined: "Declined. The agent sees the decision when it tries again, and " +
			"cannot ask for the same within 24 hours.",
		request.Revoked: "Ended. The gateway refuses the next call.",
	}[did]
	if n, err := strconv.Atoi(query.Get("left")); err == nil && n > 0 {
		p.Problem = "The decision could not be written to " + text.Count(n, "request") + " of " +
			"other agents for the same definition, which are still open in the list. "
	}
	if query.Get("audit") == "lost" {
		p.Problem += notAudited
	}
}

// With describes the requests to which a decision about this request also applies.
func (p *requestPage) With() string {
	if p.OthersN == 1 {
		return "the request of 1 other agent is"
	}
	return fmt.Sprintf("the requests of %d other agents are", p.OthersN)
}

// CallSize returns the length of the arguments, in words.
func (p *requestPage) CallSize() string { return text.Count(len(p.Request.Arguments), "byte") }
