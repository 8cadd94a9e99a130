package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

// A library is a backend of resources whose contents can change.
type library struct {
	*backend
	mu    sync.Mutex
	pages map[string]string // by URI
	reads int
}

func (l *library) Open(context.Context, gateway.Caller) (mcphttp.Session, error) { return l, nil }

func (l *library) Offers() gateway.Offers { return gateway.Offers{Resources: true} }

func (l *library) GetItem(_ context.Context, r mcp.Request, _ mcp.Client) (json.RawMessage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	page, ok := l.pages[r.URI]
	if !ok {
		return nil, &mcp.Error{Code: 4030, Message: "locked", Data: json.RawMessage(`{"status":"pending_approval"}`)}
	}
	return json.RawMessage(fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}],"_meta":{"n":%d}}`, r.URI, page, l.reads)), nil
}

func (l *library) write(uri, page string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages == nil {
		l.pages = map[string]string{}
	}
	l.pages[uri] = page
}

func subscribe(t *testing.T, h http.Handler, session, method, uri string) reply {
	t.Helper()
	r := legacy.request(t, method, `"uri":"`+uri+`"`)
	if session != "" {
		in(session, r)
	}
	return send(h, r)
}

func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{backend: &backend{}}
		l.write("a:1", "one")
		l.write("a:2", "two")
		h := newHandler(t, l, laptop())
		id := begin(t, h, ``)
		for range 2 {
			if got := subscribe(t, h, id, "resources/subscribe", "a:1").wantResult(t); got != "{}" {
				t.Errorf("subscribe = %s", got)
			}
		}
		subscribe(t, h, id, "resources/subscribe", "a:2").wantResult(t)
		subscribe(t, h, id, "resources/subscribe", "a:3").wantError(t, 200, 4030, "7") // the same refusal as for a read
		subscribe(t, h, id, "resources/unsubscribe", "a:2").wantResult(t)
		subscribe(t, h, id, "resources/unsubscribe", "a:9").wantResult(t)
		subscribe(t, h, "", "resources/subscribe", "a:1").wantError(t, 200, -32600, "7")
		subscribe(t, h, id, "resources/subscribe", "").wantError(t, 200, -32602, "7")
		send(h, modern.request(t, "resources/subscribe", `"uri":"a:1"`)).wantError(t, 404, -32601, "7")

		c := call(t, h, get(t, id))
		time.Sleep(5 * time.Minute)
		l.write("a:1", "changed")
		l.write("a:2", "changed")
		start := time.Now()
		want := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}`
		if got := c.next(); got != want || time.Since(start) > time.Minute {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		time.Sleep(5 * time.Minute)
		l.write("a:1", "changed again") // not before: each change is reported once
		if got := c.next(); got != want {
			t.Errorf("message = %s, want %s", got, want)
		}
		l.mu.Lock()
		delete(l.pages, "a:1") // an unreadable resource has not changed
		l.mu.Unlock()
		time.Sleep(5 * time.Minute)
		l.write("a:1", "changed again")
		time.Sleep(5 * time.Minute)
		l.write("a:1", "back")
		start = time.Now()
		if got := c.next(); got != want || time.Since(start) > time.Minute {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
	})
}

func TestSubscriptionsAreBounded(t *testing.T) {
	l := &library{backend: &backend{}}
	h := newHandler(t, l, laptop())
	id := begin(t, h, ``)
	for i := range 33 {
		uri := fmt.Sprintf("a:%d", i)
		l.write(uri, "x")
		got := subscribe(t, h, id, "resources/subscribe", uri)
		if i < 32 {
			got.wantResult(t)
			continue
		}
		got.wantError(t, 200, -32600, "7")
	}
	for i := range 32 {
		subscribe(t, h, id, "resources/unsubscribe", fmt.Sprintf("a:%d", i)).wantResult(t)
	}
	if n := mcphttp.Remembered(h); n != 0 {
		t.Errorf("%d sessions have state after the last unsubscribe, want 0", n)
	}
}

func TestListenToResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{backend: &backend{}}
		l.write("a:1", "one")
		c := call(t, newHandler(t, l, laptop()), listening(t, `"resourceSubscriptions":["a:2","a:1"]`))
		if got := c.next(); !strings.HasSuffix(got, `"notifications":{"resourceSubscriptions":["a:1"]}}}`) {
			t.Errorf("acknowledged %s", got)
		}
		l.write("a:1", "changed")
		if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"a:1"}}` {
			t.Errorf("message = %s", got)
		}
	})
}
