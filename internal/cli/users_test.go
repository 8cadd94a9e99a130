package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// In a sharedGateway the agent id is the client's id (azp), so that users of one client share an
// agent id.
type sharedGateway struct {
	*program
	issuer   *identitytest.Issuer
	audience string
}

// A caller is the claims that differ between the callers of one gateway.
type caller struct{ azp, sub string }

// ann and bob use one client. That client also calls for itself, without a user.
var (
	ann   = caller{"ide", "ann"}
	bob   = caller{"ide", "bob"}
	alone = caller{"ide", "ide"}
	other = caller{"other", "other"}
)

func startShared(t *testing.T) *sharedGateway {
	t.Helper()
	s, dir, addr := &sharedGateway{issuer: identitytest.Start(t)}, t.TempDir(), local.Addr(t)
	s.audience = "http://" + addr + "/mcp"
	readOnly := `{"readOnlyHint":true}`
	notes := upstreamtest.New(t, upstreamtest.Options{
		Protocols: upstreamtest.Legacy, Sessions: true, Call: upstreamtest.Notebook(),
		Tools: []json.RawMessage{upstreamtest.Tool("read", "Read the note.", readOnly), upstreamtest.Tool("write", "Write a note.", readOnly, "text")},
	})
	locked := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool("ask", "Waits for a person.", readOnly), upstreamtest.Tool("open_stateless", "Is granted.", readOnly), upstreamtest.Tool("open_handshake", "Is granted.", readOnly),
	}})
	book := []json.RawMessage{upstreamtest.Tool("book", "Asks, and books.", readOnly)}
	parks := upstreamtest.New(t, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Tools: book})
	parks.FailOn("tools/call", -1, upstreamtest.Ask(mcp.MethodElicit, `{"content":[{"type":"text","text":%s}]}`))
	passes := upstreamtest.New(t, upstreamtest.Options{Protocols: upstreamtest.Modern, Tools: book, Call: asksOnce})
	path, env := stdiotest.Program(t, stdiotest.Legacy)
	config, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{
			"notes":  map[string]any{"url": notes.URL, "approval": "off"},
			"prog":   map[string]any{"command": path, "env": env, "approval": "off"},
			"parks":  map[string]any{"url": parks.URL, "approval": "off"},
			"passes": map[string]any{"url": passes.URL, "approval": "off"},
			"locked": map[string]any{"url": locked.URL, "approval": "manual"},
		},
		"gateway": map[string]any{"requests": true},
	})
	require.OK(t, err)
	programtest.WriteConfig(t, dir, string(config))
	s.program = startWith(t, map[string]string{
		"PORTCULLIS_AUTH": "jwt", "PORTCULLIS_ISSUER": s.issuer.URL, "PORTCULLIS_AUDIENCE": s.audience, "PORTCULLIS_ID_CLAIM": "azp", "PORTCULLIS_DEFAULT_SERVERS": "*",
	}, dir, "--addr", addr, "--allow-commands")
	s.Admin = s.issuer.Token(s.audience, map[string]any{"sub": "op", "azp": "ops", "scope": "portcullis:admin"})
	// stop the gateway before the servers, which wait for their clients
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// asksOnce answers the first call with a question. The next call contains the client's answer, and
// asksOnce returns that answer as the result.
func asksOnce(_ context.Context, c upstreamtest.Call) (json.RawMessage, error) {
	var p struct{ InputResponses json.RawMessage }
	if err := json.Unmarshal(c.Params, &p); err != nil {
		return nil, err
	}
	if p.InputResponses == nil {
		return json.RawMessage(`{"resultType":"input_required","requestState":"own","inputRequests":{"q":{"method":"elicitation/create","params":{}}}}`), nil
	}
	return json.Marshal(map[string]any{"resultType": "complete", "content": []map[string]any{{"type": "text", "text": string(p.InputResponses)}}})
}

// as returns a client for a caller. Its token is new each time.
func (s *sharedGateway) as(t *testing.T, e protocol, who caller) *mcpClient {
	t.Helper()
	token := s.issuer.Token(s.audience, map[string]any{"azp": who.azp, "sub": who.sub, "scope": "portcullis:destructive"})
	return &mcpClient{
		program: s.with(t), protocol: e, header: headers("Authorization", "Bearer "+token),
		capabilities: map[string]any{"elicitation": map[string]any{}},
	}
}

// in returns the client with the id of a session.
func (c *mcpClient) in(session string) *mcpClient {
	out := *c
	out.header = maps.Clone(c.header)
	out.header.Set(mcp.HeaderSession, session)
	return &out
}

// says calls an upstream tool, and returns the text of its result, or of the refusal.
func (c *mcpClient) says(tool string, args, more map[string]any) string {
	c.T.Helper()
	params := map[string]any{"name": "call_tool_read", "arguments": map[string]any{"name": tool, "args": args}}
	maps.Copy(params, more)
	a := c.send("tools/call", params)
	var r struct{ Content []struct{ Text string } }
	if a.Error != nil || json.Unmarshal(a.Result, &r) != nil || len(r.Content) == 0 {
		return fmt.Sprintf("%d %s", a.Status, a.Body)
	}
	return r.Content[0].Text
}

