package gateway

import (
	"context"
	"crypto/rand"
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

// Limits for the questions of one request to its client.
const (
	maxRounds   = 8  // results that ask for input in one request
	maxRequests = 16 // questions in one of them
)

// exchange sends a permitted request upstream, and passes on the server's questions:
//
//	client      server      how
//	stateless   stateless   the result has the question and the sealed state
//	stateless   handshake   the call waits for the client, or is repeated with the answers
//	handshake   handshake   the client gets the question on its open request
//	handshake   stateless   as above, and the server gets the request again
//
// An error is a call's error for [Session.renderFailure], an [*mcp.Error] or a [*inputError].
func (s *Session) exchange(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	state, responses := c.Rest.Get(requestState), c.Rest.Get(inputResponses)
	if state != nil || responses != nil {
		c.Rest = slices.Clone(c.Rest)
		c.Rest.Delete(requestState)
		// A stateless client may send answers without a question. The server checks such answers,
		// as it checks arguments. If there is a state, even an invalid one, the client claims that
		// there was a question.
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
		return s.continueRequest(ctx, t, c, state, responses)
	}
	if t.Asks != upstream.AsksOff && s.g.o.Sealer != nil && c.Method != mcp.MethodComplete && mcp.Askable(c.Client.Capabilities) {
		switch {
		case s.g.o.Holds:
			return s.startPending(ctx, t, c)
		case t.Asks == upstream.AsksReplay && c.Retry:
			return s.replay(ctx, t, c, inputState{}, nil)
		}
	}
	return s.sendOnce(ctx, t, c)
}

// continueRequest sends a request that comes back with answers and the state that belongs to them.
func (s *Session) continueRequest(ctx context.Context, t upstream.Target, c upstream.Call, state, responses json.RawMessage) (json.RawMessage, error) {
	st, message, err := s.openState(ctx, state, callHash(t, c))
	if err != nil || message != "" {
		return nil, refusal(message, err)
	}
	if err := s.checkAnswer(ctx, st); err != nil {
		return nil, err
	}
	switch {
	case st.CallID != "":
		return s.resume(ctx, st, answersOf(responses), c)
	case !st.Replay:
		c.Rest = withAnswers(c.Rest, responses, st.Upstream)
		return s.sendOnce(ctx, t, c)
	case t.Asks != upstream.AsksReplay || !c.Retry: // the config has changed since
		return nil, &inputError{askOff}
	}
	return s.replay(ctx, t, c, st, answersOf(responses))
}

// sendOnce sends a request to a server that can ask questions only in its result.
func (s *Session) sendOnce(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	raw, err := s.callServer(ctx, t, c)
	if err != nil {
		return nil, err
	}
	return s.sealQuestion(ctx, t, c, raw)
}

// An inputError ends a request for one of two reasons: the gateway cannot pass on the server's
// question, or the client sends an answer without a question. Its text is for the agent.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

// about returns the text for a request about a prompt or a resource.
func (e *inputError) about(kind tool.Kind) string {
	if kind == tool.Tool {
		return e.text
	}
	return strings.NewReplacer("The tool", "The server", "the tool", "the server", "its tool", "it").Replace(e.text)
}

// refusal returns the error that ends a request: err, or if err is nil, an error with the message.
func refusal(message string, err error) error {
	if err != nil {
		return err
	}
	return &inputError{message}
}

// declaredOnly returns the client's Ask with only the features that it declared.
func declaredOnly(c mcp.Client) func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if refused := mcp.UndeclaredQuestion(method, params, c.Capabilities); refused != nil {
			return nil, refused
		}
		return c.Ask(ctx, method, params)
	}
}

// withAnswers returns the params of a repeated request, as its server expects them.
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

