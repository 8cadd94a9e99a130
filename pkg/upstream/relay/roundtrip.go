package relay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/sse"
)

// A failure is a request without an answer. Its message is for the client, its error is for the
// log.
type failure struct {
	message string
	err     error
}

func (f *failure) Error() string {
	if f.err == nil {
		return f.message
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// Endings of messages about the effect of a request without an answer.
const (
	notSent    = " The request was not carried out."
	maybeTaken = " The request was sent and may have taken effect; check before sending it again."
)

// exchange sends a message and writes the answers. If the endpoint no longer knows the session,
// exchange opens another session, once.
func (r *relay) exchange(ctx context.Context, m message) error {
	select {
	case <-m.after: // a client may not wait for its handshake's answer
	case <-ctx.Done():
		return ctx.Err()
	}
	changed := r.nextSignIn()
	if r.answersSignIn(ctx, m) {
		return nil
	}
	err := r.deliver(ctx, m)
	if e, ok := unsigned(err); ok {
		r.answerUnsigned(ctx, m, e, changed)
		return nil
	}
	return err
}

// deliver sends a message in the session of the client.
func (r *relay) deliver(ctx context.Context, m message) error {
	s := r.current()
	if s.unsigned && !m.modern && m.method != mcp.MethodInitialize {
		if m.id == nil {
			if m.method == mcp.NotificationInitialized {
				r.noteReady(m, s)
			}
			return nil // the gateway has no session yet
		}
		var err error
		if s, err = r.reopen(ctx, s); err != nil {
			return err
		}
	}
	err := r.send(ctx, m, s)
	if !errors.Is(err, errSessionGone) {
		return err
	}
	if s, err = r.reopen(ctx, s); err != nil {
		return err
	}
	return r.send(ctx, m, s)
}

// errSessionGone says that the endpoint does not know the session.
var errSessionGone = &failure{message: "The gateway no longer has the session." + notSent}

// send sends a message in a session and writes the answers. If the gateway refuses the token, and
// there is another one, send sends the message again.
func (r *relay) send(ctx context.Context, m message, s session) error {
	token, err := r.token(ctx)
	if err != nil {
		return err
	}
	next, err := r.sendWith(ctx, m, s, token, false)
	if next.Reveal() != "" {
		_, err = r.sendWith(ctx, m, s, next, true)
	}
	return err
}

// sendWith sends a message with a token. It returns another token if the gateway refused this one.
// The last attempt returns no token.
func (r *relay) sendWith(
	ctx context.Context, m message, s session, token secret.Text, last bool,
) (next secret.Text, err error) {
	var sent atomic.Bool // the connection sets it concurrently
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.o.URL, bytes.NewReader(m.line))
	if err != nil {
		return next, &failure{"The gateway's URL is not valid." + notSent, err}
	}
	r.address(req, s, token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if m.modern {
		r.describe(req, m)
	}
	if m.method == mcp.NotificationInitialized {
		r.noteReady(m, s)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		if sent.Load() {
			return next, &failure{"The connection to the gateway broke before its answer " +
				"came." + maybeTaken, err}
		}
		return next, &failure{"The gateway cannot be reached. Is it running, and is its URL " +
			"right?" + notSent, err}
	}
	defer func() { _ = resp.Body.Close() }()
	if code := resp.StatusCode; r.o.SignIn != nil &&
		(code == http.StatusUnauthorized || code == http.StatusForbidden) {
		if last && code == http.StatusUnauthorized {
			return next, &failure{"The gateway refuses the token that its own issuer gave. Its " +
				"operator must " +
				"compare its issuer and its audience with the token." + notSent, nil}
		}
		next, err = r.o.SignIn.Refused(ctx, token, code, resp.Header)
		if err != nil || next.Reveal() != "" && !last {
			return next, err
		}
	}
	return secret.Text{}, r.receive(ctx, resp, m, s)
}

// receive writes the answers of a response.
func (r *relay) receive(ctx context.Context, resp *http.Response, m message, s session) error {
	if resp.StatusCode/100 != 2 {
		return r.writeRefusal(resp, m, s)
	}
	if m.id == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be used again
		if m.method == mcp.NotificationInitialized {
			return r.completeHandshake(ctx, m, s)
		}
		return nil
	}
	return r.answer(resp, m)
}

// address sets the headers of every request.
func (r *relay) address(req *http.Request, s session, token secret.Text) {
	for name, values := range r.o.Header {
		req.Header[name] = values
	}
	if t := token.Reveal(); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	if s.id != "" {
		req.Header.Set(mcp.HeaderSession, s.id)
	}
	if s.version != "" {
		req.Header.Set(mcp.HeaderVersion, s.version)
	}
}

// describe sets the headers that repeat parts of a message of the stateless protocol.
func (r *relay) describe(req *http.Request, m message) {
	req.Header.Del(mcp.HeaderSession)
	req.Header.Set(mcp.HeaderVersion, rawjson.Text(rawjson.Get(rawjson.Get(m.params, "_meta"), mcp.MetaVersion)))
	req.Header.Set(mcp.HeaderMethod, m.method)
	member := func(name string) string { return rawjson.Text(rawjson.Get(m.params, name)) }
	name := cmp.Or(member("name"), member("uri"), member("taskId"))
	if name != "" {
		req.Header.Set(mcp.HeaderName, tool.EncodeHeader(name))
	}
	if m.method == mcp.MethodCallTool {
		r.params.set(req.Header, name, rawjson.Get(m.params, "arguments"))
	}
}

// answer writes the messages that answer a request.
func (r *relay) answer(resp *http.Response, m message) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch media {
	case "application/json":
		body, err := readAll(resp.Body)
		if err != nil {
			return err
		}
		if !json.Valid(body) {
			return &failure{"The gateway's answer is not JSON." + maybeTaken, nil}
		}
		r.pass(m, resp, body)
		return nil
	case "text/event-stream":
		answered := false
		err := sse.Events(resp.Body, maxAnswer, func(data []byte) (bool, error) {
			if !json.Valid(data) {
				return false, &failure{"The gateway's answer is not JSON." + maybeTaken, nil}
			}
			answered = bytes.Equal(rawjson.Get(data, "id"), m.id) && rawjson.Get(data, "method") == nil
			r.pass(m, resp, data)
			return answered, nil
		})
		if err != nil && !answered {
			return &failure{"The connection to the gateway broke before its answer was complete." + maybeTaken, err}
		}
		return nil
	}
	return &failure{"The server at the gateway's URL is not an MCP server." + maybeTaken, fmt.Errorf("content type %.100q", resp.Header.Get("Content-Type"))}
}

