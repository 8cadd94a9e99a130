package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// verdictForm has the verdicts that this person can give about a request, and the reasons against
// other verdicts.
type verdictForm struct {
	Approve, Allow, Confirm, Decline, End bool

	Opens   string // what an approval enables in addition, as a sentence; "": nothing
	Not     string // why Allow is not possible; "": it is, or the page need not say why not
	Nothing string // why no verdict is possible; "": a verdict is possible
}

// Any reports whether any verdict is possible.
func (o verdictForm) Any() bool { return o.Approve || o.Allow || o.Confirm || o.Decline || o.End }

// offer sets the possible verdicts of a person who decides about the item's server.
func (p *requestPage) offer() {
	q := p.Request
	is := func(v request.Verdict) bool {
		o := q.Obstacles[v]
		return o == nil || o.Code == decide.Severe
	}
	reason := func(v request.Verdict) string { return sentence(q.Obstacles[v].Detail) }
	p.End, p.Decline, p.Confirm = is(request.Revoked), is(request.Declined), is(request.Confirmed)
	p.Approve, p.Allow = is(request.Approved), is(request.Allowed)
	switch {
	case !p.Decline && q.Obstacles[request.Declined].Code == decide.OwnRequest:
		p.Nothing = reason(request.Declined)
	case !p.Decline || p.Confirm:
	case q.OneCall():
		p.Nothing = reason(request.Confirmed)
	case !p.Approve && !slices.Contains(notOffered, q.Obstacles[request.Approved].Code):
		p.Nothing = reason(request.Approved)
	case !p.Allow:
		p.Not = reason(request.Allowed)
	}
	if r := p.Tool.Record; p.Approve && r != nil && r.Disabled {
		p.Opens = " A person disabled it; the approval also enables it for all agents."
	}
}

// Spans returns the durations of the buttons that allow an item to one agent. It suggests the
// duration that the agent's user asked for, or without one the shortest.
func (p *requestPage) Spans() []lasting {
	out, asked := slices.Clone(spans), p.Request.Minutes
	at := max(0, slices.IndexFunc(out, func(s lasting) bool { return s.Minutes == asked }))
	if asked > 0 && out[at].Minutes != asked {
		out = slices.Insert(out, 0, lasting{Minutes: asked, Text: spanOf(asked)})
	}
	out[at].Suggested = true
	return out
}

// ReasonShown reports whether a small window shows the field for the reason at once.
func (p *requestPage) ReasonShown() bool { return p.Reason+p.NeedsNote+p.Problem != "" }

// A lasting is a duration of access for one agent, with the text of its button.
type lasting struct {
	Minutes   int
	Text      string
	Suggested bool // a small window shows its button at once
}

var spans = []lasting{
	{Minutes: 60, Text: "1 h"}, {Minutes: 8 * 60, Text: "8 h"}, {Minutes: 7 * 24 * 60, Text: "7 d"},
}

// lockedWhy explains a lock to people.
func lockedWhy(s lock.Status) string {
	return map[lock.Status]string{
		lock.ServerDisabled:   "its server is off",
		lock.DisabledByConfig: "an operator's rule denies it",
		lock.DisabledByUser:   "a person disabled it, or blocked this definition",
		lock.PendingApproval:  "this definition is not approved",
		lock.DisabledUnknown:  "the gateway does not know why",
	}[s]
}

// decideRequest carries out the decision of a request's form.
func (c *Console) decideRequest(w http.ResponseWriter, r *http.Request) {
	var done decide.Request
	dec, err := readVerdict(r.PostForm)
	if err == nil {
		done, err = c.o.Service.DecideRequest(r.Context(), r.PathValue("id"), dec)
	}
	if err != nil {
		c.requestPage(w, r, err)
		return
	}
	left := ""
	if n := len(done.Unsettled); n > 0 {
		left = strconv.Itoa(n)
	}
	// The answer is a redirect, so that a reload does not send the form again.
	redirectTo(w, http.StatusSeeOther, withQuery("../"+url.PathEscape(r.PathValue("id")), url.Values{},
		"did", string(dec.Verdict), "left", left, "audit", auditIs[!done.Unrecorded]))
}

// readVerdict reads the decision of a form. The value of a button with a duration is the verdict, a
// space and the duration.
func readVerdict(form url.Values) (d decide.RequestDecision, err error) {
	verdict, minutes, chosen := strings.Cut(form.Get("verdict"), " ")
	d = decide.RequestDecision{Verdict: request.Verdict(verdict), Hash: tool.Hash(form.Get("hash")), Args: form.Get("args"), Tool: form.Get("tool"), Agent: form.Get("agent"), Reason: form.Get("reason"), Shown: decide.ShownOpened}
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
