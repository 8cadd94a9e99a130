package mcphttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// one returns the only line since the last read.
func (k *ledger) one(t *testing.T) audit.Line {
	t.Helper()
	lines := k.take()
	if len(lines) != 1 {
		t.Fatalf("got %d audit lines, want 1: %+v", len(lines), lines)
	}
	return lines[0]
}

func TestAuditWho(t *testing.T) {
	g, book := auditedGateway(t), &ledger{}
	call := func(auth identity.Authenticator, change func(*http.Request)) {
		t.Helper()
		h := newAuthHandler(t, g, auth, &mcphttp.Options{Audit: book, TrustedProxies: 1})
		r := legacy.request(t, "tools/call", toolCall("call_tool_read", `{"name":"git:git_status"}`))
		if change != nil {
			change(r)
		}
		send(h, r)
	}
	kim := authenticator(func() (identity.Agent, error) {
		return identity.Agent{ID: "client-7", Human: "kim", Way: identity.WayJWT, Claims: map[string]any{"azp": "cursor"}}, nil
	})
	call(kim, func(r *http.Request) {
		r.Header.Set("X-Forwarded-For", "1.2.3.4, 2001:db8::1")
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		r.URL.Path = "/mcp/x/git"
	})
	if l := book.one(t); l.Agent != "client-7" || l.Human != "kim" || l.Client != "cursor" || l.Source != "2001:db8::1" || l.Trace != "0af7651916cd43dd8448eb211c80319c" || l.Path != "/mcp/x/git" || l.Decision != audit.Allowed {
		t.Errorf("%+v", l)
	}
	call(kim, func(r *http.Request) { r.Header.Set("Traceparent", "00-\n-x") })
	if l := book.one(t); l.Trace != "" {
		t.Errorf("trace %q", l.Trace)
	}
	call(denies(&identity.Error{Kind: identity.Missing}), nil)
	if lines := book.take(); len(lines) > 0 {
		t.Errorf("audit lines of a caller without credentials: %+v", lines)
	}
	g.Agent.Tiers = []tool.Tier{tool.Write}
	call(kim, nil)
	if l := book.one(t); l.Decision != audit.Tier || l.Tool != "git:git_status" || l.ArgsSent != "" {
		t.Errorf("%+v", l)
	}
	h := newHandler(t, g, &mcphttp.Options{Audit: book})
	r := modern.request(t, "tools/call", toolCall("x", `{}`))
	r.Header.Set("Mcp-Name", "y")
	send(h, r)
	if l := book.one(t); l.Decision != audit.Refused || l.Tool != "x" {
		t.Errorf("audit line of a request whose headers contradict its body: %+v", l)
	}
}

// A gone is a client that accepts nothing.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAuditEnds(t *testing.T) {
	read := func(t *testing.T, e protocol) *http.Request {
		return e.request(t, "tools/call", toolCall("call_tool_read", `{"name":"git:git_status"}`))
	}
	blocked := func(ctx context.Context, began func()) (json.RawMessage, error) {
		began()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t.Run("the client is gone before it has the answer", func(t *testing.T) {
		g, book := auditedGateway(t), &ledger{}
		newHandler(t, g, &mcphttp.Options{Audit: book}).ServeHTTP(gone{httptest.NewRecorder()}, read(t, legacy))
		if l := book.one(t); l.Delivered || l.Outcome != "available" || l.ResultBytes == 0 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("cancelled by its client", func(t *testing.T) {
		b, book, log := &backend{}, &ledger{}, &logbook{}
		ctx, cancel := context.WithCancel(t.Context())
		b.call = func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
			b.callers[0].Event.Outcome = audit.Cancelled
			return blocked(ctx, cancel)
		}
		send(newHandler(t, b, &mcphttp.Options{Audit: book, AuditLog: true, Log: log.logger()}), modern.described(t).WithContext(ctx))
		if l := book.one(t); l.Delivered || l.Outcome != audit.Cancelled || l.Decision != audit.Refused {
			t.Errorf("%+v", l)
		}
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, `"level":"INFO"`) || !strings.Contains(s, `"audit":1`) {
			t.Errorf("log: %s", s)
		}
	})
	t.Run("cut short by the end of the program", func(t *testing.T) {
		b, book, ending := &backend{}, &ledger{}, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		b.call = func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
			b.callers[0].Event.Allow("d1")
			b.callers[0].Event.Outcome = audit.Cancelled
			return blocked(ctx, func() { close(ending); cancel() })
		}
		o := laptop()
		o.Audit, o.Ending = book, ending
		send(newHandler(t, b, o), legacy.described(t).WithContext(ctx))
		if l := book.one(t); l.Outcome != audit.Cancelled || l.Decision != audit.Allowed {
			t.Errorf("%+v", l)
		}
	})
	t.Run("a panic", func(t *testing.T) {
		b, book := &backend{}, &ledger{}
		b.call = func(context.Context, mcp.Request) (json.RawMessage, error) { panic("boom") }
		send(newHandler(t, b, &mcphttp.Options{Audit: book}), legacy.described(t))
		if l := book.one(t); l.Decision != audit.Refused || !l.Delivered {
			t.Errorf("%+v", l)
		}
	})
}

