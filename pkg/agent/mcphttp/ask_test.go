package mcphttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// asks returns a tool's code. It asks the client a question and returns the client's answer.
func asks(method, params string) talk {
	return func(ctx context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
		if c.Ask == nil {
			return json.RawMessage(`{"content":[],"asked":"nobody"}`), nil
		}
		said, err := c.Ask(ctx, method, json.RawMessage(params))
		if err != nil {
			return json.RawMessage(fmt.Sprintf(`{"content":[],"error":%q,"own":%v}`, err, errorOfClient(err))), nil
		}
		return json.RawMessage(`{"content":[],"said":` + string(said) + `}`), nil
	}
}

func errorOfClient(err error) bool {
	_, ok := errors.AsType[*mcp.Error](err)
	return ok
}

// An openCall is a call whose answer is being read.
type openCall struct {
	body   io.ReadCloser
	events *bufio.Scanner
}

// call makes a request over HTTP and returns its open answer.
func call(t *testing.T, h http.Handler, r *http.Request) *openCall {
	t.Helper()
	out, in := io.Pipe()
	w := &piped{in: in, header: http.Header{}}
	go func() {
		h.ServeHTTP(w, r)
		in.Close()
	}()
	t.Cleanup(func() { out.Close() })
	return &openCall{out, bufio.NewScanner(out)}
}

type piped struct {
	in     *io.PipeWriter
	header http.Header
}

func (p *piped) Header() http.Header         { return p.header }
func (p *piped) WriteHeader(int)             {}
func (p *piped) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *piped) Flush()                      {}

// next returns the next message, or "" at the end.
func (c *openCall) next() string {
	for c.events.Scan() {
		if data, ok := strings.CutPrefix(c.events.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

// question returns the id of the next message, which is a question.
func (c *openCall) question(t *testing.T) string {
	t.Helper()
	q := require.JSON[struct{ ID, Method string }](t, c.next())
	if q.ID == "" || q.Method == "" {
		t.Fatalf("no question: %+v", q)
	}
	return q.ID
}

// answer returns a client's answer to a question.
func answer(t *testing.T, session, id, said string) *http.Request {
	t.Helper()
	r := post(t, `{"jsonrpc":"2.0","id":`+id+`,`+said+`}`)
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if session != "" {
		in(session, r)
	}
	return r
}

func accepted(t *testing.T, got reply) {
	t.Helper()
	if got.status != http.StatusAccepted || got.body != "" {
		t.Errorf("answer = %d %s", got.status, got.body)
	}
}

func TestAsk(t *testing.T) {
	const form = `{"message":"Who <are> you?","requestedSchema":{"n":9007199254740993}}`
	h := newHandler(t, &backend{talk: asks("elicitation/create", form)}, laptop())
	id, other := begin(t, h, `"elicitation":{}`), begin(t, h, `"elicitation":{}`)
	c := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)))
	raw := c.next()
	asked := require.JSON[struct {
		JSONRPC, ID, Method string
		Params              json.RawMessage
	}](t, raw)
	if asked.JSONRPC != "2.0" || asked.Method != "elicitation/create" || string(asked.Params) != form || len(asked.ID) < 20 {
		t.Fatalf("question = %s", raw)
	}
	quoted := `"` + asked.ID + `"`
	accepted(t, send(h, answer(t, other, quoted, `"result":{"action":"accept","from":"another session"}`)))
	accepted(t, send(h, answer(t, "", quoted, `"result":{"action":"accept","from":"no session"}`)))
	accepted(t, send(h, answer(t, id, `"unknown"`, `"result":{"action":"accept"}`)))
	accepted(t, send(h, answer(t, id, `7`, `"result":{"action":"accept"}`)))
	send(h, answer(t, id, quoted, `"result":5`)).wantError(t, 400, -32600, quoted)
	accepted(t, send(h, answer(t, id, quoted, `"result":{"action":"accept","content":{"n":9007199254740993}}`)))
	accepted(t, send(h, answer(t, id, quoted, `"result":{"action":"decline","from":"the second answer"}`)))
	want := `{"jsonrpc":"2.0","id":7,"result":{"content":[],"said":{"action":"accept","content":{"n":9007199254740993}}}}`
	same(t, "answer", want, c.next())
	if more := c.next(); more != "" {
		t.Errorf("message after the answer: %s", more)
	}
}

