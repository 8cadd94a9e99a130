package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/egress"
	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A street is a gateway with real servers on loopback behind it.
type street struct {
	t         *testing.T
	nets      []netip.Prefix
	objects   objecttest.Mem
	approvals approvaltest.Mem
	syncer    *catalog.Syncer
	loader    *state.Loader
	gateway   *gateway.Gateway
	now       time.Duration // ahead of the clock
	exclude   string        // header of each request; "": none
}

func newStreet(t *testing.T) *street {
	nets, err := egress.ParseNets("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	s := &street{t: t, nets: nets}
	s.restart()
	return s
}

// restart begins a new process: what is not stored is forgotten.
func (s *street) restart() {
	now := func() time.Time { return time.Now().Add(s.now) }
	up := upstream.New(&upstream.Options{AllowNets: s.nets})
	s.t.Cleanup(up.Close)
	s.syncer = catalog.NewSyncer(&s.objects, &s.approvals, up, nil)
	s.loader = state.New(&s.objects, &s.approvals, nil)
	s.gateway = gateway.New(s.loader, &s.approvals, up, &gateway.Options{Now: now})
}

func (s *street) configure(servers map[string]*upstreamtest.Server, more string) {
	s.t.Helper()
	var list []string
	for name, srv := range servers {
		list = append(list, fmt.Sprintf(`%q: {"url": %q, "headers": {"X-Own": "yes"}%s}`, name, srv.URL, more))
	}
	if _, err := s.objects.Put(s.t.Context(), config.Key, []byte(`{"mcpServers": {`+strings.Join(list, ",")+`}}`), ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *street) sync() {
	s.t.Helper()
	if _, err := s.syncer.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.loader.Refresh(s.t.Context())
}

func (s *street) call(params string) (json.RawMessage, error) {
	s.t.Helper()
	header := http.Header{}
	if s.exclude != "" {
		header.Set("X-MCP-Exclude-Tools", s.exclude)
	}
	session, err := s.gateway.Open(s.t.Context(), gateway.Caller{
		Agent:       identity.Agent{ID: "a", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}},
		Header:      header,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	r := parse(s.t, params)
	r.Meta = json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{},"vendor/x":9007199254740993}`)
	return session.CallTool(s.t.Context(), r)
}

func definitions(list ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, d := range list {
		out = append(out, json.RawMessage(d))
	}
	return out
}

func TestCallsReachLiveServersOfBothErasUnchanged(t *testing.T) {
	const args = `{"n":9007199254740993,"z":1e2,"a":{"k":[1,null,"\u00e9"]}}`
	for name, era := range map[string]upstreamtest.Era{"modern": upstreamtest.Modern, "legacy": upstreamtest.Legacy} {
		t.Run(name, func(t *testing.T) {
			var answer string
			srv := upstreamtest.New(t, upstreamtest.Options{
				Era: era, SSE: era == upstreamtest.Legacy,
				Tools: definitions(def("act", "Act.", ""), def("hidden", "Hidden.", ""), def("look", "Look.", readOnly)),
				Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
					if c.Name == "look" {
						return nil, &upstreamtest.RPCError{Code: -32050, Message: "not today", Data: json.RawMessage(`{"n":9007199254740993}`)}
					}
					answer = fmt.Sprintf(`{"zeta":9007199254740993,"content":[{"type":"hologram","v":%s}],"resultType":"complete"}`, c.Arguments)
					return json.RawMessage(answer), nil
				},
			})
			s := newStreet(t)
			s.configure(map[string]*upstreamtest.Server{name: srv}, "")
			s.sync()
			s.exclude = name + ":hidden"
			raw, err := s.call(fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":"%s:act","args":%s}}`, name, args))
			if err != nil || string(raw) != answer || !strings.Contains(answer, args) {
				t.Errorf("got %s, %v\nwant %s", raw, err, answer)
			}
			got := srv.Calls()
			if len(got) != 1 || got[0].Tool != "act" || !strings.Contains(string(got[0].Params), `"arguments":`+args) {
				t.Fatalf("the server received %+v", got)
			}
			for _, h := range []string{"X-Mcp-Exclude-Tools", "Authorization"} {
				if got[0].Header.Get(h) != "" {
					t.Errorf("%s went upstream", h)
				}
			}
			if got[0].Header.Get("X-Own") != "yes" || !strings.Contains(string(got[0].Params), `"vendor/x":9007199254740993`) {
				t.Errorf("the server's own header or the caller's _meta is missing: %s", got[0].Params)
			}
			_, err = s.call(fmt.Sprintf(`{"name":"call_tool_read","arguments":{"name":"%s:look"}}`, name))
			if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32050 || e.Message != "not today" || string(e.Data) != `{"n":9007199254740993}` {
				t.Errorf("the server's error became %v", err)
			}
		})
	}
}

