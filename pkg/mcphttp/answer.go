package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// A method is one that is served. What is not in methods does not exist.
type method struct {
	answer  func(h *handler, ctx context.Context, q *request) (json.RawMessage, error) // nil: see listen
	session bool                                                                       // it needs the caller's view
}

var methods = map[string]method{
	mcp.MethodInitialize: {(*handler).initialize, true},
	mcp.MethodDiscover:   {(*handler).discover, true},
	mcp.MethodListTools:  {(*handler).tools, true},
	mcp.MethodCallTool:   {(*handler).tools, true},
	mcp.MethodPing:       {(*handler).ping, false},
	mcp.MethodListen:     {nil, false},

	mcp.NotificationInitialized: {nil, false},
	mcp.NotificationCancelled:   {nil, false},
}

// admit refuses what is not served before anything is asked of the backend.
func admit(m mcp.Request, modern bool) *mcp.Error {
	isNote := strings.HasPrefix(m.Method, mcp.NotificationPrefix)
	switch {
	case m.IsNotification() != isNote:
		if isNote {
			return badRequest(mcp.CodeInvalidRequest, "a notification has no id")
		}
		return badRequest(mcp.CodeInvalidRequest, "a request needs an id")
	case isNote:
		return nil
	}
	if _, ok := methods[m.Method]; !ok || m.Method == mcp.MethodListen && !modern {
		return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	if m.Method == mcp.MethodCallTool && m.Name == "" {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.name is required"}
	}
	return nil
}

// answer answers a checked request.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, q *request) *mcp.Error {
	if q.modern {
		if err := q.checkClient(); err != nil {
			return err
		}
	}
	if q.msg.Method == mcp.MethodListen {
		return h.listen(w, q)
	}
	result, err := methods[q.msg.Method].answer(h, r.Context(), q)
	if err != nil {
		return visible(err)
	}
	writeJSON(w, http.StatusOK, envelope(q.msg.ID, "result"), result, closing)
	return nil
}

// inEra refuses a method that the request's era does not have.
func (q *request) inEra(modern bool) error {
	if q.modern == modern {
		return nil
	}
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", q.msg.Method)}
}

func (h *handler) ping(_ context.Context, q *request) (json.RawMessage, error) {
	return json.RawMessage("{}"), q.inEra(false)
}

// No listChanged: nothing runs between requests that could tell of a change.
const capabilities = `{"tools":{}}`

// initialize answers the handshake. A client that asks for a version that is not offered is
// answered with the newest of its era.
func (h *handler) initialize(_ context.Context, q *request) (json.RawMessage, error) {
	if err := q.inEra(false); err != nil {
		return nil, err
	}
	params := q.msg.Rest
	if !stringShape.fits(params.Get("protocolVersion")) || !clientCapabilities.fits(params.Get("capabilities")) || !implementation.fits(params.Get("clientInfo")) {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	}
	version := rawjson.Text(params.Get("protocolVersion"))
	if version >= mcp.VersionModern || !slices.Contains(offered, version) {
		version = mcp.VersionLegacy
	}
	return rawjson.Encode(struct {
		Capabilities    json.RawMessage `json:"capabilities"`
		Instructions    string          `json:"instructions,omitempty"`
		ProtocolVersion string          `json:"protocolVersion"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
	}{json.RawMessage(capabilities), q.session.Instructions(), version, h.serverInfo})
}

// discover answers what a client of the stateless protocol may ask before all else.
func (h *handler) discover(_ context.Context, q *request) (json.RawMessage, error) {
	if err := q.inEra(true); err != nil {
		return nil, err
	}
	return rawjson.Encode(struct {
		ResultType   string                     `json:"resultType"`
		Meta         map[string]json.RawMessage `json:"_meta"`
		TTL          int                        `json:"ttlMs"`
		CacheScope   string                     `json:"cacheScope"`
		Versions     []string                   `json:"supportedVersions"`
		Capabilities json.RawMessage            `json:"capabilities"`
		Instructions string                     `json:"instructions,omitempty"`
	}{
		mcp.ResultComplete, map[string]json.RawMessage{mcp.MetaServerInfo: h.serverInfo}, 0, "private", offered,
		json.RawMessage(capabilities), q.session.Instructions(),
	})
}

// listen answers a subscription, which ends at once and in good order: nothing runs between
// requests that could tell of a change.
func (h *handler) listen(w http.ResponseWriter, q *request) *mcp.Error {
	wanted := q.msg.Rest.Get("notifications")
	switch {
	case !subscriptions.fits(wanted):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	case !given(wanted):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params: missing required 'notifications' field"}
	}
	subscription := rawjson.Member{Name: mcp.MetaSubscriptionID, Value: q.msg.ID}
	acknowledged := rawjson.Object{
		{Name: "jsonrpc", Value: json.RawMessage(`"2.0"`)},
		{Name: "method", Value: rawjson.Quote(mcp.NotificationAcknowledged)},
		{Name: "params", Value: rawjson.Object{
			{Name: "_meta", Value: rawjson.Object{subscription}.Bytes()}, {Name: "notifications", Value: json.RawMessage("{}")},
		}.Bytes()},
	}
	result := rawjson.Object{
		{Name: "resultType", Value: json.RawMessage(resultComplete)},
		{Name: "_meta", Value: rawjson.Object{{Name: mcp.MetaServerInfo, Value: h.serverInfo}, subscription}.Bytes()},
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: message\ndata: %s\n\nevent: message\ndata: %s%s}\n\n", // a client that is gone reads nothing
		acknowledged.Bytes(), envelope(q.msg.ID, "result"), result.Bytes())
	return nil
}

// tools asks the backend.
func (h *handler) tools(ctx context.Context, q *request) (json.RawMessage, error) {
	if !q.modern { // in the handshake protocols a client that disconnects has not cancelled
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, q.deadline)
	defer cancel()
	d := decorator{list: q.msg.Method == mcp.MethodListTools, modern: q.modern, serverInfo: h.serverInfo, meta: q.msg.Meta}
	d.checked = !d.list && !q.modern && q.session.DeclaresOutput(q.msg.Name)
	var raw json.RawMessage
	var err error
	if d.list {
		raw, err = q.session.ListTools(ctx, q.msg.Cursor)
	} else {
		raw, err = q.session.CallTool(ctx, q.msg, mcp.Client{Capabilities: q.msg.Meta.Get(mcp.MetaClientCapabilities)})
	}
	late := errors.Is(err, context.DeadlineExceeded)
	if _, refused := errors.AsType[*mcp.Error](err); late && !refused && !d.list { // how far it got is not known
		raw, err = gateway.Failed("", &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{
			Status: outcome.Transient, Reason: outcome.ReasonTimeout, Duration: time.Since(q.start),
		}}, nil)
	}
	if err != nil {
		return nil, err
	}
	if raw, err = d.decorate(raw); err != nil {
		return nil, err
	}
	limit := exceeded(raw, h.opts.MaxResponse)
	if limit == 0 {
		return raw, nil
	}
	if d.list {
		return nil, internal(fmt.Errorf("%w: a page of %d bytes", errTooLong, len(raw)))
	}
	if raw, err = gateway.Failed("", &outcome.CallError{Delivered: true, Limit: limit, Outcome: outcome.Outcome{
		Status: outcome.Available, Reason: outcome.ReasonTooLarge,
	}}, nil); err != nil {
		return nil, err
	}
	return d.decorate(raw)
}
