package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// Bounds on what one request asks its client.
const (
	maxRounds   = 8  // results that ask for input, until the request is given up
	maxRequests = 16 // questions in one of them
)

// exchange sends a request upstream that may be called, and passes on what its server asks meanwhile:
//
//	client      server      how
//	stateless   stateless   the result that asks passes, with its state sealed
//	stateless   handshake   the call is parked until the client comes back, or made again with the answers
//	handshake   handshake   the client is asked on its open request
//	handshake   stateless   the client is asked on its open request, and the server again
//
// An error is one of the call, for [Session.failed], an [*mcp.Error] or a [*notAsked].
func (s *Session) exchange(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	state, responses := c.Rest.Get(requestState), c.Rest.Get(inputResponses)
	if state != nil || responses != nil {
		c.Rest = slices.Clone(c.Rest)
		c.Rest.Delete(requestState)
		// A stateless client may answer before it is asked. What it says is for the server to judge, as
		// arguments are; a state that is not ours says that it was asked.
		if state != nil || !s.caller.Modern || t.Asks == upstream.AsksOff {
			c.Rest.Delete(inputResponses)
		}
	}
	if t.Asks == upstream.AsksOff {
		c.Client.Ask = nil
	} else if c.Client.Ask != nil {
		c.Client.Ask = declaredOnly(c.Client)
	}
	if !s.caller.Modern {
		return s.callServer(ctx, t, c)
	}
	if state != nil {
		return s.again(ctx, t, c, state, responses)
	}
	if t.Asks != upstream.AsksOff && s.g.o.Sealer != nil && c.Method != mcp.MethodComplete && mcp.Askable(c.Client.Capabilities) {
		switch {
		case s.g.o.Holds:
			return s.startPending(ctx, t, c)
		case t.Asks == upstream.AsksReplay && c.Retry:
			return s.replay(ctx, t, c, inputState{}, nil)
		}
	}
	return s.once(ctx, t, c)
}

// again sends a request that comes back with answers, and the state that it was given.
func (s *Session) again(ctx context.Context, t upstream.Target, c upstream.Call, state, responses json.RawMessage) (json.RawMessage, error) {
	st, message, err := s.openState(ctx, state, bound(t, c))
	if err != nil || message != "" {
		return nil, refusal(message, err)
	}
	if err := s.goOn(ctx, st); err != nil {
		return nil, err
	}
	switch {
	case st.Parked != "":
		return s.resume(ctx, st, answersOf(responses), c)
	case !st.Replay:
		c.Rest = withAnswers(c.Rest, responses, st.Upstream)
		return s.once(ctx, t, c)
	case t.Asks != upstream.AsksReplay || !c.Retry: // the config has changed since
		return nil, &notAsked{askOff}
	}
	return s.replay(ctx, t, c, st, answersOf(responses))
}

// once sends a request to a server that can ask with its result alone.
func (s *Session) once(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	raw, err := s.callServer(ctx, t, c)
	if err != nil {
		return nil, err
	}
	return s.sealed(ctx, t, c, raw)
}

// A notAsked is the end of a request whose server asks what cannot be asked, or whose client comes back
// with an answer that is to nothing. Its text is for the agent.
type notAsked struct{ text string }

func (e *notAsked) Error() string { return e.text }

// about returns the text for a request about a prompt or a resource.
func (e *notAsked) about(kind tool.Kind) string {
	if kind == tool.Tool {
		return e.text
	}
	return strings.NewReplacer("The tool", "The server", "the tool", "the server", "its tool", "it").Replace(e.text)
}

// refusal returns the error that ends a request: err, or one with the message.
func refusal(message string, err error) error {
	if err != nil {
		return err
	}
	return &notAsked{message}
}

// declaredOnly returns the client's Ask, but for what it has not declared.
func declaredOnly(c mcp.Client) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if refused := mcp.UndeclaredQuestion(method, params, c.Capabilities); refused != nil {
			return nil, refused
		}
		return c.Ask(ctx, method, params)
	}
}

// withAnswers returns the params of a request that is made again, as its server wants them.
func withAnswers(rest rawjson.Object, responses, state json.RawMessage) rawjson.Object {
	rest = slices.Clone(rest)
	if responses != nil {
		rest.Add(inputResponses, responses)
	}
	if state != nil {
		rest.Add(requestState, state)
	}
	return rest
}

