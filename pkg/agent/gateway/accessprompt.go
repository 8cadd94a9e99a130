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

// An agent can request access to a locked item in up to three ways. The answer to a locked call
// uses the first way that the client supports. Its text contains all information:
//
//	client                                      gets
//	stateless, opens links, its user is known  a result that asks for input: the user's page
//	2025-11-25, opens links, its user is known the error -32042 with that page
//	any other                                   the lock: request_access, and links
//
// A call of a locked tool makes no request: only request_access or the user makes one. An open
// request records when its agent loses the tier or gets the tier back.

// An openRequest describes the open or declined access request in the answer to a locked call, for
// programs.
type openRequest struct {
	ID    string `json:"id"`
	State string `json:"state"` // open, declined
}

// addRequest adds the state of the agent's access request for the item to l. It returns code, a
// sealed request for the link where the agent's user can make the request. The code is "" if a
// request is impossible or useless.
func (s *Session) addRequest(ctx context.Context, i int, now lockState, l *lockInfo) (code string) {
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
	case !now.status.UserCanLift(): // only the operator can lift the lock: a request does not help
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

// offerText says how an agent requests access to a locked item; offerLink says where its user
// requests it.
func offerText(name string) string {
	return "To request access, call request_access with names [" + strconv.Quote(name) + "] and a note that says why."
}

const offerLink = "Your user can also request it here: "

// leadTo adds a text about the lock of item i, and sets the lock's only page to link; "" means no
// page.
func (s *Session) leadTo(i int, l *lockInfo, link, message string) {
	if l.Link != "" {
		l.Remediation = lock.RemediationOf(s.view.ID(i).Kind.String(), l.Status, "")
	}
	l.Link, l.more = link, append(l.more, message)
}

// askPerson returns a result or an error that asks the client to open the page where its user
// requests access. It returns nil if the client cannot open pages or has just opened the page; the
// caller then answers with the lock. message is the whole text of the lock. code is a request that
// nobody has made yet, or ""; id is the id of the open request, or "".
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
		params.Add("elicitationId", rawjson.Quote(rand.Text())) // required by that version, unused
		data := rawjson.Object{{Name: "elicitations", Value: json.RawMessage("[" + string(params.Bytes()) + "]")}}
		return nil, &mcp.Error{Code: mcp.CodeURLElicitation, Message: message, Data: data.Bytes()}
	}
	return nil, nil
}

// withoutAsk returns r without the state that [Session.askPerson] gave the client; r may still have
// the state of a server's question. back reports whether r had a state of askPerson.
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

// lockOf returns the description of a lock. It also returns a sealed request for the agent's user,
// or "" if a request is impossible.
func (s *Session) lockOf(ctx context.Context, i int, now lockState) (l lockInfo, code string) {
	l = s.lockInfo(i, now.status, now.note)
	code = s.addRequest(ctx, i, now, &l)
	return l, code
}

// refuseLocked answers the call of a locked tool. The gateway sent nothing upstream. now is the
// lock state, r is the call.
func (s *Session) refuseLocked(ctx context.Context, i int, now lockState, r mcp.Request, back bool) (json.RawMessage, error) {
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
