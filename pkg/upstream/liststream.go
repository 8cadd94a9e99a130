package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

// A server that declares listChanged notifies its clients when one of its lists has changed. A
// server of the handshake protocol sends the notifications on a stream that a GET opens. A server
// of the stateless protocol sends them on the stream of subscriptions/listen. A notification names
// no item, so its only effect is that the gateway loads the lists again.

const (
	maxListMessage = 64 << 10              // bytes of one event
	messageEvery   = 10 * time.Millisecond // average time between two events of a stream
	messageBurst   = 1000                  // events that may come at once
)

// Errors that end a notification stream.
var (
	errNoListStream = errors.New("the server reports no changes of its lists")
	errListFlood    = errors.New("the server sent too many messages")
	errListEnded    = errors.New("the server ended the subscription")
)

// listChanges are the lists whose changes a server may report.
var listChanges = [...]struct{ capability, filter, method string }{
	{"tools", "toolsListChanged", mcp.NotificationToolsChanged},
	{"prompts", "promptsListChanged", mcp.NotificationPromptsChanged},
	{"resources", "resourcesListChanged", mcp.NotificationResourcesChanged},
}

// A reports says whose changes a server reports, in the order of [listChanges].
type reports [len(listChanges)]bool

// reportsIn returns what a server with these capabilities reports.
func reportsIn(capabilities map[string]json.RawMessage) (r reports) {
	for i, c := range listChanges {
		r[i] = string(rawjson.Get(capabilities[c.capability], "listChanged")) == "true"
	}
	return r
}

// filter returns the filter of a subscription.
func (r reports) filter() json.RawMessage {
	var o rawjson.Object
	for i, reported := range r {
		if reported {
			o.Add(listChanges[i].filter, json.RawMessage("true"))
		}
	}
	return o.Bytes()
}

// isListChange reports whether a notification says that a list has changed.
func isListChange(method string) bool {
	return slices.ContainsFunc(
		listChanges[:],
		func(c struct{ capability, filter, method string }) bool { return c.method == method },
	)
}

// readListChanges opens the notification stream of a server, on the session of its loads and with
// their credential, and reads it to its end. It calls opened when the server has accepted the
// stream, and changed for each notification of a changed list. It returns [errNoListStream] if
// there is no such stream. The outcome says how the server answered.
func (c *Client) readListChanges(
	ctx context.Context,
	t Target,
	opened, changed func(),
) (outcome.Outcome, error) {
	o := c.newOperation(t, true, session.Owner{})
	defer o.release()
	began := time.Now()
	out, err := o.attempt(ctx, ctx, func() error {
		for {
			err := o.readListStream(ctx, opened, changed)
			if !o.mayReopen() || !o.prepareRetry(ctx, err) {
				return err
			}
		}
	})
	if err != nil {
		c.o.Log.LogAttrs(
			ctx,
			slog.LevelDebug,
			"notification stream ended",
			slog.String("server", t.ID),
			text.Ms("duration", time.Since(began)),
			slog.String("error", o.text(err)),
		)
	}
	return out, err
}

// mayReopen reports whether the server refused the credential or the session. It then may accept
// newer ones.
func (o *operation) mayReopen() bool {
	x := o.last
	return x != nil &&
		(x.status == http.StatusUnauthorized || x.status == http.StatusNotFound && x.session)
}

func (o *operation) readListStream(ctx context.Context, opened, changed func()) error {
	s, err := o.listSession(ctx)
	if err != nil {
		return err
	}
	if s.reports == (reports{}) {
		return errNoListStream
	}
	id := o.c.nextID.Add(1)
	resp, err := o.openListStream(ctx, *s, id)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return o.listRefusal(o.refusal(resp, id))
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "text/event-stream" {
		return errNoListStream
	}
	opened()
	return o.readListMessages(ctx, *s, id, resp.Body, changed)
}

// readListMessages reads the messages on the stream that request id opened. It always returns an
// error.
func (o *operation) readListMessages(
	ctx context.Context,
	s mcpSession,
	id int64,
	body io.Reader,
	changed func(),
) error {
	limited := &io.LimitedReader{R: body, N: maxListMessage}
	messages := rate.NewLimiter(rate.Every(messageEvery), messageBurst)
	err := events(limited, func(data []byte) (bool, error) {
		if !messages.Allow() {
			return true, errListFlood
		}
		limited.N = maxListMessage
		err := o.takeListMessage(ctx, s, id, data, changed)
		return err != nil, err
	})
	if limited.N == 0 {
		return errTooLong
	}
	return err
}

// listSession returns the session of the stream, which it opens if necessary.
func (o *operation) listSession(ctx context.Context) (*mcpSession, error) {
	ctx, cancel := context.WithTimeout(ctx, o.c.limits.load)
	defer cancel()
	if err := o.begin(ctx); err != nil {
		return nil, err
	}
	o.session = nil
	s, err := o.ensureSession(ctx)
	o.session = s
	return s, err
}

// openListStream requests the stream. Some servers send not even headers before the first
// notification, so it waits as long as ctx.
func (o *operation) openListStream(
	ctx context.Context,
	s mcpSession,
	id int64,
) (*http.Response, error) {
	if s.modern {
		params := append(
			rawjson.Object{{Name: "notifications", Value: s.reports.filter()}},
			o.c.listParams(s, nil)...)
		return o.post(
			ctx,
			s,
			message{method: mcp.MethodListen},
			request(id, mcp.MethodListen, params),
		)
	}
	req, err := http.NewRequestWithContext(
		recorded(ctx, &o.last),
		http.MethodGet,
		o.ep.url.String(),
		nil,
	)
	if err != nil {
		return nil, &configError{msg: "the URL is not valid"}
	}
	o.c.address(req, o.ep, s)
	req.Header.Set("Accept", "text/event-stream")
	return o.ep.transport.Do(req)
}

// listRefusal returns [errNoListStream] if a refusal means that the server has no such stream.
func (o *operation) listRefusal(err error) error {
	rpc, own := errors.AsType[*outcome.RPCError](err)
	switch {
	case o.mayReopen(), own && rpc.Code == mcp.CodeVersion:
		return err
	case own, o.last.status == http.StatusNotImplemented:
		return errNoListStream
	case unknownMethod(err) && o.last.status != http.StatusConflict: // another stream is still open
		return errNoListStream
	}
	return err
}

// takeListMessage handles a message on the stream. The error ends the stream.
func (o *operation) takeListMessage(
	ctx context.Context,
	s mcpSession,
	id int64,
	data []byte,
	changed func(),
) error {
	m, _ := rawjson.Split(data, rawjson.Lenient) // some servers send other texts to keep it open
	method, theirs := rawjson.Text(m.Get("method")), m.Get("id")
	switch {
	case theirs == nil && isListChange(method):
		changed()
	case method == "" && s.modern && string(theirs) == strconv.FormatInt(id, 10):
		return errListEnded
	case method != "" && !s.modern && validRequestID(theirs): // a stateless server has no requests
		o.answerOnList(ctx, s, theirs, method)
	}
	return nil
}

// answerOnList answers a request on the stream, and reads no further message meanwhile. Many
// servers end a session whose client does not answer ping.
func (o *operation) answerOnList(
	ctx context.Context,
	s mcpSession,
	id json.RawMessage,
	method string,
) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// Best effort: if the server does not read the answer, answerTimeout ends the attempt.
	if resp, err := o.c.post(ctx, o.ep, s, message{}, refusalOf(id, method)); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxEvidence))
		_ = resp.Body.Close()
	}
}