// sealed replaces the server's state in a result that asks for input. It has one also if the server gave
// none, so that the answers come back bound to this request.
func (s *Session) sealed(ctx context.Context, t upstream.Target, c upstream.Call, raw json.RawMessage) (json.RawMessage, error) {
	if !asksInput(raw) {
		return raw, nil
	}
	if t.Asks == upstream.AsksOff {
		return nil, &notAsked{askOff}
	}
	o, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return nil, err
	}
	own := o.Get(requestState)
	if len(own) > 0 && own[0] != '"' {
		own = nil // it is none
	}
	state, message := s.sealState(ctx, inputState{Bound: bound(t, c), Upstream: own})
	if message != "" {
		return nil, &notAsked{message}
	}
	s.event.Outcome = audit.Asked
	o.Delete(requestState)
	o.Add(requestState, state)
	return o.Bytes(), nil
}

// relay asks a client of the handshake protocol what a stateless server wants to know, and the
// server again, as often as it takes.
func (s *Session) relay(ctx context.Context, t upstream.Target, c upstream.Call, raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case t.Asks == upstream.AsksOff:
		return nil, &notAsked{askOff}
	case c.Client.Ask == nil:
		return raw, nil // what becomes of it is a matter of the client's protocol
	}
	rest := c.Rest
	for range maxRounds {
		o, err := rawjson.Split(raw, rawjson.Lenient)
		if err != nil {
			return nil, err
		}
		responses, message, err := askAll(ctx, t, c, o.Get("inputRequests"))
		if message != "" || err != nil {
			return nil, refusal(message, err)
		}
		c.Rest = withAnswers(rest, responses, o.Get(requestState))
		if raw, err = s.request(ctx, t, c); err != nil || !asksInput(raw) {
			return raw, err
		}
	}
	return nil, &notAsked{askTooOften}
}

// askAll asks a client everything that a result wants to know, and returns the answers. A message is for
// the agent: there are none.
func askAll(ctx context.Context, t upstream.Target, c upstream.Call, requests json.RawMessage) (responses json.RawMessage, message string, err error) {
	questions, _ := rawjson.Split(requests, rawjson.Lenient) // what is no object asks nothing
	if len(questions) > maxRequests {
		return nil, askTooLong, nil
	}
	if refused := mcp.Undeclared(requests, c.Client.Capabilities); refused != nil {
		return nil, refused.Message, nil //nolint:nilerr // the agent reads it, and not its client
	}
	if len(questions) == 0 { // the server is busy, and wants to be asked again
		select {
		case <-time.After(time.Second):
			return nil, "", nil
		case <-ctx.Done():
			return nil, "", interrupted(ctx, t, c)
		}
	}
	var out rawjson.Object
	for _, q := range questions {
		own, cancel := context.WithTimeout(ctx, mcp.AskTime)
		result, err := c.Client.Ask(own, rawjson.Text(rawjson.Get(q.Value, "method")), rawjson.Get(q.Value, "params"))
		cancel()
		switch refused, ok := errors.AsType[*mcp.Error](err); {
		case ctx.Err() != nil:
			return nil, "", interrupted(ctx, t, c)
		case ok:
			return nil, "The tool asks for input, and the client refused to give it: " + quote(refused.Message) + ". " + sideEffects, nil
		case errors.Is(err, context.DeadlineExceeded):
			return nil, "The tool asked for input, and nobody gave it within 5 minutes. " + sideEffects, nil
		case err != nil, len(result) == 0 || result[0] != '{':
			return nil, "The tool asks for input, and the client could not be asked. " + sideEffects, nil //nolint:nilerr // nothing of it is for the agent
		}
		out.Add(q.Name, result)
	}
	return out.Bytes(), "", nil
}

// interrupted is the error of a call whose request ends while it is not the server that is waited for.
func interrupted(ctx context.Context, t upstream.Target, c upstream.Call) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err() // nobody reads how it ended
	}
	return &outcome.CallError{Delivered: true, Repeatable: c.Retry, Outcome: outcome.Outcome{
		ServerID: t.ID, Status: outcome.Transient, Reason: outcome.ReasonTimeout,
	}}
}

// logNoKey says that the key of sealed texts cannot be read.
func (g *Gateway) logNoKey(ctx context.Context, err error) {
	g.o.Log.LogAttrs(ctx, slog.LevelError, "the key of clients' questions cannot be read", slog.Any("error", err))
}
