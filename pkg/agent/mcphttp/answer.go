package mcphttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A method describes a method of the protocol. The gateway refuses a method that is not in methods.
type method struct {
	answer  func(h *handler, ctx context.Context, q *request) (json.RawMessage, error) // nil: see listen
	session bool                                                                       // needs a Session
	works   bool                                                                       // slow, and can be cancelled
	talks   bool                                                                       // servers may send messages before the result
	call    bool                                                                       // has a line in the audit
}

var methods = map[string]method{
	mcp.MethodInitialize: {answer: (*handler).initialize, session: true},
	mcp.MethodDiscover:   {answer: (*handler).discover, session: true},
	mcp.MethodListTools:  {answer: (*handler).tools, session: true, works: true},
	mcp.MethodCallTool:   {answer: (*handler).tools, session: true, works: true, talks: true, call: true},

	mcp.MethodGetTask:    ofTask,
	mcp.MethodUpdateTask: ofTask,
	mcp.MethodCancelTask: ofTask,

	mcp.MethodListPrompts:   {answer: (*handler).listItems, session: true, works: true},
	mcp.MethodListResources: {answer: (*handler).listItems, session: true, works: true},
	mcp.MethodListTemplates: {answer: (*handler).listItems, session: true, works: true},
	mcp.MethodGetPrompt:     {answer: (*handler).getItem, session: true, works: true, talks: true, call: true},
	mcp.MethodReadResource:  {answer: (*handler).getItem, session: true, works: true, talks: true, call: true},
	mcp.MethodComplete:      {answer: (*handler).getItem, session: true, works: true, talks: true, call: true},

	mcp.MethodSubscribe:   {answer: (*handler).subscribe, session: true, works: true, call: true},
	mcp.MethodUnsubscribe: {answer: (*handler).subscribe, session: true},
	mcp.MethodSetLevel:    {answer: (*handler).setLevel},
	mcp.MethodPing:        {answer: (*handler).ping},
	mcp.MethodListen:      {},

	mcp.NotificationInitialized: {},
	mcp.NotificationCancelled:   {},
}

// ofTask describes the requests about a task.
var ofTask = method{answer: (*handler).task, session: true, works: true, talks: true, call: true}

// admit refuses unknown methods and messages before the backend is called.
func (h *handler) admit(m mcp.Request, modern bool) *mcp.Error {
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
	_, ok := methods[m.Method]
	switch m.Method {
	case mcp.MethodListen, mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		ok = modern
	case mcp.MethodSetLevel, mcp.MethodSubscribe, mcp.MethodUnsubscribe: // these need a session
		ok = !modern && h.keepsSessions()
	}
	if !ok {
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
		return h.listen(w, r, q)
	}
	ctx, m := r.Context(), methods[q.msg.Method]
	if m.works {
		ctx = h.work(w, r, q)
		defer h.rest(q)
	}
	result, err := m.answer(h, ctx, q)
	switch {
	case q.abandoned.Load():
		return q.endUnanswered(w)
	case err != nil:
		return visible(err)
	case q.begins != nil:
		h.begin(ctx, w.Header(), *q.begins)
	}
	h.reportClient(q)
	head := envelope(q.msg.ID, "result")
	q.event.ResultBytes = len(result)
	if q.stream.end(head, result, closing) {
		q.event.Delivered = !q.stream.isBroken()
	} else {
		q.event.Delivered = h.deliver(w, r, q, writeJSON(w, http.StatusOK, head, result, closing))
	}
	return nil
}

// inProtocol refuses a method that the request's protocol does not have.
func (q *request) inProtocol(modern bool) error {
	if q.modern == modern {
		return nil
	}
	return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", q.msg.Method)}
}

func (h *handler) ping(_ context.Context, q *request) (json.RawMessage, error) {
	return json.RawMessage("{}"), q.inProtocol(false)
}

