package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func errNoLink() error {
	return Refuse(http.StatusNotFound, "this link is not valid: it is more than a day old, "+
		"incomplete, or from another gateway; nothing was done. Have the agent call the tool "+
		"again to get a new link")
}

func errNotPerson() error {
	return Refuse(http.StatusForbidden, "only the agent's user may do this, and you are not "+
		"signed in as that user; nothing was done. The user signs in with the issuer of the "+
		"agent's token")
}

// requestOfLink returns the request that the code of a link names.
func (d *Service) requestOfLink(ctx context.Context, code string) (requestView, error) {
	if d.o.Requests == nil {
		return requestView{}, errNoRequests()
	}
	if _, err := request.ParseID(code); err == nil {
		return d.requestViewOf(ctx, code)
	}
	o, err := d.openSealed(ctx, code)
	if err != nil {
		return requestView{}, err
	}
	return d.viewStored(ctx, o)
}

// openSealed returns the request behind a sealed link. The request has an id only if somebody has
// already made it.
func (d *Service) openSealed(ctx context.Context, code string) (o agentRequest, err error) {
	if d.o.Sealer == nil {
		return o, errNoLink()
	}
	now := d.o.Now()
	c, err := request.OpenCode(ctx, d.o.Sealer, code, now)
	if errors.Is(err, seal.ErrForged) {
		return o, errNoLink()
	}
	if err != nil {
		return o, err
	}
	key := c.Agent.Key()
	asked, err := d.o.Requests.List(ctx, key)
	if err != nil {
		return o, err
	}
	o.agent = c.Agent
	if o.granted, err = d.o.Requests.Granted(ctx, key); err != nil {
		return o, err
	}
	expires := time.Unix(c.Expires, 0)
	o.Request = request.Request{Status: c.Status, Opened: now, Expires: expires}.About(c.Item, c.Hash)
	for _, r := range slices.Backward(asked.List) {
		waits := r.Live(now) && !o.granted.Decided(r.ID)
		if r.Item() == c.Item && r.Hash == c.Hash && !r.OneCall() && (waits || r.Opened.After(expires.Add(-request.CodeFor))) {
			o.Request = r
			return o, nil
		}
	}
	return o, nil
}

// Asking returns the request behind the code of a link. The request may not exist yet.
func (d *Service) Asking(ctx context.Context, code string) (Asking, error) {
	s, err := d.requestOfLink(ctx, code)
	if err != nil {
		return Asking{}, err
	}
	return d.asking(ctx, s)
}

// asking returns what the actor may read of a request, and what they may do with it.
func (d *Service) asking(ctx context.Context, s requestView) (a Asking, err error) {
	actor := ActorOf(ctx)
	a.Person = s.isPerson(actor)
	if s.one.ID == "" {
		a.Request = s.request()
		a.Link = ""
	} else if a.Request, err = d.showRequest(ctx, s); err != nil {
		return Asking{}, err
	}
	a.Elsewhere = !s.current()
	a.Callable = a.State == RequestCallable
	a.Decides = a.ID != "" && actor.Rights.Decides(s.one.Server)
	if actor.Rights.Role >= identity.Viewer {
		return a, nil
	}
	a.Rule, a.Exempt, a.Alike, a.AlikeBy, a.Proposed, a.Obstacles = "", "", nil, nil, "", nil
	if !a.Person {
		a.Note, a.Why, a.By, a.Decided.Reason, a.Arguments, a.Agent = "", "", "", "", json.RawMessage(nil), request.Agent{Way: a.Agent.Way, ID: a.Agent.ID}
	}
	return a, nil
}

// isPerson reports whether the actor is the agent's user.
func (s requestView) isPerson(a Actor) bool {
	return a.Subject != "" && a.Subject == s.one.agent.Subject
}

func (w Want) check() error {
	switch {
	case !utf8.ValidString(w.Why) || utf8.RuneCountInString(w.Why) > request.MaxNote:
		return invalid("why: want text of at most %d characters; no request was made", request.MaxNote)
	case w.Minutes < 0 || w.Minutes > request.MaxMinutes:
		return invalid("minutes: want 1 to %d, or 0 for no limit; no request was "+
			"made", request.MaxMinutes)
	}
	return nil
}

// Ask makes the request that a link describes. If the request is open already, Ask stores the new
// reason and minutes in it. Only the agent's user may do so.
func (d *Service) Ask(ctx context.Context, code string, w Want) (Asking, error) {
	if err := w.check(); err != nil {
		return Asking{}, err
	}
	s, err := d.requestOfLink(ctx, code)
	if err != nil {
		return Asking{}, err
	}
	if !s.isPerson(ActorOf(ctx)) {
		return Asking{}, errNotPerson()
	}
	if err := refusesAsking(s); err != nil {
		return Asking{}, err
	}
	defer d.storeOpen(nil, time.Time{})
	id, added, err := d.ask(ctx, s, w)
	if err != nil {
		return Asking{}, refusedAsking(err)
	}
	o := s.one
	o.ID = id
	unrecorded := d.Record(ctx, o.line(audit.ActionAsked, strings.TrimSpace(w.Why))) != nil
	if added {
		e := notify.Event{
			Kind: notify.RequestMade, At: d.o.Now().UTC(), Server: o.Server, Items: []tool.ID{o.Item()},
			Agent: o.agent.ID, Request: id, OneCall: o.OneCall(),
		}
		if s.listed {
			e.Tier, e.Findings = s.m.v.Tier(s.i).String(), len(s.m.v.Findings(s.i))
		}
		d.o.Notifier.Notify(ctx, e)
	}
	out, err := d.Asking(ctx, id)
	out.Unrecorded = unrecorded
	return out, err
}

