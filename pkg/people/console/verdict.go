package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// offered is what can be decided about a request by who looks, and why not.
type offered struct {
	Approve, Allow, Confirm, Decline, End bool

	Opens   string // what approving it does beside approving
	Not     string // why it is not opened for one agent; "": it can be, or nothing can
	Nothing string // why nothing can be decided; "": something can
}

// Any reports whether anything can be decided.
func (o offered) Any() bool { return o.Approve || o.Allow || o.Confirm || o.Decline || o.End }

// offer says what can be decided by a person who decides about the item's server, or does not; cannot
// says that nobody like them can approve it.
func (p *requestPage) offer(decides, cannot bool) {
	q := p.Request
	switch {
	case !decides:
		return
	case q.Grants:
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
	case q.OneCall() && q.Locked.UserCanLift():
		p.Nothing = "It is locked itself, so that confirming one call would not open it. It can be approved or enabled on its own page; the call can be confirmed then."
	case q.Locked.UserCanLift():
		p.offerAccess(cannot)
	default:
		p.Nothing = map[lock.Status]string{
			lock.DisabledByConfig: "Nobody can open it here: only an operator can, in mcp_config.json or policy.cedar.",
			lock.ServerDisabled:   "Nobody can open it here: its server is off. An operator switches it on in mcp_config.json, or undoes the stop.",
			lock.DisabledUnknown:  "Nobody can open it here: it is not known why it is locked. The gateway's log and its health say more.",
			lock.None:             "It can be called already.",
		}[q.Locked]
	}
}

// offerAccess says how an item can be opened that people locked, or have not approved.
func (p *requestPage) offerAccess(cannot bool) {
	p.Approve = !cannot
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

// A lasting is how long something is opened for one agent, with the text of its button.
type lasting struct {
	Minutes int
	Text    string
}

var spans = []lasting{{60, "1 h"}, {8 * 60, "8 h"}, {7 * 24 * 60, "7 d"}}

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

// decideRequest carries out the form of the page about a request.
func (c *Console) decideRequest(w http.ResponseWriter, r *http.Request) {
	var done decide.Request
	dec, err := readVerdict(r.PostForm)
	if err == nil {
		done, err = c.o.Service.DecideRequest(r.Context(), r.PathValue("id"), dec)
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
	redirectTo(w, http.StatusSeeOther, withQuery("../"+url.PathEscape(r.PathValue("id")), url.Values{}, "did", string(dec.Verdict), "left", left, "audit", lost))
}

// readVerdict returns what a form says. A button that opens something for so long says so behind the
// verdict.
func readVerdict(form url.Values) (d decide.RequestDecision, err error) {
	verdict, minutes, chosen := strings.Cut(form.Get("verdict"), " ")
	d = decide.RequestDecision{Verdict: request.Verdict(verdict), Hash: tool.Hash(form.Get("hash")), Args: form.Get("args"), Tool: form.Get("tool"), Agent: form.Get("agent"), Reason: form.Get("reason")}
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
