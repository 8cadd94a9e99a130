package mcphttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

type handler struct {
	backend    Backend
	auth       identity.Authenticator
	opts       Options
	origins    origins
	bodies     budget
	live       *liveSessions   // nil: other processes may answer requests of the same client
	holder     notifyStreams   // of streams
	serverInfo json.RawMessage // the member of _meta
	served     atomic.Bool     // a request was served
	proxied    bool            // clients use a host name that is not loopback
}

// A request is one HTTP request with its facts.
type request struct {
	path     string // after /mcp
	msg      mcp.Request
	read     bool // the gateway has read the body
	modern   bool // of the stateless protocol
	agent    identity.Agent
	session  Session
	token    *sessionID // of the client's session; nil: none
	begins   *sessionID // of the session that begins with the answer; nil: none
	event    *audit.CallEvent
	start    time.Time
	deadline time.Time // of the work on the request

	cancel    context.CancelFunc // ends the work
	abandoned atomic.Bool        // its client has cancelled the request
	stream    *stream            // nil: the answer is one JSON object
	begun     bool               // part of the answer was written, but not by stream

	bodyBytes int // of the request
}

const endpointPrefix = "/mcp"

// endpoint returns the path after /mcp.
func endpoint(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, endpointPrefix)
	if rest == "" || rest == "/readonly" {
		return rest, ok
	}
	name, ok2 := strings.CutPrefix(rest, "/x/")
	return rest, ok && ok2 && name != "" && !strings.Contains(name, "/")
}

// Header values of every answer. They never change, so all answers share them.
var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
	isJSON  = []string{"application/json"}
)

// ServeHTTP answers one request. It always writes an answer.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = nosniff
	if path, ok := strings.CutPrefix(r.URL.Path, metadataPath); ok {
		h.serveMetadata(w, r, path)
		return
	}
	w.Header()["Cache-Control"] = noStore
	q := &request{start: time.Now(), event: new(audit.CallEvent)}
	if h.opts.Metrics != nil {
		r = r.WithContext(h.opts.Metrics.Begin(r.Context(), &q.event.Counts))
	}
	q.deadline = q.start.Add(h.opts.Timeout)
	if d, ok := r.Context().Deadline(); ok && d.Before(q.deadline) {
		q.deadline = d
	}
	code := 0
	err := h.serve(w, r, q)
	if err != nil {
		code = status(err, q.modern)
		if q.begun || q.stream.end(errorParts(q.msg.ID, err)...) {
			q.event.Delivered = !q.stream.isBroken()
			h.record(r, q, err, http.StatusOK)
			return
		}
		if lacking, ok := errors.AsType[*identity.Error](err.Err); ok && code == http.StatusForbidden {
			h.setChallenge(w, q.path, lacking) // a tool call can need more scopes than the endpoint
		}
		if !q.read {
			closeUnread(w, r)
		}
		q.event.Delivered = h.deliver(w, r, q, writeError(w, q.msg.ID, err, code))
	}
	h.record(r, q, err, code)
}

// serve runs the steps of one request in order. It returns a refusal without writing it.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, q *request) (refused *mcp.Error) {
	defer func() {
		if p := recover(); p != nil {
			refused = panicked(p)
		}
	}()
	var ok bool
	if q.path, ok = endpoint(r.URL.Path); !ok {
		return refuse(http.StatusNotFound, "not found")
	}
	if err := h.checkOrigin(w, r); err != nil {
		q.msg.ID = peekID(w, r)
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		h.preflight(w, r)
		return nil
	case http.MethodPost:
		if err := checkMedia(r.Header); err != nil {
			return err
		}
	case http.MethodGet, http.MethodDelete:
		if h.live == nil || r.Header.Get(mcp.HeaderSession) == "" {
			return h.notAllowed(w)
		}
	default:
		return h.notAllowed(w)
	}
	agent, denied := h.auth.Authenticate(r) // first: the body costs memory and time
	if denied != nil {
		capacity.Leave(r.Context())
		q.msg.ID = peekID(w, r)
		return h.challenge(w, q.path, denied)
	}
	q.agent = agent
	if !capacity.Claim(r.Context(), agent.Owner().QuotaKey()) {
		capacity.Leave(r.Context())
		q.msg.ID = peekID(w, r)
		return tooBusy()
	}
	if r.Method != http.MethodPost {
		return h.serveSession(w, r, q)
	}
	body, err := h.read(w, r)
	if err != nil {
		return err
	}
	q.read, q.bodyBytes = true, len(body)
	if q.msg, err = mcp.Parse(body); err != nil {
		return err
	}
	switch q.msg.Method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing:
	default:
		if err := h.checkStopped(r, q); err != nil {
			return err
		}
	}
	return h.serveMessage(w, r, q)
}

