package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

type handler struct {
	backend Backend
	auth    identity.Authenticator
	opts    Options
	origins origins

	sdk        *sdk.Server
	rpc        http.Handler
	bodies     budget
	serverInfo []byte // as it stands in _meta
}

// An exchange is one request and what became of it.
type exchange struct {
	path     string // after /mcp
	msg      mcp.Request
	read     bool // the body was
	modern   bool
	agent    string
	session  Session
	start    time.Time
	deadline time.Time // of the request's work

	mu      sync.Mutex      // the SDK answers in another goroutine
	raw     json.RawMessage // the backend's result
	refused *mcp.Error      // the backend's error
}

const endpointPrefix = "/mcp"

// endpoint returns what follows /mcp.
func endpoint(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, endpointPrefix)
	if rest == "" || rest == "/readonly" {
		return rest, ok
	}
	name, ok2 := strings.CutPrefix(rest, "/x/")
	return rest, ok && ok2 && name != "" && !strings.Contains(name, "/")
}

// ServeHTTP answers one request, and always writes.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if path, ok := strings.CutPrefix(r.URL.Path, metadataPath); ok {
		h.serveMetadata(w, r, path)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	r = r.WithContext(h.opts.Metrics.Begin(r.Context()))
	x := &exchange{start: time.Now()}
	x.deadline = x.start.Add(h.opts.Timeout)
	if d, ok := r.Context().Deadline(); ok && d.Before(x.deadline) {
		x.deadline = d
	}
	code := 0
	err := h.serve(w, r, x)
	if err != nil {
		code = status(err, x.modern)
		if lacking, ok := errors.AsType[*identity.Error](err.Err); ok && code == http.StatusForbidden {
			h.setChallenge(w, x.path, lacking) // the call of a tool asks for more than coming in does
		}
		if !x.read {
			leave(w, r)
		}
		writeError(w, x.msg.ID, err, code)
	}
	h.record(r.Context(), x, err, code)
}

// serve takes the steps of one request in order. What it refuses it has not
// written yet.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, x *exchange) (refused *mcp.Error) {
	defer func() {
		if p := recover(); p != nil {
			refused = panicked(p)
		}
	}()
	var ok bool
	if x.path, ok = endpoint(r.URL.Path); !ok {
		return refuse(http.StatusNotFound, "not found")
	}
	if err := h.checkOrigin(w, r); err != nil {
		x.msg.ID = peekID(w, r)
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		h.preflight(w, r)
		return nil
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "POST")
		return refuse(http.StatusMethodNotAllowed, "method not allowed")
	}
	if err := checkMedia(r.Header); err != nil {
		return err
	}
	agent, denied := h.auth.Authenticate(r) // before the body, which costs memory and time
	if denied != nil {
		x.msg.ID = peekID(w, r)
		return h.challenge(w, x.path, denied)
	}
	x.agent = agent.ID
	body, err := h.read(w, r)
	if err != nil {
		return err
	}
	x.read = true
	if x.msg, err = mcp.Parse(body); err != nil {
		return err
	}
	return h.serveMessage(w, r, x, agent)
}