func TestAskRefused(t *testing.T) {
	h := newHandler(t, &backend{talk: asks("elicitation/create", `{}`)}, laptop())
	id := begin(t, h, `"elicitation":{}`)
	c := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)))
	accepted(t, send(h, answer(t, id, `"`+c.question(t)+`"`, `"error":{"code":-1,"message":"no \u0022way\u0022","data":{}}`)))
	if got := c.next(); !strings.Contains(got, `no \"way\"`) || !strings.Contains(got, `"own":true`) {
		t.Errorf("answer %s", got)
	}
}

// A client that has not declared a capability gets no questions for it.
func TestAskUndeclared(t *testing.T) {
	for _, tt := range []struct{ method, params, declared, missing string }{
		{"elicitation/create", `{}`, ``, "elicitation"},
		{"elicitation/create", `{"mode":"url"}`, `"elicitation":{"form":{}}`, "elicitation"},
		{"elicitation/create", `{"mode":"url"}`, `"elicitation":{"url":{}}`, ""},
		{"tools/call", `{}`, `"elicitation":{},"roots":{},"sampling":{}`, "tools/call"},
	} {
		h := newHandler(t, &backend{talk: asks(tt.method, tt.params)}, laptop())
		id := begin(t, h, tt.declared)
		if tt.missing != "" {
			if got := send(h, in(id, legacy.request(t, "tools/call", `"name":"echo"`))).wantResult(t); !strings.Contains(got, tt.missing) || !strings.Contains(got, `"own":true`) {
				t.Errorf("%s %s, declared %s: %s", tt.method, tt.params, tt.declared, got)
			}
			continue
		}
		c := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)))
		accepted(t, send(h, answer(t, id, `"`+c.question(t)+`"`, `"result":{}`)))
		if got := c.next(); !strings.Contains(got, `"said":{}`) {
			t.Errorf("%s %s, declared %s: %s", tt.method, tt.params, tt.declared, got)
		}
	}
}

// A client without a stream, without a session or with another protocol gets no questions during a
// call.
func TestAskNobody(t *testing.T) {
	h := newHandler(t, &backend{talk: asks("roots/list", ``)}, laptop())
	id := begin(t, h, `"roots":{}`)
	jsonOnly := in(id, legacy.request(t, "tools/call", `"name":"echo"`))
	jsonOnly.Header.Set("Accept", "application/json")
	function := laptop()
	function.Alone = false
	for name, got := range map[string]reply{
		"without a stream":  send(h, jsonOnly),
		"without a session": send(h, legacy.request(t, "tools/call", `"name":"echo"`)),
		"stateless":         send(h, modern.request(t, "tools/call", `"name":"echo"`)),
		"from a function":   send(newHandler(t, &backend{talk: asks("roots/list", ``)}, function), in(id, legacy.request(t, "tools/call", `"name":"echo"`))),
	} {
		if !strings.Contains(got.wantResult(t), `"asked":"nobody"`) {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}

func TestAskUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, &backend{talk: asks("roots/list", ``)}, laptop())
		id := begin(t, h, `"roots":{}`)
		start := time.Now()
		c := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)))
		question := c.question(t)
		withdrawn := c.next()
		if took := time.Since(start); took != 5*time.Minute || !strings.Contains(withdrawn, `"notifications/cancelled"`) || !strings.Contains(withdrawn, question) {
			t.Errorf("got %s after %v, want the withdrawal of %s", withdrawn, took, question)
		}
		if got := c.next(); !strings.Contains(got, "deadline exceeded") {
			t.Errorf("answer %s", got)
		}
		accepted(t, send(h, answer(t, id, `"`+question+`"`, `"result":{}`))) // late
	})
}

// A server that asks without end has a bounded number of open questions. The gateway does not wait
// for a client that disconnects.
func TestAskWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan int, 1)
		h := newHandler(t, &backend{talk: func(ctx context.Context, _ mcp.Request, c mcp.Client) (json.RawMessage, error) {
			results := make(chan error)
			for range 100 {
				go func() {
					_, err := c.Ask(ctx, "roots/list", nil)
					results <- err
				}()
			}
			many := 0
			for range 100 {
				if err := <-results; strings.Contains(err.Error(), "too many") {
					many++
				}
			}
			ended <- many
			return nil, ctx.Err()
		}}, laptop())
		id := begin(t, h, `"roots":{}`)
		ctx, cancel := context.WithCancel(t.Context())
		c := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)).WithContext(ctx))
		questions := map[string]bool{}
		for range 16 {
			questions[c.question(t)] = true
		}
		synctest.Wait()
		cancel()
		go io.Copy(io.Discard, c.body)
		if many := <-ended; many != 84 || len(questions) != 16 {
			t.Errorf("got %d open and %d refused questions, want 16 and 84", len(questions), many)
		}
	})
}
