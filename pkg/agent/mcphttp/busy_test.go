package mcphttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

// If the gate refuses a request to an endpoint, the answer is JSON-RPC with the id of the request.
// At other addresses the answer is a sentence.
func TestRefuseBusy(t *testing.T) {
	for path, want := range map[string]string{
		"/mcp":         `{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"the gateway has too many requests in flight, and did nothing with this one: send it again"}}`,
		"/mcp/x/files": `{"jsonrpc":"2.0","id":7,"error":{"code":503,`,
		"/admin/tools": "the gateway has too many requests in flight",
	} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"ping"}`))
		got := send(http.HandlerFunc(mcphttp.RefuseBusy), r)
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" || !strings.HasPrefix(got.body, want) {
			t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
	}
}

// Once the program ends, new requests are refused. A running call still gets the answer to its
// question, and ends.
func TestRequestsDuringTheEnd(t *testing.T) {
	o, ending, log := laptop(), make(chan struct{}), &logbook{}
	o.Ending, o.Log = ending, log.logger()
	h := newHandler(t, &backend{talk: asks("elicitation/create", `{}`)}, o)
	id := begin(t, h, `"elicitation":{}`)
	running := call(t, h, in(id, legacy.request(t, "tools/call", `"name":"echo"`)))
	question := running.question(t)
	close(ending)
	const want = `{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"the gateway is shutting ` +
		`down, and did nothing with this request: send it again in a few seconds"}}`
	for _, r := range []*http.Request{
		in(id, legacy.request(t, "tools/call", `"name":"echo"`)),
		modern.request(t, "tools/call", `"name":"echo"`),
		modern.request(t, "tools/list", ""), legacy.request(t, "ping", ""),
	} {
		got := send(h, r)
		if got.status != 503 || got.body != want || got.header.Get("Retry-After") != "5" {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
	}
	accepted(t, send(h, answer(t, id, `"`+question+`"`, `"result":{"action":"accept"}`)))
	if got := running.next(); !strings.Contains(got, `"said":{"action":"accept"}`) {
		t.Errorf("the running call answers %s", got)
	}
	if s := log.String(); strings.Contains(s, `"level":"ERROR"`) {
		t.Errorf("the log reports an error: %s", s)
	}
}

// Streams above the gate's limit are refused. Streams below the limit do not count as
// requests in flight.
func TestHeldByTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, streams = 40, 20 // there are twice as many connections as requests, and a quarter may be streams
		gate := capacity.NewGate(capacity.Limits{Memory: requests * 80 << 10, Descriptors: 1 << 20}, nil)
		o, ending := laptop(), make(chan struct{})
		o.Ending = ending
		h := gate.Handler(newHandler(t, newChanging(), o))
		var all []*openCall
		for range streams {
			all = append(all, call(t, h, listening(t, `"toolsListChanged":true`)))
			all[len(all)-1].next()
		}
		if got := send(h, listening(t, `"toolsListChanged":true`)); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
			t.Errorf("stream above the limit = %d %s", got.status, got.body)
		}
		if f := gate.Facts(); f.Streams != streams || f.Requests != 0 {
			t.Errorf("facts %+v", f)
		}
		close(ending)
		for _, c := range all {
			for c.next() != "" {
			}
		}
		synctest.Wait()
		if f := gate.Facts(); f.Streams != 0 {
			t.Errorf("facts %+v", f)
		}
	})
}