// serveMessage answers an authenticated caller's message.
func (h *handler) serveMessage(w http.ResponseWriter, r *http.Request, x *exchange, agent identity.Agent) *mcp.Error {
	ver, err := version(r.Header)
	if err != nil {
		return err
	}
	x.modern = ver >= mcp.VersionModern
	header, err := sdkHeader(r.Header, ver)
	if err != nil {
		return err
	}
	if x.msg.Method == "" { // a client's answer to a request that was never made
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := admit(x.msg, x.modern); err != nil {
		return err
	}
	if x.msg.IsNotification() && !notifications[x.msg.Method] {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if x.msg.Method == mcp.MethodListen && !accepts(r.Header, "text/event-stream") {
		return refuse(http.StatusNotAcceptable, "the answer is text/event-stream")
	}
	if served[x.msg.Method] {
		if err := h.open(r, x, agent); err != nil {
			return err
		}
	}
	return h.ask(w, r, x, header)
}

// open asks the backend for the caller's view.
func (h *handler) open(r *http.Request, x *exchange, agent identity.Agent) *mcp.Error {
	ctx, cancel := context.WithDeadline(r.Context(), x.deadline)
	defer cancel()
	s, err := h.backend.Open(ctx, gateway.Caller{
		Agent:       agent,
		Path:        x.path,
		Header:      callerHeaders(r.Header),
		Modern:      x.modern,
		Traceparent: r.Header.Get("Traceparent"),
	})
	if err != nil {
		return visible(err)
	}
	x.session = s
	return nil
}

// ask hands the message to the SDK and writes its answer, with the client's id and
// the backend's bytes in it.
func (h *handler) ask(w http.ResponseWriter, r *http.Request, x *exchange, header http.Header) *mcp.Error {
	in := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	in.Header = header
	body := forSDK(x.msg)
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	rec := &recorder{header: http.Header{}}
	h.rpc.ServeHTTP(rec, in)

	raw, refused := x.outcome()
	if refused != nil && !x.msg.IsNotification() { // nobody waits to hear what the SDK missed before it
		return refused
	}
	if err := rec.refusal(); err != nil {
		return err
	}
	if raw != nil {
		writeJSON(w, http.StatusOK, envelope(x.msg.ID, "result", raw))
		return nil
	}
	rest, ok := rec.result()
	switch {
	case ok:
		writeJSON(w, http.StatusOK, append([]byte(`{"jsonrpc":"2.0","id":`+string(x.msg.ID)+`,`), rest...))
	case rec.status == http.StatusAccepted, x.msg.IsNotification(): // the SDK's session may end before it has said so
		w.WriteHeader(http.StatusAccepted)
	case x.msg.Method == mcp.MethodListen && rec.status == http.StatusOK:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(rec.body.Bytes()) // a client that is gone reads nothing
	default: // the request ended before its answer was there
		return internal(context.Cause(r.Context()))
	}
	return nil
}

// record leaves one line, with what was counted. It holds no arguments and no results.
func (h *handler) record(ctx context.Context, x *exchange, err *mcp.Error, code int) {
	id, took := h.opts.RequestID(ctx), time.Since(x.start)
	attrs := []slog.Attr{
		slog.String("method", cut(x.msg.Method)),
		slog.String("tool", cut(x.msg.Name)),
		slog.String("agent", x.agent),
		slog.Bool("modern", x.modern),
		slog.Duration("took", took),
		slog.String("request_id", id),
	}
	level, failed := slog.LevelInfo, false
	switch {
	case err == nil:
	case x.gone(ctx, err): // nobody reads what became of it, and nothing failed
		level = slog.LevelDebug
		attrs = append(attrs, slog.String("refusal", "the client is gone"))
	default:
		attrs = append(attrs, slog.Int("status", code), slog.Int("code", err.Code), slog.String("refusal", cut(err.Message)))
		if err.Err != nil {
			attrs = append(attrs, slog.Any("error", err.Err))
		}
		_, tools := errors.AsType[*outcome.RPCError](err.Err) // the tool's own answer: nothing failed here
		switch failed = code >= http.StatusInternalServerError || err.Code == mcp.CodeInternal && !tools; {
		case failed:
			level = slog.LevelError
		case x.msg.Method == "" && (code == http.StatusNotFound || code == http.StatusMethodNotAllowed):
			level = slog.LevelDebug // whoever tries paths and methods says nothing of MCP
		}
	}
	counted := h.opts.Metrics.Request(ctx, took, failed)
	if level < slog.LevelInfo && counted != nil { // which the platform may drop, and must not with a count
		h.opts.Log.LogAttrs(ctx, slog.LevelInfo, "metrics", counted...)
		counted = nil
	}
	h.opts.Log.LogAttrs(ctx, level, "mcp request", append(attrs, counted...)...)
}

// gone reports whether a request came to nothing because its client went away: while it was
// served, or before it was sent whole.
func (x *exchange) gone(ctx context.Context, err *mcp.Error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.Is(err.Err, context.Canceled) ||
		!x.read && errors.Is(err.Err, io.ErrUnexpectedEOF)
}

// cut keeps a text that the sender or a server chose from filling the log.
func cut(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most]
	}
	return s
}
