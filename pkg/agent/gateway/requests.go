package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// requestsKey returns the key of the agent's requests, or "" if decisions about requests have no
// effect.
func (s *Session) requestsKey() string {
	if !s.canAsk() && (s.st.Config == nil || s.g.o.Requests == nil || len(s.st.Config.Tools.Confirm) == 0) {
		return ""
	}
	return request.AgentOf(s.caller.Agent).Key()
}

// canAsk reports whether agents may request access to locked items.
func (s *Session) canAsk() bool {
	if s.st.Config == nil || s.g.o.Requests == nil {
		return false
	}
	if may := s.st.Config.Gateway.Requests; may != nil {
		return *may
	}
	return s.g.o.Asks
}

// A requestHistory is the history of an agent's requests for an item.
type requestHistory struct {
	open     request.Request  // the open request; its ID is "" if there is none
	declined request.Decision // still valid; its Request is "" if there is none
	last     request.Decision // an earlier approval that has ended; its Request is "" if there is none
}

// history returns the history of the agent's requests for the item of r. now is the item's lock
// state.
func (s *Session) history(ctx context.Context, r request.Request, now lockState) (h requestHistory, err error) {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	granted := now.granted
	if !now.read {
		if granted, err = s.g.o.Requests.Granted(ctx, s.requestsKey()); err != nil {
			return h, err
		}
	}
	requests, err := s.g.o.Requests.List(ctx, s.requestsKey())
	if err != nil {
		return h, err
	}
	at := s.g.o.Now()
	h.open, _ = requests.Open(r, granted, at)
	h.declined, _ = granted.Declined(r, at)
	for _, d := range slices.Backward(granted.List) {
		if d.Item() == r.Item() && d.Args == r.Args && d.Verdict != request.Declined && d.Verdict != request.Approved {
			h.last = d
			break
		}
	}
	return h, nil
}

// newRequest returns a request for item i, which is locked with status.
func (s *Session) newRequest(i int, status lock.Status) request.Request {
	return request.Request{Status: status}.About(s.view.ID(i), s.view.Tool(i).Definition.Hash)
}

// open stores the request r, or finds the same request that is already open. added reports that the
// request is new.
func (s *Session) open(ctx context.Context, r request.Request, arguments json.RawMessage) (open request.Request, added bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	agent := request.AgentOf(s.caller.Agent)
	_, err = request.ChangeList(ctx, s.g.o.Requests, agent, func(a request.List) (request.List, string, json.RawMessage, error) {
		granted, err := s.g.o.Requests.Granted(ctx, agent.Key())
		if err != nil {
			return a, "", nil, err
		}
		if _, declined := granted.Declined(r, s.g.o.Now()); declined {
			return a, "", nil, errDeclined
		}
		var next request.List
		if next, open, added, err = a.Add(r, granted, s.obsolete, s.g.o.Now()); err != nil {
			return a, "", nil, err
		}
		if !added {
			return a, "", nil, errJoined
		}
		return next, open.ID, arguments, nil
	})
	if errors.Is(err, errJoined) {
		return open, false, nil
	}
	if err != nil {
		return request.Request{}, false, err
	}
	tier, findings := "", 0
	if i, ok := s.view.Find(open.Item()); ok {
		tier, findings = s.view.Tier(i).String(), len(s.view.Findings(i))
	}
	s.g.o.OnRequest(ctx, agent.ID, open, tier, findings)
	return open, true, nil
}

var (
	errJoined   = errors.New("the request is open already")
	errDeclined = errors.New("the request was declined")
)

// obsolete reports whether a request no longer matters: its item no longer exists for the agent,
// has another definition, or is callable.
func (s *Session) obsolete(r request.Request) bool {
	i, ok := s.view.Find(r.Item())
	return !ok || s.view.Tool(i).Definition.Hash != r.Hash || !r.OneCall() && s.view.Status(i) == lock.None
}

