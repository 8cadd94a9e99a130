package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/review"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A requestPage shows what an agent asks for as a person has to see it who decides about it.
type requestPage struct {
	Page
	itemView
	Request   decide.Request
	Known     bool   // the item and its record can be shown
	Name      string // of the item, clipped
	Agent     string
	Verified  string // how the agent proved who it is
	Others    []askRow
	OthersN   int
	Arguments string // of one call

	offered
	Reason  string // what was typed
	Minutes string
	Kept    bool // what was typed was kept, and nothing else was asked for
}

// offered is what can be decided about a request by who looks, and why not.
type offered struct {
	Approve, Allow, Confirm, Decline, End bool

	Opens   string // what approving it does beside approving
	Not     string // why it is not opened for one agent; "": it can be, or nothing can
	Nothing string // why nothing can be decided; "": something can
}

// Any reports whether anything can be decided.
func (o offered) Any() bool { return o.Approve || o.Allow || o.Confirm || o.Decline || o.End }

// maxOthers is how many other requests for the same a page names.
const maxOthers = 10

// verifiedBy says how an agent proved who it is.
var verifiedBy = map[string]string{
	"jwt":   "an access token of the issuer",
	"token": "an agent token of this gateway",
	"iam":   "a signature of AWS",
	"none":  "nothing: agents need no credentials here, so none is told from another",
}

// showRequest shows a request. As the answer to a form that says no verdict, which is what the Enter key
// sends, it shows again what was typed.
func (c *Console) showRequest(w http.ResponseWriter, r *http.Request) { c.requestPage(w, r, nil) }

