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

// The gateway forwards a server's notifications during a call to the caller: progress and log
// messages. A text of a locked tool cannot reach an agent this way, because the gateway sends only
// calls of callable tools. The messages on a call's own stream belong to that call. The gateway
// removes the server's credentials from notifications as it does from results.

const (
	maxForwarded = 64 << 10 // bytes of one notification; a longer log message is cut
	maxSentence  = 2000     // characters of a progress message, and of a cut log message

	levelTimeout = 2 * time.Second // to set a server's log level
)

// handleMessage handles a request or notification that the server sent on the stream of resp,
// during the request that was sent on s.
func (o *operation) handleMessage(ctx context.Context, s mcpSession, resp *http.Response, data []byte) {
	m, err := rawjson.Split(data, rawjson.Lenient)
	method := rawjson.Text(m.Get("method"))
	if err != nil || method == "" {
		return
	}
	switch id := m.Get("id"); {
	case id == nil:
		o.forward(method, m.Get("params"))
	case !s.modern && validRequestID(id): // the stateless protocol has no server requests
		o.answerQuestion(ctx, s, resp, question{id: id, method: method, params: m.Get("params")})
	}
}

// validRequestID reports whether id is a valid request id.
func validRequestID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= 256 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// forward passes a notification on if the caller wants it and it belongs to the call.
func (o *operation) forward(method string, params json.RawMessage) {
	switch {
	case method == mcp.NotificationCancelled:
		o.questions.withdraw(rawjson.Get(params, "requestId"))
		return
	case isListChange(method) && !o.key.load: // a load reads the lists anyway
		o.c.noteListChange(o.t.ID)
		return
	}
	if method == mcp.NotificationMessage {
		p, _ := rawjson.Split(params, rawjson.Lenient)
		o.c.note(o.t.ID, logMessage(p, newRedactor(o.secrets()).text))
	}
	c := o.caller()
	if c.Notify == nil || len(params) > maxForwarded && method != mcp.NotificationMessage {
		return
	}
	size := len(params)
	p, _ := rawjson.Split(o.scrubbed(params), rawjson.Lenient) // first: a cut may halve a secret
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

// caller returns the client that waits for the current request. During a handshake it returns the
// zero value.
func (o *operation) caller() mcp.Client {
	if o.session == nil {
		return mcp.Client{}
	}
	return o.client
}

// progress removes the gateway's token from the params of a progress notification. It reports
// whether the token belongs to request id and the other params are valid.
func progress(p *rawjson.Object, id int64) bool {
	total, message := p.Get("total"), p.Get("message")
	switch {
	case string(p.Get("progressToken")) != strconv.FormatInt(id, 10): // another call's token, or made up
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

// shorten cuts the params of a log message that is too long, and reports whether they have data.
func shorten(p *rawjson.Object, size int) bool {
	data := p.Get("data")
	if size > maxForwarded {
		message := rawjson.Text(data)
		if message == "" {
			message = string(data)
		}
		*p = rawjson.Object{
			{Name: "level", Value: p.Get("level")},
			{Name: "data", Value: rawjson.Quote(text.Clip(message, maxSentence) +
				" (a log message of " + strconv.Itoa(size) + " bytes, cut by the gateway)")},
		}
	}
	return data != nil
}

// A logSetting is the log level that the gateway has set on a session.
type logSetting struct {
	least atomic.Int32 // level; 0: none was set
}

// lower lowers the setting to level, and reports whether the server needs a new setting.
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

// setLevel sets the log level of a server of the handshake protocol, once for each session and
// again for a caller that wants more messages. Each caller gets the messages of its own level. If
// the server refuses, the call continues.
func (o *operation) setLevel(ctx context.Context, s *mcpSession) {
	if o.client.Notify == nil || s.logs == nil || !s.logs.lower(mcp.ParseLogLevel(o.client.LogLevel)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	params := rawjson.Object{{Name: "level", Value: rawjson.Quote(o.client.LogLevel)}}
	_, _ = o.send(ctx, *s, message{method: mcp.MethodSetLevel, params: params}) // best effort: see above
	o.last = nil
}
