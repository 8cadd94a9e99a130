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
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A lockState says why an item is locked now. Its status is [lock.None] if the item is callable.
type lockState struct {
	status lock.Status
	note   string // for agents: of the person who decided or stopped the server
	refuse error  // the refusal of the agent itself; nil: none

	granted request.Granted // grants of the agent, as of now
	at      request.Now     // the time and definition that grants are checked with
	read    bool            // granted and at were read
	by      string          // the request that makes the item callable; "": callable without
}

// unreadNote is the note of a call that is refused because the facts about it cannot be read.
const unreadNote = "The gateway could not read whether this is approved, and what is stopped. Nothing was called. " +
	"Call again in a moment; if that does not help, an operator has to check the gateway's log."

// lockState classifies an item by its approval record and by the stops in the store now. It reads
// the store only if the answer can matter.
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
	record, held, granted, err := s.g.readStanding(span.Context, id, s.requestsKey())
	span.Name("tool", id.String())
	span.End()
	r := &record
	switch {
	case errors.Is(err, approval.ErrNotFound):
		r = nil
	case err != nil:
		return s.refuseUnread(ctx, id, err)
	}
	if refused := s.g.checkStopped(s.st.Stopped(held), s.caller.Agent); refused != nil {
		s.noteStopped("")
		return lockState{status: lock.DisabledUnknown, refuse: refused}
	}
	clock := s.g.o.Now()
	facts = s.view.FactsNow(i, r, held, granted, clock)
	now := lockState{status: lock.Classify(facts), read: true}
	switch {
	case now.status == lock.ServerDisabled:
		is, _ := s.st.Stopped(held).Server(id.Server)
		s.noteStopped(now.status)
		now.note = s.g.stopNote(is)
	case r != nil:
		now.note = s.view.NoteAt(i, now.status, r)
	}
	if len(granted.List) > 0 && r != nil {
		kept := record // most calls keep none of it
		now.granted, now.at = granted, s.view.NowAt(i, &kept, held, clock)
		if facts.Granted = lock.No; now.status == lock.None && lock.Classify(facts) != lock.None {
			grant, _ := granted.Allows(now.at)
			now.by = grant.Request
		}
	}
	return now
}

// readStanding reads the record of one tool, the stops and the decisions about an agent's requests,
// in one read. With agent "" it reads no decisions. Without a record the error is
// [approval.ErrNotFound], and the other results are still valid.
func (g *Gateway) readStanding(ctx context.Context, id tool.ID, agent string) (
	r approval.Record, held stop.Stops, granted request.Granted, err error,
) {
	keys := []document.Key{stop.Key()}
	if agent != "" {
		keys = append(keys, request.GrantedKey(agent))
	}
	r, docs, err := g.approvals.GetWith(ctx, id, keys...)
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return r, held, granted, err
	}
	held, unread := stop.DecodeDoc(docs[0])
	if unread == nil && agent != "" {
		granted, unread = request.DecodeGrantedDoc(docs[1])
	}
	return r, held, granted, cmp.Or(unread, err)
}

// serverLockState is [Session.lockState] for an item without an approval record, because no server
// listed it. It uses only the stops.
func (s *Session) serverLockState(ctx context.Context, id tool.ID) lockState {
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	held, err := stop.Read(ctx, s.g.approvals)
	if err != nil {
		return s.refuseUnread(ctx, id, err)
	}
	all := s.st.Stopped(held)
	if refused := s.g.checkStopped(all, s.caller.Agent); refused != nil {
		s.noteStopped("")
		return lockState{status: lock.DisabledUnknown, refuse: refused}
	}
	if is, ok := all.Server(id.Server); ok {
		s.noteStopped(lock.ServerDisabled)
		return lockState{status: lock.ServerDisabled, note: s.g.stopNote(is)}
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

// stopNote tells agents who stopped a server, why, and where an operator undoes it.
func (g *Gateway) stopNote(s stop.Stop) string {
	if s.Target == (stop.Target{}) { // it is disabled, not stopped
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
	if is, ok := g.states.Load(ctx).AgentStopped(agent.ID); ok {
		return g.refusal(agent, is)
	}
	return nil
}

// checkStopped refuses an agent that all stops, or returns nil.
func (g *Gateway) checkStopped(all stop.Stops, agent identity.Agent) error {
	if is, ok := all.Agent(agent.ID); ok {
		return g.refusal(agent, is)
	}
	return nil
}

func (g *Gateway) refusal(agent identity.Agent, is stop.Stop) error {
	return &mcp.Error{
		Code: http.StatusForbidden, Status: http.StatusForbidden,
		Message: "The agent " + quote(agent.ID) + " is " + g.stopNote(is) + " — until then all that it asks for is refused. Nothing was called.",
	}
}