// capabilities returns the declared capabilities. A process that does not run between requests
// declares no changes of lists and no log messages. capabilities declares a feature only if a
// server of the caller's selection has it.
func (h *handler) capabilities(q *request) json.RawMessage {
	list, offers := json.RawMessage("{}"), q.session.Offers()
	if h.live != nil {
		list = json.RawMessage(`{"listChanged":true}`)
	}
	var out rawjson.Object
	add := func(name string, declared bool, value json.RawMessage) {
		if declared {
			out.Add(name, value)
		}
	}
	add("extensions", offers.Tasks, json.RawMessage(`{"`+mcp.ExtensionTasks+`":{}}`))
	add("completions", offers.Completions, json.RawMessage("{}"))
	add("logging", q.modern && h.opts.Stream || h.keepsSessions(), json.RawMessage("{}"))
	add("prompts", offers.Prompts, list)
	if h.live != nil && (q.modern || h.keepsSessions()) {
		add("resources", offers.Resources, json.RawMessage(`{"listChanged":true,"subscribe":true}`))
	} else {
		add("resources", offers.Resources, list)
	}
	add("tools", true, list)
	return out.Bytes()
}

// initialize answers the handshake.
func (h *handler) initialize(_ context.Context, q *request) (json.RawMessage, error) {
	if err := q.inProtocol(false); err != nil {
		return nil, err
	}
	params := q.msg.Rest
	if !stringShape.fits(params.Get("protocolVersion")) || !clientCapabilities.fits(params.Get("capabilities")) || !implementation.fits(params.Get("clientInfo")) {
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	}
	version := mcp.HandshakeVersion(rawjson.Text(params.Get("protocolVersion")))
	begins := newSession(q.agent, version, params.Get("capabilities"))
	q.begins = &begins
	return rawjson.Encode(struct {
		Capabilities    json.RawMessage `json:"capabilities"`
		Instructions    string          `json:"instructions,omitempty"`
		ProtocolVersion string          `json:"protocolVersion"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
	}{h.capabilities(q), q.session.Instructions(), version, h.serverInfo})
}

// discover answers server/discover, which a client of the stateless protocol may send first.
func (h *handler) discover(_ context.Context, q *request) (json.RawMessage, error) {
	if err := q.inProtocol(true); err != nil {
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
		h.capabilities(q), q.session.Instructions(),
	})
}

// tools calls the backend.
func (h *handler) tools(ctx context.Context, q *request) (json.RawMessage, error) {
	d := h.decorator(q, q.msg.Method == mcp.MethodListTools)
	d.checked = !d.list && !q.modern && q.session.DeclaresOutput(q.msg.Name)
	d.tasks = !d.list && q.has(mcp.ExtensionTasks)
	var raw json.RawMessage
	var err error
	if d.list {
		raw, err = q.session.ListTools(ctx, q.msg.Cursor)
	} else {
		raw, err = q.session.CallTool(ctx, q.msg, h.client(q))
	}
	if failure := h.unansweredError(q, err); failure != nil && !d.list {
		raw, err = gateway.Failed("", failure, nil, "")
	}
	if err != nil {
		return nil, err
	}
	if d.list {
		raw, err = d.decorate(raw)
		if err == nil && exceeded(raw, h.opts.MaxResponse, !h.opts.Stream) > 0 {
			return nil, internal(fmt.Errorf("%w: a page of %d bytes", errTooLong, len(raw)))
		}
		return raw, err
	}
	return h.callResult(d, raw)
}

// callResult returns the result of a call for the client. It replaces a result that is too long.
func (h *handler) callResult(d decorator, raw json.RawMessage) (json.RawMessage, error) {
	raw, err := d.decorate(raw)
	if err != nil {
		return nil, err
	}
	limit := exceeded(raw, h.opts.MaxResponse, !h.opts.Stream)
	if limit == 0 {
		return raw, nil
	}
	if raw, err = gateway.Failed("", tooLarge(limit), nil, ""); err != nil {
		return nil, err
	}
	return d.decorate(raw)
}