// sealQuestion replaces the server's state in a result that asks for input. The result gets a state
// even if the server gave none, so that the answers come back bound to this request.
func (s *Session) sealQuestion(ctx context.Context, t upstream.Target, c upstream.Call, raw json.RawMessage) (json.RawMessage, error) {
	if !asksInput(raw) {
		return raw, nil
	}
	if t.Asks == upstream.AsksOff {
		return nil, &inputError{askOff}
	}
	o, err := rawjson.Split(raw, rawjson.Lenient)
	if err != nil {
		return nil, err
	}
	own := o.Get(requestState)
	if len(own) > 0 && own[0] != '"' {
		own = nil // the server gave none
	}
	state, message := s.sealState(ctx, inputState{Bound: callHash(t, c), Upstream: own})
	if message != "" {
		return nil, &inputError{message}
	}
	s.event.Outcome = audit.InputRequired
	o.Delete(requestState)
	o.Add(requestState, state)
	return o.Bytes(), nil
}

// relay passes the questions of a stateless server to a client of the handshake protocol. It
// repeats the request with the answers until there is a result.
func (s *Session) relay(ctx context.Context, t upstream.Target, c upstream.Call, raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case t.Asks == upstream.AsksOff:
		return nil, &inputError{askOff}
	case c.Client.Ask == nil:
		return raw, nil // the client's protocol handles it
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
	return nil, &inputError{askTooOften}
}

// askAll sends all questions of a result to a client, and returns the answers. If there are no
// answers, it returns a message for the agent.
func askAll(ctx context.Context, t upstream.Target, c upstream.Call, requests json.RawMessage) (responses json.RawMessage, message string, err error) {
	questions, _ := rawjson.Split(requests, rawjson.Lenient) // a non-object has no questions
	if len(questions) > maxRequests {
		return nil, askTooLong, nil
	}
	if refused := mcp.Undeclared(requests, c.Client.Capabilities); refused != nil {
		return nil, refused.Message, nil //nolint:nilerr // the text is for the agent, not its client
	}
	if len(questions) == 0 { // the server is busy and expects the request again
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
		method := rawjson.Text(rawjson.Get(q.Value, "method"))
		result, err := c.Client.Ask(own, method, withPageID(rawjson.Get(q.Value, "params")))
		cancel()
		switch refused, ok := errors.AsType[*mcp.Error](err); {
		case ctx.Err() != nil:
			return nil, "", interrupted(ctx, t, c)
		case ok:
			return nil, "The tool asks for input, and the client refused to give it: " + quote(refused.Message) + ". " + sideEffects, nil
		case errors.Is(err, context.DeadlineExceeded):
			return nil, "The tool asked for input, and nobody gave it within 5 minutes. " + sideEffects, nil
		case err != nil, len(result) == 0 || result[0] != '{':
			return nil, "The tool asks for input, and the client could not be asked. " + sideEffects, nil //nolint:nilerr // the cause is not for the agent
		}
		out.Add(q.Name, result)
	}
	return out.Bytes(), "", nil
}

// withPageID returns the params of a question. If they ask for a page, they get an id, which only the
// handshake protocol requires. The server does not know this id, so it never reports that the page
// is finished.
func withPageID(params json.RawMessage) json.RawMessage {
	const id = "elicitationId"
	o, err := rawjson.Split(params, rawjson.Lenient)
	if err != nil || rawjson.Text(o.Get("mode")) != "url" || rawjson.Text(o.Get(id)) != "" {
		return params
	}
	o.Delete(id)
	o.Add(id, rawjson.Quote(rand.Text()))
	return o.Bytes()
}

// interrupted returns the error of a call whose request ends while the call waits for a client and
// not for the server.
func interrupted(ctx context.Context, t upstream.Target, c upstream.Call) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err() // nobody reads the answer
	}
	return &outcome.CallError{Delivered: true, Repeatable: c.Retry, Outcome: outcome.Outcome{
		ServerID: t.ID, Status: outcome.Transient, Reason: outcome.ReasonTimeout,
	}}
}

// logNoKey logs that the key for sealed texts cannot be read.
func (g *Gateway) logNoKey(ctx context.Context, err error) {
	g.o.Log.LogAttrs(ctx, slog.LevelError, "the key of clients' questions cannot be read", slog.Any("error", err))
}
