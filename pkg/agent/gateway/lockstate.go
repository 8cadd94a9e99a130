package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// A lockState holds the reason why an item is locked now. Its status is [lock.None] if the item is
// callable.
type lockState struct {
	status lock.Status
	note   string // for agents: of the person who decided or stopped the server
	refuse error  // the refusal of the agent itself; nil: none

	granted request.Granted // grants of the agent, as of now
	at      request.Now     // the time and definition for the check of grants
	read    bool            // granted and at were read
	by      string          // the request that makes the item callable; "": none

	connection document.Doc // the sign-in at the server, as of now; without a key: not read
}

// unreadNote is the note in a refusal if the gateway cannot read the facts about a call.
const unreadNote = "The gateway could not read whether this is approved, and what is stopped. Nothing was called. " +
	"Call again in a moment; if that does not help, an operator has to check the gateway's log."

// lockState classifies an item by its approval record and by the stops in the store now. It reads
// the store only if the store can change the result.
func (s *Session) lockState(ctx context.Context, i int) lockState {
	facts := s.view.FactsWithout(i)
	if facts.ServerEnabled != lock.Yes || facts.Denied != lock.No {
		if _, stopped := s.view.ServerStopped(s.view.Server(i)); stopped {
			s.noteStopped(lock.ServerDisabled)
		}
		return lockState{status: lock.Classify(facts)}
	}
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	id := s.view.ID(i)
	span := observe.StartSpan(ctx, observe.Record)
	record, stops, granted, signIn, err := s.g.readStanding(
		span.Context, id, s.requestsKey(), s.connectionKey(i))
	span.Name("tool", id.String())
	span.End()
	r := &record
	switch {
	case errors.Is(err, approval.ErrNotFound):
		r = nil
	case err != nil:
		return s.refuseUnread(ctx, id, err)
	}
	if refused := s.g.checkStopped(s.st.Stopped(stops), s.caller.Agent); refused != nil {
		s.noteStopped("")
		return lockState{status: lock.DisabledUnknown, refuse: refused}
	}
	clock := s.g.o.Now()
	facts = s.view.FactsNow(i, r, stops, granted, clock)
	now := lockState{status: lock.Classify(facts), read: true, connection: signIn}
	switch {
	case now.status == lock.ServerDisabled:
		cause, _ := s.st.Stopped(stops).Server(id.Server)
		s.noteStopped(now.status)
		now.note = s.g.stopNote(cause)
	case r != nil:
		now.note = s.view.NoteAt(i, now.status, r)
	}
	if len(granted.List) > 0 && r != nil {
		current := record // a copy, so that record stays off the heap for most calls
		now.granted, now.at = granted, s.view.NowAt(i, &current, stops, clock)
		if facts.Granted = lock.No; now.status == lock.None && lock.Classify(facts) != lock.None {
			grant, _ := granted.Allows(now.at)
			now.by = grant.Request
		}
	}
	return now
}

// readStanding reads the record of one tool, the stops, the decisions about an agent's requests and
// the document of a sign-in, in one read. With agent "" it reads no decisions, and with the zero
// key no sign-in. Without a record the error is [approval.ErrNotFound], and the other results are
// still valid.
func (g *Gateway) readStanding(
	ctx context.Context, id tool.ID, agent string, connection document.Key,
) (
	r approval.Record, stops stop.Stops, granted request.Granted, signIn document.Doc, err error,
) {
	keys := []document.Key{stop.Key()}
	if agent != "" {
		keys = append(keys, request.GrantedKey(agent))
	}
	if connection != (document.Key{}) {
		keys = append(keys, connection)
	}
	r, docs, err := g.approvals.GetWith(ctx, id, keys...)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return r, stops, granted, signIn, err
	}
	stops, unread := stop.DecodeDoc(docs[0])
	if unread == nil && agent != "" {
		granted, unread = request.DecodeGrantedDoc(docs[1])
	}
	if connection != (document.Key{}) {
		signIn = docs[len(docs)-1]
	}
	return r, stops, granted, signIn, cmp.Or(unread, err)
}

// connectionKey returns the key of the sign-in at the server of item i. It is the zero key if the
// last load found no sign-in. So a call without a sign-in needs no further read.
func (s *Session) connectionKey(i int) document.Key {
	server := s.view.Server(i)
	if !s.g.o.SignIns || !catalog.Connected(&server.Config, server.Outcome) {
		return document.Key{}
	}
	return connection.Key(server.Config.Name, server.Config.URL)
}

// withConnection returns a context in which the next call uses the sign-in in l.
func (l lockState) withConnection(ctx context.Context) context.Context {
	if l.connection.Key == (document.Key{}) {
		return ctx
	}
	return connection.WithDocument(ctx, l.connection)
}

// serverLockState returns the lock state of an item that no server listed. Such an item has no
// approval record, so only the stops count.
func (s *Session) serverLockState(ctx context.Context, id tool.ID) lockState {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	stops, err := stop.Read(ctx, s.g.approvals)
	if err != nil {
		return s.refuseUnread(ctx, id, err)
	}
	all := s.st.Stopped(stops)
	if refused := s.g.checkStopped(all, s.caller.Agent); refused != nil {
		s.noteStopped("")
		return lockState{status: lock.DisabledUnknown, refuse: refused}
	}
	if cause, ok := all.Server(id.Server); ok {
		s.noteStopped(lock.ServerDisabled)
		return lockState{status: lock.ServerDisabled, note: s.g.stopNote(cause)}
	}
	return lockState{}
}

// refuseUnread refuses an item whose state cannot be read.
func (s *Session) refuseUnread(ctx context.Context, id tool.ID, err error) lockState {
	if !errors.Is(ctx.Err(), context.Canceled) { // otherwise the caller went away
		s.g.o.Log.LogAttrs(ctx, slog.LevelError, "approval record or stops cannot be read",
			slog.String("tool", id.String()), slog.Any("error", err))
	}
	return lockState{status: lock.DisabledUnknown, note: unreadNote}
}

// stopNote tells agents who stopped a server or an agent, why, and where an operator undoes the
// stop.
func (g *Gateway) stopNote(s stop.Stop) string {
	if s.Target == (stop.Target{}) { // the server is disabled, not stopped
		return ""
	}
	note := strings.TrimSuffix(s.Note(), ".")
	switch {
	case s.By == "":
		return note + ". The operator undoes it in that file."
	case g.o.BaseURL == "":
		return note + ". An operator undoes it in the Portcullis page."
	}
	return note + ". An operator undoes it at " + g.o.BaseURL + "/admin/stop"
}

// Stopped returns a refusal if the state says that the agent is stopped, and nil otherwise. Each
// call checks the stops again.
func (g *Gateway) Stopped(ctx context.Context, agent identity.Agent) error {
	if cause, ok := g.states.Load(ctx).AgentStopped(agent.ID); ok {
		return g.refusal(agent, cause)
	}
	return nil
}

// checkStopped refuses an agent that is among the stops in all, or returns nil.
func (g *Gateway) checkStopped(all stop.Stops, agent identity.Agent) error {
	if cause, ok := all.Agent(agent.ID); ok {
		return g.refusal(agent, cause)
	}
	return nil
}

func (g *Gateway) refusal(agent identity.Agent, cause stop.Stop) error {
	return &mcp.Error{
		Code: http.StatusForbidden, Status: http.StatusForbidden,
		Message: "The agent " + quote(agent.ID) + " is " + g.stopNote(cause) + " — until then all that it asks for is refused. Nothing was called.",
	}
}