// A keptThing is data that the gateway keeps for a caller. keep makes ann leave it there, and
// returns a function with the answer to each caller who tries to use it.
type keptThing struct {
	name     string
	protocol string // the only protocol that has it; "": both
	keep     func(t *testing.T, s *sharedGateway, ann *mcpClient) (use func(*mcpClient) string)
	wants    string // a part of ann's answer that nobody else gets
}

var userKeys = []keptThing{
	{"upstream session", "", func(_ *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		ann.says("notes:write", map[string]any{"text": "of ann"}, nil)
		return func(c *mcpClient) string { return "read " + c.says("notes:read", map[string]any{}, nil) }
	}, "of ann"},
	{"program", "", func(_ *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		_, of, _ := strings.Cut(ann.says("prog:count", map[string]any{}, nil), " of ")
		return func(c *mcpClient) string {
			_, pid, ok := strings.Cut(c.says("prog:count", map[string]any{}, nil), " of ")
			return fmt.Sprintf("%t, in ann's program: %t", ok, pid == of)
		}
	}, "in ann's program: true"},
	{"parked call", "stateless", func(t *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		return resumes(t, ann, "parks:book")
	}, "Rome"},
	{"request state", "stateless", func(t *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		return resumes(t, ann, "passes:book")
	}, "Rome"},
	{"client session", "handshake", func(t *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		id := ann.open().Header.Get(mcp.HeaderSession)
		if id == "" {
			t.Fatal("no session begins")
		}
		return func(c *mcpClient) string {
			return fmt.Sprint(c.in(id).send("tools/list", map[string]any{}).Status)
		}
	}, "200"},
	{"request", "", func(_ *testing.T, _ *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		asked := ann.requests("locked:ask")
		return func(c *mcpClient) string { return fmt.Sprint("ann's request: ", c.requests("locked:ask") == asked) }
	}, "true"},
	{"grant", "", func(_ *testing.T, s *sharedGateway, ann *mcpClient) func(*mcpClient) string {
		name := "locked:open_" + ann.protocol.name
		s.allow(ann.requests(name)) // the tool's answer is its name
		return func(c *mcpClient) string {
			line, _, _ := strings.Cut(c.says(name, map[string]any{}, nil), "\n")
			return line
		}
	}, "open_"},
}

// resumes makes ann call a tool that asks a question. The returned function sends the answer to the
// question as any caller.
func resumes(t *testing.T, ann *mcpClient, tool string) func(*mcpClient) string {
	params := map[string]any{"name": "call_tool_read", "arguments": map[string]any{"name": tool, "args": map[string]any{}}}
	asked := ann.send("tools/call", params)
	var r struct {
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	if err := json.Unmarshal(asked.Result, &r); err != nil || r.RequestState == "" {
		t.Fatalf("no question: %s", asked.Body)
	}
	answers := map[string]any{}
	for key := range r.InputRequests {
		answers[key] = map[string]any{"action": "accept", "content": map[string]any{"x": "Rome"}}
	}
	return func(c *mcpClient) string {
		return c.says(tool, map[string]any{}, map[string]any{"inputResponses": answers, "requestState": r.RequestState})
	}
}

// requests requests a locked tool, and returns the id of the request.
func (c *mcpClient) requests(tool string) string {
	c.T.Helper()
	var out struct{ Requests []struct{ Request string } }
	c.gets("request_access", map[string]any{"names": []string{tool}}, &out)
	if len(out.Requests) != 1 || out.Requests[0].Request == "" {
		c.T.Fatalf("%s: no request: %+v", tool, out)
	}
	return out.Requests[0].Request
}

// allow grants a request.
func (s *sharedGateway) allow(request string) {
	s.T.Helper()
	var r struct{ Hash string }
	s.Ask(http.StatusOK, "/admin/requests/"+request, nil, &r)
	s.Ask(http.StatusOK, "/admin/requests/"+request+"/decide", map[string]any{"verdict": "allowed", "hash": r.Hash, "minutes": 60}, nil)
}

// Two users of one agent id share nothing that the gateway keeps for a caller. A second user gets
// the same answer as another agent, and so does the agent without a user. A new token of the same
// user continues.
func TestUsersOfOneAgent(t *testing.T) {
	s := startShared(t)
	inEachProtocol(t, func(t *testing.T, e protocol) {
		for _, k := range userKeys {
			if k.protocol != "" && k.protocol != e.name {
				continue
			}
			t.Run(k.name, func(t *testing.T) {
				use := k.keep(t, s, s.as(t, e, ann))
				want := use(s.as(t, e, other))
				for _, who := range []caller{bob, alone} {
					if got := use(s.as(t, e, who)); got != want {
						t.Errorf("%s gets %s, want what another agent gets: %s", who.sub, got, want)
					}
				}
				if got := use(s.as(t, e, ann)); got == want || !strings.Contains(got, k.wants) {
					t.Errorf("ann gets %s, want %s", got, k.wants)
				}
			})
		}
	})
}