func TestAuditRequired(t *testing.T) {
	book := &ledger{full: errors.New("disk full at /home/kim")}
	g := auditedGateway(t, `"audit":{"required":true}`)
	g.Options.Audit = audit.NewLog(book)
	g.Restart()
	h := newHandler(t, g, &mcphttp.Options{Audit: book})
	for _, c := range auditCases {
		got := send(h, legacy.request(t, c.method, c.params)).body
		if !strings.Contains(got, "Nothing was called") || !strings.Contains(got, "audit") || strings.Contains(got, "kim\"") || strings.Contains(got, "disk full") {
			t.Errorf("%s: %s", c.name, got)
		}
		if l := book.one(t); l.Decision != audit.Refused || l.Outcome != "" {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
	if sent := g.Sent(); len(sent) > 0 {
		t.Errorf("calls without an audit reached the server: %+v", sent)
	}
	if log := g.Log.String(); !strings.Contains(log, "disk full at /home/kim") {
		t.Errorf("the log lacks the cause: %s", log)
	}
	book.full = nil
	send(h, legacy.request(t, "tools/call", toolCall("call_tool_read", `{"name":"git:git_status"}`)))
	if l := book.one(t); l.Decision != audit.Allowed || len(g.Sent()) != 1 {
		t.Errorf("%+v", l)
	}
}

func TestAuditSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, book := &library{backend: &backend{}}, &ledger{}
		l.write("a:1", "one")
		o := laptop()
		o.Audit = book
		h := newHandler(t, l, o)
		id := begin(t, h, ``)
		subscribe(t, h, id, "resources/subscribe", "a:1").wantResult(t)
		if got := book.one(t); got.Method != "resources/subscribe" || got.Tool != "a:1" || got.Decision != audit.Allowed {
			t.Errorf("%+v", got)
		}
		subscribe(t, h, id, "resources/subscribe", "a:2")
		if got := book.one(t); got.Tool != "a:2" || got.Decision != audit.Refused {
			t.Errorf("%+v", got)
		}
		subscribe(t, h, id, "resources/unsubscribe", "a:1")
		if lines := book.take(); len(lines) > 0 {
			t.Errorf("%+v", lines)
		}
	})
}

func TestAuditStopped(t *testing.T) {
	book := &ledger{}
	for _, test := range []struct{ name, stops, params, tool, status string }{
		{"a server", `"servers":["git"]`, toolCall("call_tool_read", `{"name":"git:git_status"}`), "git:git_status", "server_disabled"},
		{"everything", `"all":true`, toolCall("call_tool_read", `{"name":"git:git_status"}`), "git:git_status", "server_disabled"},
		{"the agent", `"agents":["tester"]`, toolCall("retrieve_tools", `{"query":"x"}`), "retrieve_tools", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHandler(t, auditedGateway(t, `"stop":{`+test.stops+`,"reason":"key leaked"}`), &mcphttp.Options{Audit: book})
			send(h, legacy.request(t, "tools/call", test.params))
			if l := book.one(t); l.Decision != audit.Stopped || l.Tool != test.tool || l.Status != test.status || l.Outcome != "" {
				t.Errorf("%+v", l)
			}
		})
	}
}