// line returns the audit event about a request.
func (o agentRequest) line(action, note string) audit.Line {
	return audit.Line{
		Action: action, Tool: o.Item().String(), Hash: o.Hash, Request: o.ID, Note: note,
		Subject: audit.AboutAgent + ":" + o.agent.ID,
	}
}

// refusesAsking returns the reason why nobody can make this request; nil if it can be made.
func refusesAsking(s requestView) error {
	state, why := s.state()
	if s.listed && len(s.agent.Servers) > 0 && !slices.Contains(s.agent.Servers, "*") && !slices.Contains(s.agent.Servers, s.one.Server) {
		return errNoLink() // the agent may no longer see the server
	}
	no, declined := s.one.granted.Declined(s.one.Request, s.m.now)
	switch {
	case state == RequestOpen && s.one.ID != "":
		return nil
	case state == RequestOpen && s.status == lock.DisabledUnknown:
		return conflict("the gateway does not know why the %v is locked, so no person can decide about it, and no request was made: have the gateway's operator look at /admin/health and at the gateway's log", s.one.Kind)
	case declined && (state == RequestOpen || state == RequestDeclined):
		return conflict("%s declined this at %s: %s. The agent can request it again after %s; no request was made", no.By, shortTime(no.At), text.Line(no.Reason), shortTime(no.Ends))
	case state == RequestOpen:
		return nil
	case state == RequestChanged:
		return conflict("the %v changed since the link was made (%s), and no request was made: have the agent call it again", s.one.Kind, why)
	case state == RequestCallable:
		return conflict("the agent can call it already (%s), and no request was made: have the agent try again", why)
	}
	return conflict("this request is %s%s, and no new request was made: have the agent call the %v again; the answer says what to do", state, because(why), s.one.Kind)
}

func shortTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// ask makes the request, or stores the person's reason and minutes in an open request. It returns
// the id of the request.
func (d *Service) ask(ctx context.Context, s requestView, w Want) (id string, added bool, err error) {
	wish := func(r *request.Request) { r.Why, r.Minutes = strings.TrimSpace(w.Why), w.Minutes }
	_, err = request.ChangeList(ctx, d.o.Requests, s.one.agent, func(a request.List) (request.List, string, json.RawMessage, error) {
		if id, added = s.one.ID, false; id != "" {
			found, is := a.Find(id)
			if !is || !found.Live(s.m.now) {
				return a, "", nil, request.ErrNotFound
			}
			next, err := a.Change(id, wish)
			return next, "", nil, err
		}
		granted, err := d.o.Requests.Granted(ctx, s.one.agent.Key())
		if err != nil {
			return a, "", nil, err
		}
		if _, declined := granted.Declined(s.one.Request, s.m.now); declined {
			return a, "", nil, request.ErrDecided
		}
		r := s.one.Request
		r.By = text.Clip(ActorOf(ctx).Name, maxActor)
		wish(&r)
		next, stored, is, err := a.Add(r, granted, s.obsolete(ctx), s.m.now)
		if id, added = stored.ID, is; err != nil || is {
			return next, id, nil, err
		}
		next, err = next.Change(id, wish)
		return next, "", nil, err
	})
	return id, added, err
}

// obsolete returns a function that reports whether a stored request of the same agent is no longer
// open, for example because its item is callable.
func (s requestView) obsolete(ctx context.Context) func(request.Request) bool {
	return func(r request.Request) bool {
		o := s.one
		o.Request = r
		state, _ := s.m.d.viewRequest(ctx, s.m, o, s.m.recordOf(r.Item())).state()
		return state != RequestOpen
	}
}

// refusedAsking returns the error that a person reads if their request could not be written.
func refusedAsking(err error) error {
	switch {
	case errors.Is(err, request.ErrTooMany):
		return conflict("no request was made: %v; wait until somebody decides one of them, or for an hour", request.ErrTooMany)
	case errors.Is(err, request.ErrDecided):
		return conflict("somebody has just declined this, and no request was made: open the link again to read why")
	case errors.Is(err, request.ErrNotFound):
		return conflict("the request has just expired or been withdrawn, and nothing was changed: have the agent try again")
	case errors.Is(err, request.ErrConflict):
		return conflict("the agent's other requests kept changing, and no request was made: try again")
	}
	return fmt.Errorf("ask: %w", err)
}

// Withdraw ends an open request. Only the agent's user may do so.
func (d *Service) Withdraw(ctx context.Context, id string) (Asking, error) {
	s, err := d.requestOfLink(ctx, id)
	if err != nil {
		return Asking{}, err
	}
	if !s.isPerson(ActorOf(ctx)) {
		return Asking{}, errNotPerson()
	}
	if state, why := s.state(); state != RequestOpen || s.one.ID == "" {
		if s.one.ID == "" {
			return Asking{}, conflict("nobody has made this request yet, and nothing was withdrawn")
		}
		return Asking{}, conflict("the request is %s%s, and nothing was withdrawn: only an open request can be withdrawn", state, because(why))
	}
	defer d.storeOpen(nil, time.Time{})
	_, err = request.ChangeList(ctx, d.o.Requests, s.one.agent, func(a request.List) (request.List, string, json.RawMessage, error) {
		next, err := a.Change(s.one.ID, func(r *request.Request) {
			if r.Ended.IsZero() {
				r.Ended = s.m.now.UTC()
			}
		})
		return next, "", nil, err
	})
	if err != nil {
		return Asking{}, refusedAsking(err)
	}
	if s.one.OneCall() {
		d.dropArguments(ctx, s.one)
	}
	unrecorded := d.Record(ctx, s.one.line(audit.ActionWithdrawn, "")) != nil
	out, err := d.Asking(ctx, s.one.ID)
	out.Unrecorded = unrecorded
	return out, err
}