// requestPage shows a request; after a form that was refused, why, with what was typed.
func (c *Console) requestPage(w http.ResponseWriter, r *http.Request, refusal error) {
	q, err := c.o.Desk.Request(r.Context(), r.PathValue("id"))
	if err != nil {
		c.failed(w, r, "request", err)
		return
	}
	p, status := &requestPage{Page: Page{Here: "requests"}, Request: q, Agent: agentName(q.Agent), Verified: verifiedBy[q.Agent.Way]}, http.StatusOK
	p.Name = clipped(q.Tool)
	p.Title = begin(p.Agent, 60, nameHTML) + " asks for " + clipped(q.Item().String())
	p.Arguments = argumentsText(q.Arguments)
	p.typed(r, refusal == nil)
	t, err := c.o.Desk.Tool(r.Context(), q.Item())
	if p.itemView = viewOf(r, q.Item(), t); err != nil {
		_ = c.o.Desk.Explain(r.Context(), "request", err) // which logs it; the page says that the item is not known
	}
	p.Own, p.Known = rootOf(r)+"admin/requests/"+q.ID, err == nil
	if refusal != nil {
		e := c.o.Desk.Explain(r.Context(), "form", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
		p.since(tool.Hash(r.PostForm.Get("hash")), e, c)
	}
	if p.Known {
		taken := htmlLen(p.Reason) + htmlLen(review.Readable(q.Note+q.Why)) + min(htmlLen(p.Arguments), maxHTML*2/3)
		p.lay(r.URL.Query(), taken)
		c.shown.put(t.Hash, t.Definition)
		c.setOpened(w, r, t.Hash)
	}
	c.others(p, r)
	neither := p.Known && c.twoPeople(&p.itemView, r)
	if p.NeedsNote != "" {
		p.NeedsNote = "To approve it, or to open it for this agent, say why: it has a severe finding."
	}
	p.offer(callerOf(r.Context()).Rights.Decides(q.Server), neither)
	c.tellRequest(p, r)
	c.render(w, r, status, "request", p)
}

// typed fills in what the person typed before, or what the agent's person asks for.
func (p *requestPage) typed(r *http.Request, kept bool) {
	if p.Request.Minutes > 0 {
		p.Minutes = strconv.Itoa(p.Request.Minutes)
	}
	form := typedOf(r)
	if form == nil && r.Method == http.MethodPost {
		form = r.PostForm
		p.Kept = kept
	}
	if form != nil {
		p.Reason = firstOf(form.Get("reason"), request.MaxReason)
		p.Minutes = firstOf(form.Get("minutes"), len("43200"))
	}
}

// firstOf returns the first characters of s.
func firstOf(s string, characters int) string {
	for i := range s {
		if characters--; characters < 0 {
			return s[:i]
		}
	}
	return s
}

// others fills in who else asks for the same.
func (c *Console) others(p *requestPage, r *http.Request) {
	if p.OthersN = len(p.Request.Alike); p.OthersN == 0 {
		return
	}
	list, _, err := c.o.Desk.Requests(r.Context(), true)
	if err != nil {
		_ = c.o.Desk.Explain(r.Context(), "requests", err) // which logs it; their number stands there
	}
	for _, q := range list {
		if slices.Contains(p.Request.Alike, q.ID) && len(p.Others) < maxOthers {
			p.Others = append(p.Others, askRow{Request: q, Link: rootOf(r) + "admin/requests/" + q.ID, Who: agentName(q.Agent)})
		}
	}
}

// offer says what can be decided by a person who decides about the item's server, or does not; neither
// says that he can be none of the two people whom an approval takes.
func (p *requestPage) offer(decides, neither bool) {
	q := p.Request
	switch {
	case !decides:
		return
	case q.State == decide.RequestAllowed || q.State == decide.RequestConfirmed:
		p.End = true
		return
	case q.State != decide.RequestOpen:
		return
	}
	p.Decline = true
	switch {
	case q.OneCall() && len(q.Arguments) == 0:
		p.Nothing = "The arguments of the call are not kept any more, or are not those that were asked for, so nobody can confirm it. The agent can make the call again, which asks anew."
	case q.OneCall() && q.Locked == lock.None:
		p.Confirm = true
	case q.OneCall() && unlockable(q.Locked):
		p.Nothing = "It is locked itself, so that confirming one call would not open it. It can be approved or enabled on its own page; the call can be confirmed then."
	case unlockable(q.Locked):
		p.offerAccess(neither)
	default:
		p.Nothing = map[lock.Status]string{
			lock.DisabledByConfig: "Nobody can open it here: only an operator can, in mcp_config.json or policy.cedar.",
			lock.ServerDisabled:   "Nobody can open it here: its server is off. An operator switches it on in mcp_config.json, or undoes the stop.",
			lock.DisabledUnknown:  "Nobody can open it here: it is not known why it is locked. The gateway's log and its health say more.",
			lock.None:             "It can be called already.",
		}[q.Locked]
	}
}

// unlockable reports whether people open what is locked so.
func unlockable(s lock.Status) bool { return s == lock.PendingApproval || s == lock.DisabledByUser }

// offerAccess says how an item can be opened that people locked, or have not approved.
func (p *requestPage) offerAccess(neither bool) {
	p.Approve = !neither
	blocked := false
	if r := p.Tool.Record; r != nil {
		blocked = r.State == approval.Blocked
		switch approved := r.ApprovedHash == r.CurrentHash && !blocked; {
		case r.Disabled && approved:
			p.Opens = " A person disabled it, and it is enabled again for all of them."
		case r.Disabled:
			p.Approve, p.Nothing = false, "It is disabled, and its definition is not approved, which are two decisions: they are made on its own page."
		}
	}
	switch {
	case !p.Request.Agent.Alone():
		p.Not = "It cannot be opened for this agent alone: agents need no credentials here, so it cannot be told from others."
	case p.Request.TakesTwo:
		p.Not = "It cannot be opened for this agent alone: approving it takes two people, and so one person may not open it for one agent either."
	case blocked:
		p.Not = "It cannot be opened for this agent alone: a person blocked this definition. It is unblocked on its own page, or approved for all."
	default:
		p.Allow = true
	}
}

// Spans are for how long a button opens an item for one agent.
func (p *requestPage) Spans() []lasting { return spans }

// A lasting is so many minutes.
type lasting struct {
	Minutes int
	Text    string
}

var spans = []lasting{{60, "1 h"}, {8 * 60, "8 h"}, {7 * 24 * 60, "7 d"}}

// Changed reports whether the definition that is shown is another than the one that was asked for.
func (p *requestPage) Changed() bool { return p.Known && p.Tool.Hash != p.Request.Hash }

// decideRequest carries out the form of the page about a request.
func (c *Console) decideRequest(w http.ResponseWriter, r *http.Request) {
	var done decide.Request
	dec, err := readVerdict(r.PostForm)
	if err == nil {
		done, err = c.o.Desk.DecideRequest(r.Context(), r.PathValue("id"), dec)
		c.forgetAsks()
	}
	if err != nil {
		c.requestPage(w, r, err)
		return
	}
	left, lost := "", ""
	if n := len(done.Unsettled); n > 0 {
		left = strconv.Itoa(n)
	}
	if done.Unrecorded {
		lost = "lost"
	}
	// Sent again by a reload, a form would decide again.
	leadTo(w, http.StatusSeeOther, withQuery("../"+url.PathEscape(r.PathValue("id")), url.Values{}, "did", string(dec.Verdict), "left", left, "audit", lost))
}

// readVerdict returns what a form says. A button that opens something for so long says so behind the
// verdict.
func readVerdict(form url.Values) (d decide.RequestDecision, err error) {
	verdict, minutes, chosen := strings.Cut(form.Get("verdict"), " ")
	d = decide.RequestDecision{Verdict: request.Verdict(verdict), Hash: tool.Hash(form.Get("hash")), Args: form.Get("args"), Tool: form.Get("tool"), Reason: form.Get("reason")}
	if d.Verdict != request.Allowed {
		return d, nil
	}
	if !chosen {
		minutes = strings.TrimSpace(form.Get("minutes"))
	}
	if d.Minutes, err = strconv.Atoi(minutes); err != nil || d.Minutes < 1 || d.Minutes > request.MaxMinutes {
		return d, decide.Refuse(http.StatusUnprocessableEntity, fmt.Sprintf("minutes: want a whole number from 1 to %d; nothing was decided", request.MaxMinutes))
	}
	return d, nil
}

// tellRequest shows on p what the address says was decided just now, if it was.
func (c *Console) tellRequest(p *requestPage, r *http.Request) {
	query := r.URL.Query()
	did, q := request.Verdict(query.Get("did")), p.Request
	by := callerOf(r.Context()).Name
	if did == "" || !fromHere(r) {
		return
	}
	if did == request.Approved && q.State == decide.RequestOpen && q.Proposed == by {
		p.Message = "Approved, as the first of two people. It opens when another person approves it too."
		return
	}
	if q.Decided.By != by || q.Decided.Verdict != did {
		return
	}
	p.Message = map[request.Verdict]string{
		request.Approved:  "Approved for all agents. The next call goes through.",
		request.Allowed:   "Opened for this agent alone. Its next call goes through.",
		request.Confirmed: "Confirmed. The agent can make this very call once, within an hour.",
		request.Declined:  "Declined. The agent is told so when it tries again, and cannot ask for the same within 24 hours.",
		request.Revoked:   "Ended. The next call is refused.",
	}[did]
	if n, err := strconv.Atoi(query.Get("left")); err == nil && n > 0 {
		p.Problem = "It could not be noted with " + text.Count(n, "request") + " of other agents for the same, which stand open in the list. "
	}
	if query.Get("audit") == "lost" {
		p.Problem += notAudited
	}
}

// lockedWhy says what a lock means, for people.
func lockedWhy(s lock.Status) string {
	return map[lock.Status]string{
		lock.ServerDisabled:   "its server is off",
		lock.DisabledByConfig: "an operator's rule denies it",
		lock.DisabledByUser:   "a person disabled it, or blocked this definition",
		lock.PendingApproval:  "this definition is not approved",
		lock.DisabledUnknown:  "it is not known why",
	}[s]
}

// With says which other requests are decided with this one.
func (p *requestPage) With() string {
	if p.OthersN == 1 {
		return "the request of 1 other agent is"
	}
	return fmt.Sprintf("the requests of %d other agents are", p.OthersN)
}

// maxPretty is how many bytes arguments may take with one member a line and each level indented.
const maxPretty = 64 << 10

// argumentsText returns arguments of a call as a person reads them: all of them, in the order and with
// the letters that were sent, one member a line.
func argumentsText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	indent := "  "
	if prettySize(raw, len(indent)) > maxPretty { // deep ones would grow with the square of their depth
		indent = ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", indent) != nil {
		return review.Readable(string(raw))
	}
	return review.Readable(b.String())
}

// prettySize returns about how many bytes JSON takes with every member on a line of its own.
func prettySize(raw []byte, indent int) (n int) {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		n++
		switch b := raw[i]; {
		case quoted && b == '\\':
			i, n = i+1, n+1
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
			n += 1 + depth*indent
		case b == ',':
			n += 1 + depth*indent
		case b == '}' || b == ']':
			depth--
			n += 1 + depth*indent
		}
	}
	return n
}

// CallSize returns how long the arguments are, in words.
func (p *requestPage) CallSize() string { return text.Count(len(p.Request.Arguments), "byte") }