// checkStopped refuses an agent that is stopped, or returns nil.
func (h *handler) checkStopped(r *http.Request, q *request) *mcp.Error {
	span := observe.StartSpan(r.Context(), observe.Record)
	defer span.End()
	ctx, cancel := context.WithDeadline(span.Context, q.deadline)
	defer cancel()
	if err := h.backend.Stopped(ctx, q.agent); err != nil {
		q.event.Decide(audit.Stopped, "")
		return visible(err)
	}
	return nil
}

// serveMessage answers an authenticated caller's message.
func (h *handler) serveMessage(w http.ResponseWriter, r *http.Request, q *request) *mcp.Error {
	headers, err := readHeaders(r.Header)
	if err != nil {
		return err
	}
	q.modern = headers.version >= mcp.VersionModern
	if !q.modern && q.msg.Method != mcp.MethodInitialize {
		if q.token, err = h.readSession(r, q.agent); err != nil {
			return err
		}
	}
	if q.msg.Answer != nil {
		h.live.passAnswer(q.token, q.msg.ID, *q.msg.Answer)
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	// an answer or a notification may belong to a running call
	if h.stopping() && !q.msg.IsNotification() {
		return ending()
	}
	if err := h.admit(q.msg, q.modern); err != nil {
		return err
	}
	method, known := methods[q.msg.Method]
	if !known { // a notification needs no answer
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if q.msg.Method == mcp.MethodListen && !accepts(r.Header, eventStream) {
		return refuse(http.StatusNotAcceptable, "the answer is text/event-stream")
	}
	if method.talks && !capacity.Work(r.Context()) {
		return tooBusy()
	}
	if method.session {
		if err := h.open(r, q); err != nil {
			return err
		}
	}
	if err := cmp.Or(h.checkHost(r), q.check(headers)); err != nil {
		return err
	}
	if q.msg.IsNotification() {
		if q.msg.Method == mcp.NotificationCancelled {
			h.live.cancel(q.token, q.msg.Rest.Get("requestId"))
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	return h.answer(w, r, q)
}

// open gets the caller's view from the backend.
func (h *handler) open(r *http.Request, q *request) *mcp.Error {
	span := observe.StartSpan(r.Context(), observe.Open)
	defer span.End()
	ctx, cancel := context.WithDeadline(span.Context, q.deadline)
	defer cancel()
	s, err := h.session(ctx, r, q, q.event)
	if err != nil {
		return visible(err)
	}
	q.session = s
	return nil
}

// session returns the caller's current view, whose methods fill in the audit event e.
func (h *handler) session(ctx context.Context, r *http.Request, q *request, e *audit.CallEvent) (Session, error) {
	caller := gateway.Caller{
		Agent:       q.agent,
		Path:        q.path,
		Header:      callerHeaders(r.Header),
		Modern:      q.modern,
		Traceparent: r.Header.Get("Traceparent"),
		Event:       e,
	}
	if q.token != nil {
		caller.Session, caller.Apps = q.token.id, q.token.capabilities&hasApps != 0
	} else {
		declared := q.msg.Meta.Get(mcp.MetaClientCapabilities)
		caller.Apps = mcp.HasExtension(declared, mcp.ExtensionApps)
	}
	return h.backend.Open(ctx, caller)
}
