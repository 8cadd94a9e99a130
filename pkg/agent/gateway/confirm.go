package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A confirm is the state of a call that a person has to confirm.
type confirm struct {
	isRequired bool   // the config requires a confirmation of each call
	grant      string // id of the confirmed request; "": not known yet
	turn       int    // how many times the call came back with answers to its server's questions

	now *lockState // the tool's lock state when the call came back; nil: first request
}

// confirmInfo tells programs that each call of a tool needs a person's confirmation.
type confirmInfo struct {
	Request string `json:"request,omitempty"` // for this call; "": no request was possible
}

// spentText returns a text about the confirmation of a failed call. A failure does not restore the
// confirmation.
func (c confirm) spentText(delivered bool) string {
	switch {
	case c.grant == "":
		return ""
	case delivered:
		return " The confirmation " + c.grant + " is used up. Another call needs a new confirmation."
	}
	return " The confirmation " + c.grant + " is used up although nothing was called. " +
		"Repeat the call to request a new confirmation."
}

// checkConfirmation returns nil, nil for a call that a person has confirmed; each confirmation is
// valid for one call. Otherwise it makes an access request for this call and returns an answer with
// that request. If a call comes back with an answer to its server's question,
// checkConfirmation returns nil, nil: [Session.checkAnswer] checks the earlier confirmation.
func (s *Session) checkConfirmation(ctx context.Context, i int, now lockState, r mcp.Request, back bool) (json.RawMessage, error) {
	if s.caller.Modern && r.Rest.Get(requestState) != nil {
		lock := now // only a few calls come back, and a pointer keeps the other Sessions small
		s.confirm.now = &lock
		return nil, nil // exchange checks the confirmation
	}
	hash := request.HashArgs(r.Arguments)
	if hash == "" {
		s.event.Refuse()
		return s.refuse("A person must confirm each call of this tool. These arguments cannot be confirmed: " +
			"they have invalid Unicode or a duplicate name. Nothing was called and nothing was requested.")
	}
	if s.g.o.Requests == nil {
		return s.refuse("A person must confirm each call of this tool, but this gateway stores no requests. " +
			"Nothing was called. An operator must check the gateway's log.")
	}
	used := ""
	for _, d := range slices.Backward(now.granted.Confirms(now.at, hash)) { // the newest is the least likely to be used
		at, err := s.use(ctx, d.Request, d.Ends)
		switch {
		case err == nil:
			s.confirm.grant = d.Request
			s.event.Request = d.Request
			return nil, nil
		case errors.Is(err, request.ErrUsed):
			used = "The confirmation " + d.Request + " was used for a call " + text.Ago(s.g.o.Now().Sub(at)) + ", and is good for that one."
		default:
			s.logUnread(ctx, "the use of a confirmation cannot be noted", err)
			return s.refuse("Nothing was called: the gateway could not note that the confirmation " + d.Request + " is used. " +
				"Call again in a moment; if it asks for a new confirmation then, the old one counts as used.")
		}
	}
	return s.askConfirmation(ctx, i, now, r, hash, used, back)
}

// use records the only use of a confirmation. ends is the time at which the confirmation expires.
func (s *Session) use(ctx context.Context, id string, ends time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	return s.g.o.Requests.Use(ctx, id, s.g.o.Now(), ends.Add(request.ConfirmFor))
}

// shownAlone removes the members that the agent wrote and no person saw. In
// addition to the arguments of a confirmed call, the server gets only the members that the protocol
// requires, and the answers to its questions.
func shownAlone(rest, meta rawjson.Object) (rawjson.Object, rawjson.Object) {
	rest, meta = slices.Clone(rest), slices.Clone(meta)
	hasState := rest.Get(requestState) != nil
	rest = slices.DeleteFunc(rest, func(m rawjson.Member) bool {
		return m.Name != requestState && (m.Name != inputResponses || !hasState)
	})
	return rest, slices.DeleteFunc(meta, func(m rawjson.Member) bool {
		return !strings.HasPrefix(m.Name, mcp.MetaPrefix) && !slices.Contains([]string{"progressToken", "traceparent", "tracestate"}, m.Name)
	})
}

// isValid reports whether the confirmation is still valid for the call that comes back. The agent,
// the user and the definition must be the same, and no stop of the server or the agent may be newer
// than the confirmation.
func (c confirm) isValid(grant string) bool {
	if c.now == nil {
		return false
	}
	d, _ := c.now.granted.Find(grant)
	at := c.now.at
	return d.Verdict == request.Confirmed && d.Item() == at.Item && d.Hash == at.Hash && d.At.After(at.Stops.Last(at.Item.Server, at.Agent))
}