// pass writes a message of the endpoint, and learns from it the headers of later requests.
func (r *relay) pass(m message, resp *http.Response, body []byte) {
	if result := rawjson.Get(body, "result"); result != nil {
		switch m.method {
		case mcp.MethodInitialize:
			r.noteAnswer(m, resp.Header.Get(mcp.HeaderSession), rawjson.Text(rawjson.Get(result, "protocolVersion")))
		case mcp.MethodListTools:
			r.params.learn(result)
			r.mu.Lock()
			r.listedSignIn = false
			r.mu.Unlock()
		}
	}
	r.write(body)
}

// writeRefusal writes the JSON-RPC error of a refused message, or otherwise an error that explains
// the status.
func (r *relay) writeRefusal(resp *http.Response, m message, s session) error {
	body, err := readAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	status := fmt.Errorf("http status %d", resp.StatusCode)
	fault := rawjson.Get(body, "error")
	foreign := string(rawjson.Get(fault, "code")) == strconv.Itoa(resp.StatusCode) // the code only repeats the status
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound && s.id != "" && !m.modern && m.method != mcp.MethodInitialize:
		return errSessionGone
	case code == http.StatusUnauthorized && r.o.Token.Reveal() == "":
		return &failure{"The gateway requires a credential: start the command with PORTCULLIS_TOKEN in its environment." + notSent, status}
	case code == http.StatusUnauthorized:
		return &failure{"The gateway refused the credential in PORTCULLIS_TOKEN: it is wrong, expired or revoked." + notSent, status}
	case code/100 == 3:
		return &failure{"The gateway's URL redirects to another URL, and this command follows no redirect: use the other URL." + notSent, status}
	}
	if m.id != nil && (!foreign || resp.StatusCode != http.StatusNotFound) && json.Valid(body) && len(fault) > 0 && fault[0] == '{' {
		if foreign { // a stream has no status, and the code belongs to JSON-RPC
			code := mcp.CodeInternal
			if resp.StatusCode/100 == 4 {
				code = mcp.CodeInvalidRequest
			}
			fault = rawjson.Set(fault, "code", strconv.AppendInt(nil, int64(code), 10))
			body = rawjson.Set(body, "error", fault)
		}
		id := rawjson.Get(body, "id")
		if bytes.Equal(id, m.id) {
			r.write(body)
		} else {
			r.write(rawjson.Object{{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: m.id}, {Name: "error", Value: fault}}.Bytes())
		}
		return nil
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return &failure{"There is no MCP endpoint at the gateway's URL. It usually ends in /mcp." + notSent, status}
	case http.StatusForbidden, http.StatusTooManyRequests:
		return &failure{fmt.Sprintf("The gateway refused the request (HTTP status %d).", resp.StatusCode) + notSent, status}
	}
	return &failure{fmt.Sprintf("The gateway failed (HTTP status %d).", resp.StatusCode) + maybeTaken, status}
}

// readAll reads a whole body, up to the limit.
func readAll(body io.Reader) (json.RawMessage, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, &failure{"The connection to the gateway broke before its answer was complete." + maybeTaken, err}
	}
	if len(b) > maxAnswer {
		return nil, &failure{"The gateway's answer is too long." + maybeTaken, nil}
	}
	return b, nil
}
