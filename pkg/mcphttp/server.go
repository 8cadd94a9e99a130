package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// served says of each method of MCP that is offered whether it needs a session.
// What is not here does not exist: the SDK would answer an empty list of
// prompts to a client that was told of none.
var served = map[string]bool{
	mcp.MethodInitialize: true,
	mcp.MethodDiscover:   true,
	mcp.MethodListTools:  true,
	mcp.MethodCallTool:   true,
	mcp.MethodPing:       false,
	mcp.MethodListen:     false,
}

// notifications are those that the SDK takes. Others are taken too, and dropped:
// nobody waits for an answer.
var notifications = map[string]bool{
	"notifications/initialized": true,
	"notifications/cancelled":   true,
}

// newServer returns the one server for all requests. Making one for each, with its
// tools in it, costs milliseconds and megabytes at a hundred tools.
func (h *handler) newServer() *sdk.Server {
	impl := &sdk.Implementation{Name: h.opts.Name, Version: h.opts.Version}
	s := sdk.NewServer(impl, &sdk.ServerOptions{
		// No listChanged: nothing runs between requests that could tell of a
		// change, and a subscription ends at once and in good order.
		Capabilities:              &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		SupportedProtocolVersions: offered,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
			c.CacheScope = "private"
		},
		Logger: slog.New(warnings{h.opts.Log.Handler()}),
	})
	s.AddReceivingMiddleware(h.answer)
	h.serverInfo, _ = json.Marshal(impl) // strings alone cannot fail
	return s
}

type exchangeKey struct{}

var errNoExchange = errors.New("no exchange in the context")

// answer takes the tools' methods out of the SDK's hands. It runs in a goroutine of
// the SDK, where nothing else would catch a panic.
func (h *handler) answer(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		x, ok := ctx.Value(exchangeKey{}).(*exchange)
		if !ok {
			return nil, errNoExchange
		}
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p)
			}
			if err != nil {
				res, err = nil, x.fail(err)
			}
		}()
		switch method {
		case mcp.MethodListTools, mcp.MethodCallTool:
			raw, err := h.tools(ctx, x)
			if err != nil {
				return nil, err
			}
			x.keep(raw)
			return &rawResult{}, nil
		}
		res, err = next(ctx, method, req)
		switch r := res.(type) {
		case *sdk.InitializeResult:
			if r != nil {
				r.Instructions = x.session.Instructions()
			}
		case *sdk.DiscoverResult:
			if r != nil {
				r.Instructions = x.session.Instructions()
			}
		}
		return res, err
	}
}

// tools asks the backend.
func (h *handler) tools(ctx context.Context, x *exchange) (json.RawMessage, error) {
	// The SDK passes on neither the request's deadline nor, in the handshake protocols,
	// its end: there a client that disconnects has not cancelled.
	ctx, cancel := context.WithDeadline(ctx, x.deadline)
	defer cancel()
	d := decorator{list: x.msg.Method == mcp.MethodListTools, modern: x.modern, serverInfo: h.serverInfo, meta: x.msg.Meta}
	d.checked = !d.list && !x.modern && x.session.DeclaresOutput(x.msg.Name)
	var raw json.RawMessage
	var err error
	if d.list {
		raw, err = x.session.ListTools(ctx, x.msg.Cursor)
	} else {
		raw, err = x.session.CallTool(ctx, x.msg)
	}
	late := errors.Is(err, context.DeadlineExceeded)
	if _, refused := errors.AsType[*mcp.Error](err); late && !refused && !d.list { // how far it got is not known
		raw, err = gateway.Failed("", &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{
			Status: outcome.Transient, Reason: outcome.ReasonTimeout, Duration: time.Since(x.start),
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

// fail keeps an error of the backend as it is, and gives the SDK one that it can
// encode. The SDK's own errors stay its own.
func (x *exchange) fail(err error) error {
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	e := visible(err)
	x.mu.Lock()
	x.refused = e
	x.mu.Unlock()
	return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message}
}

func (x *exchange) keep(raw json.RawMessage) {
	x.mu.Lock()
	x.raw = raw
	x.mu.Unlock()
}

// outcome returns what the backend gave.
func (x *exchange) outcome() (json.RawMessage, *mcp.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw, x.refused
}

// admit refuses what is not served before anything is asked of the backend.
func admit(m mcp.Request, modern bool) *mcp.Error {
	isNote := strings.HasPrefix(m.Method, "notifications/")
	switch {
	case m.IsNotification() != isNote:
		if isNote {
			return badRequest(mcp.CodeInvalidRequest, "a notification has no id")
		}
		return badRequest(mcp.CodeInvalidRequest, "a request needs an id")
	case isNote:
		return nil
	}
	if _, ok := served[m.Method]; !ok || m.Method == mcp.MethodListen && !modern {
		return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	if m.Method == mcp.MethodCallTool && m.Name == "" {
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.name is required"}
	}
	return nil
}