func TestNothingIsSentForWhatWasNeverListed(t *testing.T) {
	srv := upstreamtest.New(t, upstreamtest.Options{Tools: definitions(def("act", "Act.", ""), def("hidden", "Hidden.", ""))})
	s := newStreet(t)
	s.configure(map[string]*upstreamtest.Server{"legacy": srv}, "")
	s.sync()
	srv.ForgetRequests()
	s.exclude = "legacy:hidden"
	for _, name := range []string{"legacy:secret_tool", "legacy:hidden", "other:act", "legacy:act:x"} {
		raw, err := s.call(fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":%q}}`, name))
		if err != nil || !strings.Contains(string(raw), "was not found") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	if n := srv.Total(); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// The stored catalog answers while every server is down, calls fail by their outcome,
// and work again when the servers do: nothing is restarted.
func TestServersThatComeBackAreCalledAgain(t *testing.T) {
	srv := upstreamtest.New(t, upstreamtest.Options{Tools: definitions(def("act", "Act on documents.", ""))})
	s := newStreet(t)
	s.configure(map[string]*upstreamtest.Server{"s": srv}, "")
	s.sync()
	srv.Refuse()
	s.sync()
	const call = `{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`
	for name, params := range map[string]string{
		"search": `{"name":"retrieve_tools","arguments":{"query":"documents"}}`, "describe": `{"name":"describe_tools","arguments":{"names":["s:act"]}}`,
	} {
		if raw, err := s.call(params); err != nil || !strings.Contains(string(raw), "Act on documents.") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	for _, later := range []time.Duration{0, time.Minute} { // what the sync saw; then a try of its own
		s.now += later
		raw, err := s.call(call)
		if err != nil || !strings.Contains(string(raw), "MCP server 's' is unavailable and needs attention: it refuses connections.") ||
			!strings.Contains(string(raw), `"dev.portcullis/upstream":{"server":"s","status":"permanent","reason":"refused"}`) {
			t.Errorf("%s, %v", raw, err)
		}
	}
	if err := srv.Return(); err != nil {
		t.Fatal(err)
	}
	if raw, err := s.call(call); err != nil || !strings.Contains(string(raw), `"name":"act"`) {
		t.Errorf("after it came back: %s, %v", raw, err)
	}
}

// A new process takes from the catalog how its servers speak, for its calls and its syncs.
func TestAColdProcessDoesNotAskForTheEraAgain(t *testing.T) {
	srv := upstreamtest.New(t, upstreamtest.Options{Era: upstreamtest.Legacy, Sessions: true, Tools: definitions(def("act", "Act.", ""))})
	s := newStreet(t)
	s.configure(map[string]*upstreamtest.Server{"s": srv}, "")
	s.sync()
	if len(srv.Received("server/discover")) != 1 {
		t.Fatal("the first sync did not ask for the era")
	}
	srv.ForgetRequests()
	s.restart()
	if raw, err := s.call(`{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`); err != nil || !strings.Contains(string(raw), `"name":"act"`) {
		t.Fatalf("call: %s, %v", raw, err)
	}
	s.restart()
	s.sync()
	if len(srv.Received("server/discover")) != 0 || len(srv.Received("tools/list")) != 1 || len(srv.Calls()) != 1 {
		t.Errorf("%d requests of server/discover after restarts, %d lists, %d calls", len(srv.Received("server/discover")), len(srv.Received("tools/list")), len(srv.Calls()))
	}
}

func TestAskingForInputPassesBothWays(t *testing.T) {
	const ask = `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"n":9007199254740993}}},"requestState":"s\u00e9"}`
	const reply = `"inputResponses":{"q":{"action":"accept","content":{"n":9007199254740993}}},"requestState":"s\u00e9"`
	srv := upstreamtest.New(t, upstreamtest.Options{
		Era: upstreamtest.Modern, Tools: definitions(def("act", "Act.", "")),
		Call: func(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
			if strings.Contains(string(c.Params), reply) {
				return json.RawMessage(`{"content":[],"resultType":"complete"}`), nil
			}
			return json.RawMessage(ask), nil
		},
	})
	s := newStreet(t)
	s.configure(map[string]*upstreamtest.Server{"s": srv}, "")
	s.sync()
	raw, err := s.call(`{"name":"call_tool_destructive","arguments":{"name":"s:act"}}`)
	if err != nil || string(raw) != ask {
		t.Fatalf("got %s, %v", raw, err)
	}
	raw, err = s.call(`{"name":"call_tool_destructive","arguments":{"name":"s:act"},` + reply + `}`)
	if err != nil || string(raw) != `{"content":[],"resultType":"complete"}` {
		t.Errorf("got %s, %v", raw, err)
	}
}