// checkAnswer checks a confirmed call that comes back with the answer to a question of its server.
// Each answer is valid once, so sending the same requestState again does not repeat the call.
func (s *Session) checkAnswer(ctx context.Context, st inputState) error {
	if !s.confirm.isRequired {
		return nil
	}
	if st.Grant == "" || s.g.o.Requests == nil {
		return &inputError{"A person must confirm each call of this tool now, and nobody confirmed this call. " +
			notResent}
	}
	if !s.confirm.isValid(st.Grant) {
		return &inputError{"The confirmation " + st.Grant + " has ended: its definition changed or a person stopped it. " +
			notResent}
	}
	s.confirm.grant, s.confirm.turn = st.Grant, st.Turn+1
	s.event.Request = st.Grant
	_, err := s.use(ctx, st.Grant+"."+strconv.Itoa(s.confirm.turn), s.g.o.Now().Add(stateTime))
	switch {
	case errors.Is(err, request.ErrUsed):
		return &inputError{"This answer was sent before, and the confirmation " + st.Grant + " is valid for one call. No request was sent."}
	case err != nil:
		s.logUnread(ctx, "the use of a confirmation cannot be noted", err)
		return &inputError{"The gateway could not record the use of this answer. " + notResent}
	}
	return nil
}

// askConfirmation makes a request for one call, and returns an answer with it. earlier is a text
// about an earlier confirmation; "": there was none.
func (s *Session) askConfirmation(ctx context.Context, i int, now lockState, r mcp.Request, hash, earlier string, back bool) (json.RawMessage, error) {
	arguments := r.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if len(arguments) > request.MaxArgs {
		return s.refuse("A person must confirm each call of this tool, and these arguments are too large: " +
			strconv.Itoa(len(arguments)) + " bytes; the limit is " + strconv.Itoa(request.MaxArgs) +
			". Nothing was called and nothing was requested.")
	}
	wish := s.newRequest(i, lock.PendingApproval)
	wish.Args = hash
	id := s.view.ID(i)
	l := lockInfo{Name: id.String(), Status: lock.PendingApproval, Confirm: &confirmInfo{}, Remediation: "A person must confirm each call of this tool and its arguments. Nothing was called."}
	if earlier != "" {
		l.more = append(l.more, earlier)
	}
	open, added, err := s.open(ctx, wish, arguments)
	if errors.Is(err, errDeclined) {
		err = s.declinedCall(ctx, wish, now, &l)
	} else if err == nil {
		s.noteLack(ctx, open, "")
		l.Confirm.Request, l.Request, l.Link = open.ID, &openRequest{open.ID, accessOpen}, s.g.askLink(open.ID)
		l.more = append(l.more, s.waitsText(open, added))
		s.event.Request = open.ID
	}
	switch {
	case errors.Is(err, request.ErrTooMany):
		l.more = append(l.more, tooManyText)
	case err != nil:
		s.logUnread(ctx, "a request cannot be written", err)
		l.more = append(l.more, unwrittenText)
	}
	s.countLocked(ctx, l, s.view.Verdict(i))
	words := l.text(tool.Tool)
	if open.ID != "" && added && !back {
		if raw, err := s.askPerson(r, s.code(ctx, wish), open.ID, words); raw != nil || err != nil {
			return raw, err
		}
	}
	return s.lockedTool(i, words, l)
}

// declinedCall adds to l the decision of a person who declined this call.
func (s *Session) declinedCall(ctx context.Context, wish request.Request, now lockState, l *lockInfo) error {
	h, err := s.history(ctx, wish, now)
	if err != nil {
		return err
	}
	l.Request = &openRequest{h.declined.Request, accessDeclined}
	l.more = append(l.more, s.declinedText(h.declined))
	return nil
}

// waitsText returns the text that says what the agent does while the request for one call is open.
func (s *Session) waitsText(r request.Request, added bool) string {
	if !added {
		return s.openText(r)
	}
	return "Access request " + r.ID + " recorded. Tell your user. After a person has confirmed it, " +
		"repeat the call with identical arguments, once, within one hour. " +
		"Wait at least 60 s between retries." + s.g.statusLink(r.ID)
}