// askLink returns the address where the agent's user requests access, or "" if there is no page.
// code is the id of a request, or a sealed request.
func (g *Gateway) askLink(code string) string {
	if g.o.BaseURL == "" || code == "" {
		return ""
	}
	return g.o.BaseURL + "/admin/ask/" + code
}

// code returns a sealed request for a link, or "" if it cannot be sealed. It returns the same code
// for some time, so that a client that retries automatically recognizes the page.
func (s *Session) code(ctx context.Context, r request.Request) string {
	if s.g.o.Sealer == nil {
		return ""
	}
	c := request.Code{Agent: request.AgentOf(s.caller.Agent), Item: r.Item(), Hash: r.Hash, Status: r.Status}
	now := s.g.o.Now()
	if code, ok := s.g.codes.get(c, now); ok {
		return code
	}
	code, err := request.SealCode(ctx, s.g.o.Sealer, c, now)
	if err != nil {
		s.g.logNoKey(ctx, err)
		return ""
	}
	s.g.codes.put(c, code, now)
	return code
}

const (
	codeTime = 10 * time.Minute // how long a link is reused
	maxCodes = 1024
)

// codes are the latest links.
type codes struct {
	mu  sync.Mutex
	all map[request.Code]madeCode
}

type madeCode struct {
	code string
	at   time.Time
}

func (x *codes) get(c request.Code, now time.Time) (string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	made, ok := x.all[c]
	age := now.Sub(made.at)
	return made.code, ok && age >= 0 && age < codeTime
}

func (x *codes) put(c request.Code, code string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil || len(x.all) >= maxCodes {
		x.all = map[request.Code]madeCode{}
	}
	x.all[c] = madeCode{code, now}
}

// logUnread logs that a read or a write of an agent's requests failed.
func (s *Session) logUnread(ctx context.Context, what string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) { // otherwise the caller went away
		s.g.o.Log.LogAttrs(ctx, slog.LevelError, "the requests of an agent cannot be read or written",
			slog.String("agent", s.caller.Agent.ID), slog.String("step", what), slog.Any("error", err))
	}
}

// openText returns a text with the time that a request has been open, and the agent's next step.
func (s *Session) openText(r request.Request) string {
	return "You requested access " + text.Ago(s.g.o.Now().Sub(r.Opened)) + " (" + r.ID + ", open). " +
		retryText + s.g.statusLink(r.ID)
}

// retryText says when an agent tries again while a request waits for a person.
const retryText = "Tell your user. Retry after a person has decided. " +
	"Wait at least 60 s between retries."

// statusLink adds the page of a request to a text. No full stop follows the link: a client might
// make it part of the link.
func (g *Gateway) statusLink(code string) string {
	if link := g.askLink(code); link != "" {
		return " Status: " + link
	}
	return ""
}

// declinedText returns a text that names who declined a request, and when the agent can request
// access again.
func (s *Session) declinedText(d request.Decision) string {
	sentence := text.Clip(text.Line(d.By), maxEcho) + " declined access request " + d.Request + "."
	if reason := text.Clip(text.Line(d.Reason), request.MaxReason); reason != "" {
		sentence += " Reason: " + strconv.Quote(reason) + "."
	}
	return sentence + " You can request access again " + text.In(d.Ends.Sub(s.g.o.Now())) + "."
}

// overText returns the reason why an earlier grant has ended.
func (s *Session) overText(d request.Decision) string {
	person := text.Clip(text.Line(d.By), maxEcho)
	switch now := s.g.o.Now(); {
	case d.Verdict == request.Revoked:
		return person + " revoked the grant of access request " + d.Request + " " + text.Ago(now.Sub(d.At)) + "."
	case !now.Before(d.Ends):
		return "The grant of access request " + d.Request + " by " + person + " ended " + text.Ago(now.Sub(d.Ends)) + "."
	}
	return "The grant of access request " + d.Request + " by " + person + " has ended. The definition changed, " +
		"a person decided otherwise or stopped it, or approval takes two people."
}
