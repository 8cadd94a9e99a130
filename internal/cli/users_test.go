package cli

import (
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
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {
		"notes": {"url": %q, "approval": "off"}, "locked": {"url": %q, "approval": "manual"}
	}, "gateway": {"requests": true}}`, notes.URL, locked.URL))
	s.program = startWith(t, map[string]string{
		"PORTCULLIS_AUTH": "jwt", "PORTCULLIS_ISSUER": s.issuer.URL, "PORTCULLIS_AUDIENCE": s.audience, "PORTCULLIS_ID_CLAIM": "azp", "PORTCULLIS_DEFAULT_SERVERS": "*",
	}, dir, "--addr", addr)
	s.Admin = s.issuer.Token(s.audience, map[string]any{"sub": "op", "azp": "ops", "scope": "portcullis:admin"})
	// stop the gateway before the servers, which wait for their clients
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// as returns a client for a caller. Its token is new each time.
func (s *sharedGateway) as(t *testing.T, e protocol, who caller) *mcpClient {
	t.Helper()
	token := s.issuer.Token(s.audience, map[string]any{"azp": who.azp, "sub": who.sub, "scope": "portcullis:destructive"})
	return &mcpClient{
		program: s.with(t), protocol: e, header: http.Header{"Authorization": {"Bearer " + token}},
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
func (c *mcpClient) says(tool string, args map[string]any) string {
	c.T.Helper()
	a := c.send("tools/call", map[string]any{
		"name": "call_tool_read", "arguments": map[string]any{"name": tool, "args": args},
	})
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
		ann.says("notes:write", map[string]any{"text": "of ann"})
		return func(c *mcpClient) string { return "read " + c.says("notes:read", map[string]any{}) }
	}, "of ann"},
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
			line, _, _ := strings.Cut(c.says(name, map[string]any{}), "\n")
			return line
		}
	}, "open_"},
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
