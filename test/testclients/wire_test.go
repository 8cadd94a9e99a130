package testclients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A wire is a client that returns each message of an answer as it arrives, and that can leave
// early.
type wire struct {
	t       *testing.T
	url     string // of the endpoint
	token   string // bearer token; "": none
	modern  bool
	session string // id of the session from the handshake
	sent    int
}

// A message is one message of an answer.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ProgressToken json.RawMessage
		Progress      float64
		Message       string
	}
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// text returns the text that a model reads in the last message of an answer.
func (m message) text() string {
	if m.Error != nil {
		return m.Error.Message
	}
	return string(m.Result)
}

// newWire returns a client of a protocol. With the handshake protocol, it has a session.
func newWire(t *testing.T, url, token string, modern bool, capabilities string) *wire {
	t.Helper()
	w := &wire{t: t, url: url, token: token, modern: modern}
	if modern {
		return w
	}
	r := w.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+
		`,"clientInfo":{"name":"wire","version":"1"}}}`, nil)
	_ = r.Body.Close()
	w.session = r.Header.Get(mcp.HeaderSession)
	r = w.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	_ = r.Body.Close()
	return w
}

func (w *wire) post(ctx context.Context, body string, h http.Header) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
	require.OK(w.t, err)
	for name, values := range h {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.session != "" {
		r.Header.Set(mcp.HeaderSession, w.session)
		r.Header.Set(mcp.HeaderVersion, mcp.VersionLegacy)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.OK(w.t, err)
	return answer
}

// ask sends a request and returns the messages of the answer as they arrive. If the context ends,
// the messages end without the last one.
func (w *wire) ask(ctx context.Context, method string, params map[string]any) iter.Seq[message] {
	w.t.Helper()
	w.sent++
	meta := map[string]any{"progressToken": fmt.Sprintf("token-%d", w.sent)}
	h := http.Header{}
	if w.modern {
		meta[mcp.MetaVersion], meta[mcp.MetaClientCapabilities] = mcp.VersionModern, map[string]any{}
		meta[mcp.MetaClientInfo] = map[string]any{"name": "wire", "version": "1"}
		h.Set(mcp.HeaderVersion, mcp.VersionModern)
		h.Set(mcp.HeaderMethod, method)
		for _, name := range []string{"name", "uri"} {
			if value, ok := params[name].(string); ok {
				h.Set(mcp.HeaderName, value)
			}
		}
	}
	params["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": w.sent, "method": method, "params": params})
	require.OK(w.t, err)
	answer := w.post(ctx, string(body), h)
	return func(yield func(message) bool) {
		defer func() { _ = answer.Body.Close() }()
		if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
			data, err := io.ReadAll(answer.Body)
			if err == nil {
				yield(require.JSON[message](w.t, data))
			}
			return
		}
		in := bufio.NewReaderSize(answer.Body, 1<<20)
		for {
			line, err := in.ReadBytes('\n')
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !yield(require.JSON[message](w.t, bytes.TrimSpace(data))) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}

// call calls a tool; see ask.
func (w *wire) call(ctx context.Context, name string, arguments map[string]any) iter.Seq[message] {
	w.t.Helper()
	return w.ask(ctx, "tools/call", map[string]any{"name": name, "arguments": arguments})
}

// last returns the last message of an answer, and how many came before it.
func last(answer iter.Seq[message]) (end message, before int) {
	for m := range answer {
		end = m
		before++
	}
	return end, before - 1
}
