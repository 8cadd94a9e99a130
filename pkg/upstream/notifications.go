package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// What a server says while it works on a call goes to the caller: how far it has come, log messages.
// A text of a tool that is locked cannot come to an agent this way, since only a call of an unlocked
// one is sent, and what comes on a call's own stream is of that call. The server's own
// credentials are taken out as they are of results.

const (
	maxForwarded = 64 << 10 // bytes of one notification; of a longer log message the beginning is told
	maxSentence  = 2000     // characters of what a progress notification says in words, and of a log message that is cut

	levelTimeout = 2 * time.Second // for telling a server how much of its log is wanted
)

// handleMessage takes a message of the server's own that came on the stream of resp, for the
// request that was sent on s.
func (o *operation) handleMessage(ctx context.Context, s mcpSession, resp *http.Response, data []byte) {
	m, err := rawjson.Split(data, rawjson.Lenient)
	method := rawjson.Text(m.Get("method"))
	if err != nil || method == "" {
		return
	}
	switch id := m.Get("id"); {
	case id == nil:
		o.forward(method, m.Get("params"))
	case !s.modern && validRequestID(id): // the stateless protocol has no requests of servers
		o.asked(ctx, s, resp, question{id: id, method: method, params: m.Get("params")})
	}
}

// validRequestID reports whether id is one to answer to.
func validRequestID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= 256 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// forward passes a notification on, if the caller wants it and it is about the call.
func (o *operation) forward(method string, params json.RawMessage) {
	if method == mcp.NotificationCancelled {
		o.questions.withdraw(rawjson.Get(params, "requestId"))
		return
	}
	c := o.caller()
	if c.Notify == nil || len(params) > maxForwarded && method != mcp.NotificationMessage {
		return
	}
	size := len(params)
	p, _ := rawjson.Split(o.scrubbed(params), rawjson.Lenient) // before it is cut, since half a secret would not be found
	var tell bool
	switch method {
	case mcp.NotificationProgress:
		tell = c.Progress && progress(&p, o.requestID)
	case mcp.NotificationMessage:
		tell = mcp.ParseLogLevel(rawjson.Text(p.Get("level"))) >= max(mcp.ParseLogLevel(c.LogLevel), 1) && c.LogLevel != "" && shorten(&p, size)
	case mcp.NotificationElicited:
		tell = o.questions.elicited(rawjson.Text(p.Get("elicitationId")))
	}
	if tell {
		c.Notify(method, p)
	}
}

// caller returns who waits for the answer to the request that is under way; the zero value during
// a handshake, which is nobody's.
func (o *operation) caller() mcp.Client {
	if o.session == nil {
		return mcp.Client{}
	}
	return o.client
}

// progress takes our token out of the params of a progress notification, and reports whether it is that
// of request id and the rest is what it should be.
func progress(p *rawjson.Object, id int64) bool {
	total, message := p.Get("total"), p.Get("message")
	switch {
	case string(p.Get("progressToken")) != strconv.FormatInt(id, 10): // another call's, or made up
		return false
	case !isNumber(p.Get("progress")), total != nil && !isNumber(total), message != nil && message[0] != '"':
		return false
	}
	p.Delete("progressToken")
	if len(message) > maxSentence {
		p.Set("message", rawjson.Quote(text.Clip(rawjson.Text(message), maxSentence)))
	}
	return true
}

func isNumber(v json.RawMessage) bool {
	return len(v) > 0 && len(v) <= 64 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

// shorten cuts the params of a log message that are too long, and reports whether they have data.
func shorten(p *rawjson.Object, size int) bool {
	data := p.Get("data")
	if size > maxForwarded {
		said := rawjson.Text(data)
		if said == "" {
			said = string(data)
		}
		*p = rawjson.Object{
			{Name: "level", Value: p.Get("level")},
			{Name: "data", Value: rawjson.Quote(text.Clip(said, maxSentence) + " (a log message of " + strconv.Itoa(size) + " bytes, cut by the gateway)")},
		}
	}
	return data != nil
}

// A logSetting is what was said to a server about how much of its log is wanted in a session.
type logSetting struct {
	least atomic.Int32 // level; 0: nothing was said
}

// lower notes that messages from level on are wanted, and reports whether the server has to be told.
func (l *logSetting) lower(level mcp.LogLevel) bool {
	for {
		old := l.least.Load()
		if level == 0 || old != 0 && mcp.LogLevel(old) <= level {
			return false
		}
		if l.least.CompareAndSwap(old, int32(level)) {
			return true
		}
	}
}

// setLevel tells a server of the handshake protocol which log messages are wanted: once a session,
// and again for somebody who wants more. Each caller gets those that it wants. Whatever the server
// answers, the call goes on.
func (o *operation) setLevel(ctx context.Context, s *mcpSession) {
	if o.client.Notify == nil || s.logs == nil || !s.logs.lower(mcp.ParseLogLevel(o.client.LogLevel)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	params := rawjson.Object{{Name: "level", Value: rawjson.Quote(o.client.LogLevel)}}
	_, _ = o.send(ctx, *s, message{method: mcp.MethodSetLevel, params: params}) // see above
	o.last = nil
}
