package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An agent that meets a lock has up to three ways to a person, and each request gets the first that its
// client can go, with all that there is to say in its text:
//
//	client                                       gets
//	stateless, opens links, its user is known  a result that asks for input: the page where that person asks
//	2025-11-25, opens links, its user is known the error -32042 with that page
//	any other                                    the lock: request_access, and links
//
// No request is made because a lock was met: request_access makes it, or the person. An open
// request notes that its agent lost the tier, or has it again.

// An openRequest is the open or decided request that a lock is answered with, for programs.
type openRequest struct {
	ID    string `json:"id"`
	State string `json:"state"` // open, declined
}

// requested adds to l what became of the agent's wish to use the item, and returns a sealed request for a
// link where its user can make it; "": there is nothing to ask, or nobody who could.
func (s *Session) requested(ctx context.Context, i int, now lockState, l *lockInfo) (code string) {
	r := s.newRequest(i, now.status)
	if !s.canAsk() || !askable(now.status, r.Hash) {
		return ""
	}
	need := s.lacks(i)
	h, err := s.history(ctx, r, now)
	if err == nil {
		s.noteLack(ctx, h.open, need)
	}
	switch {
	case err != nil:
		s.logUnread(ctx, "the requests of an agent cannot be read", err)
		l.more = append(l.more, "The gateway cannot read earlier access requests at the moment.")
		return ""
	case need != "":
		s.leadTo(i, l, "", lacksText(need))
		return ""
	case h.declined.Request != "":
		l.Request = &openRequest{h.declined.Request, accessDeclined}
		s.event.Request = h.declined.Request
		s.leadTo(i, l, "", s.declinedText(h.declined))
		return ""
	case h.open.ID != "":
		l.Request = &openRequest{h.open.ID, accessOpen}
		s.event.Request = h.open.ID
		s.leadTo(i, l, s.g.askLink(h.open.ID), s.openText(h.open))
		return ""
	case h.last.Request != "" && now.status.UserCanLift():
		l.more = append(l.more, s.overText(h.last))
	case !now.status.UserCanLift(): // only the operator can, and a request does not help
		return ""
	}
	l.more = append(l.more, offerText(l.Name))
	if s.caller.Agent.Subject == "" || s.g.o.BaseURL == "" {
		return ""
	}
	if code = s.code(ctx, r); code != "" {
		link := s.g.askLink(code)
		s.leadTo(i, l, link, offerLink+link)
	}
	return code
}

// offerText says how an agent requests access to what is locked; offerLink, where its user does.
func offerText(name string) string {
	return "To request access, call request_access with names [" + strconv.Quote(name) + "] and a note that says why."
}

const offerLink = "Your user can also request it here: "

// leadTo says one thing more of the lock of item i, and has it lead to one page alone; "": to none.
func (s *Session) leadTo(i int, l *lockInfo, link, said string) {
	if l.Link != "" {
		l.Remediation = lock.RemediationOf(s.view.ID(i).Kind.String(), l.Status, "")
	}
	l.Link, l.more = link, append(l.more, said)
}

// askPerson returns what asks the client to open the page where its user asks, if the client can do
// so and has not been asked just now; nil: the lock is answered. message is all that there is to
// say, code is the request that nobody has made yet and id that of one that is open, or "".
func (s *Session) askPerson(r mcp.Request, code, id, message string) (json.RawMessage, error) {
	link := s.g.askLink(cmp.Or(id, code))
	if link == "" || code == "" || s.caller.Agent.Subject == "" || r.Rest.Get(requestState) != nil || r.Rest.Get(inputResponses) != nil {
		return nil, nil
	}
	params := rawjson.Object{{Name: "mode", Value: rawjson.Quote("url")}, {Name: "message", Value: rawjson.Quote(message)}, {Name: "url", Value: rawjson.Quote(link)}}
	declared := mcp.UndeclaredQuestion(mcp.MethodElicit, params.Bytes(), s.client.Capabilities) == nil
	switch {
	case !declared:
	case s.caller.Modern:
		return inputRequired(rawjson.Object{{Name: "unlock", Value: mcp.InputRequest(mcp.MethodElicit, params.Bytes())}}, rawjson.Quote(code)), nil
	case s.client.OpensLinks:
		params.Add("elicitationId", rawjson.Quote(rand.Text())) // which that version wants, and nothing refers to
		data := rawjson.Object{{Name: "elicitations", Value: json.RawMessage("[" + string(params.Bytes()) + "]")}}
		return nil, &mcp.Error{Code: mcp.CodeURLElicitation, Message: message, Data: data.Bytes()}
	}
	return nil, nil
}

// withoutAsk returns r without the state that a client brings back after it was asked to open a page: that
// is no state of a server's question.
func (s *Session) withoutAsk(ctx context.Context, r mcp.Request) (_ mcp.Request, back bool) {
	state := r.Rest.Get(requestState)
	if state == nil || !s.caller.Modern || s.g.o.Sealer == nil || s.requestsKey() == "" {
		return r, false
	}
	c, err := request.OpenCode(ctx, s.g.o.Sealer, rawjson.Text(state), s.g.o.Now())
	if err != nil || c.Agent.Key() != s.requestsKey() {
		return r, false
	}
	r.Rest = slices.Clone(r.Rest)
	r.Rest.Delete(requestState)
	r.Rest.Delete(inputResponses)
	return r, true
}

// lockOf returns what there is to say of a lock, and a sealed request for its user; "": none can be
// made.
func (s *Session) lockOf(ctx context.Context, i int, now lockState) (l lockInfo, code string) {
	l = s.lockInfo(i, now.status, now.note)
	code = s.requested(ctx, i, now, &l)
	return l, code
}

// blocked answers the call of a locked tool. Nothing went upstream. now is how it stands, r the call.
func (s *Session) blocked(ctx context.Context, i int, now lockState, r mcp.Request, back bool) (json.RawMessage, error) {
	l, code := s.lockOf(ctx, i, now)
	s.countLocked(ctx, l, s.view.Verdict(i))
	text := l.text(tool.Tool)
	if !s.direct {
		text += "\nretrieve_tools include_disabled:true shows locked tools and why."
	}
	if !back {
		if raw, err := s.askPerson(r, code, "", text); raw != nil || err != nil {
			return raw, err
		}
	}
	return s.lockedTool(i, text, l)
}
