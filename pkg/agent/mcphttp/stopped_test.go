package mcphttp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// gate returns a handler for a gateway with one server, with the real clock. Its agent is token:ci.
func gate(t *testing.T) (*gatewaytest.Gateway, http.Handler) {
	g := gatewaytest.New(t)
	g.Clock.Set(time.Time{}, 0)
	s := g.Serve("fs", gatewaytest.Tool("read", "Read a file.", gatewaytest.ReadOnly))
	s.Prompts, s.Resources = []string{gatewaytest.Prompt("ask", "Ask.")}, []string{gatewaytest.Resource("file:///a", "A.")}
	g.Configure(nil)
	g.Sync()
	g.Agent.ID = "token:ci"
	return g, newHandler(t, gated{g}, laptop())
}

// The gateway refuses every method of a stopped agent except the handshake and ping, in every
// protocol and with any session.
func TestStoppedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := gate(t)
		sessions := []string{begin(t, h, ``), begin(t, h, ``)}
		stoptest.Put(t, g.Approvals, stoptest.Agent("token:ci"))
		time.Sleep(2 * time.Second)
		refused := func(what string, got reply) {
			t.Helper()
			if got.status != http.StatusForbidden || !strings.Contains(got.body, `"code":403`) || !strings.Contains(got.body, "stopped by kim: key leaked") || !strings.Contains(got.body, `"jsonrpc":"2.0"`) {
				t.Errorf("%s: %d %s", what, got.status, got.body)
			}
		}
		for _, e := range []protocol{legacy, modern} {
			for _, method := range []string{
				mcp.MethodListTools, mcp.MethodCallTool, mcp.MethodListPrompts, mcp.MethodGetPrompt, mcp.MethodListResources, mcp.MethodListTemplates,
				mcp.MethodReadResource, mcp.MethodComplete, mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodSetLevel, mcp.MethodListen, "no/such",
			} {
				for _, s := range sessions {
					refused(e.name+" "+method, send(h, in(s, e.request(t, method, `"name":"retrieve_tools","uri":"file:///a","arguments":{"query":"x"}`))))
				}
			}
			for _, body := range []string{`"method":"notifications/initialized"`, `"method":"notifications/cancelled","params":{"requestId":1}`, `"id":"q1","result":{}`} {
				r := post(t, `{"jsonrpc":"2.0",`+body+`}`)
				maps.Copy(r.Header, e.header)
				refused(e.name+" "+body, send(h, in(sessions[0], r)))
			}
		}
		refused("GET", send(h, get(t, sessions[0])))
		if id := begin(t, h, ``); id == "" {
			t.Error("initialize is refused")
		}
		if got := send(h, legacy.request(t, mcp.MethodPing, ``)); got.status != http.StatusOK || !strings.Contains(got.body, `"result"`) {
			t.Errorf("ping: %d %s", got.status, got.body)
		}
		if got := send(h, modern.request(t, mcp.MethodDiscover, ``)); got.status != http.StatusOK {
			t.Errorf("server/discover: %d %s", got.status, got.body)
		}
		if got := send(h, in(sessions[0], httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil))); got.status == http.StatusForbidden {
			t.Errorf("a stopped agent cannot end its session: %s", got.body)
		}
		stoptest.Put(t, g.Approvals, stoptest.Agent("token:ci2"))
		time.Sleep(2 * time.Second)
		if got := send(h, legacy.request(t, mcp.MethodListTools, ``)); got.status != http.StatusOK {
			t.Errorf("after the end of the stop: %d %s", got.status, got.body)
		}
	})
}

// The open streams of a stopped agent end within 2 s.
func TestStoppedAgentStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := gate(t)
		id := begin(t, h, ``)
		streams := []*openCall{call(t, h, get(t, id)), call(t, h, listening(t, `"toolsListChanged":true,"resourceSubscriptions":["file:///a"]`))}
		streams[1].next()
		time.Sleep(time.Minute)
		at := time.Now()
		stoptest.Put(t, g.Approvals, stoptest.Agent("token:ci"))
		for _, s := range streams {
			for s.next() != "" { // a subscription reports its end
			}
		}
		if took := time.Since(at); took > 2*time.Second {
			t.Errorf("the streams ended after %v, want at most 2 s", took)
		}
	})
}

// While a server is stopped, a subscription does not report changes of its resources.
func TestStoppedServerTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, h := gate(t)
		text := "1"
		g.ByName["fs"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
			return json.RawMessage(`{"contents":[{"uri":"file:///a","text":"` + text + `"}]}`), nil
		}
		c := call(t, h, listening(t, `"resourceSubscriptions":["file:///a"]`))
		if got := c.next(); !strings.Contains(got, "file:///a") {
			t.Fatalf("acknowledged %s", got)
		}
		stoptest.Put(t, g.Approvals, stoptest.Server("fs"))
		text = "2"
		time.Sleep(time.Minute)
		g.Sent()
		time.Sleep(time.Minute)
		if sent := g.Sent(); len(sent) > 0 {
			t.Errorf("the gateway sent requests to a stopped server: %v", sent)
		}
		stoptest.Put(t, g.Approvals)
		if got := c.next(); !strings.Contains(got, "resources/updated") {
			t.Errorf("after the end of the stop: %s", got)
		}
	})
}
