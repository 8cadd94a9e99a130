// Package gatewaytest runs a whole gateway in memory, for tests.
//
// The parts of the gateway are the real ones, from the config parser to the sessions of agents, and
// the stores are in memory. Only the upstream servers are not real: the test defines their lists
// and answers. As in production, a sync loads tools, and approval records contain decisions:
//
//	gw := gatewaytest.New(t)
//	gw.Serve("files", gatewaytest.Tool("read_file", "Read a file.", gatewaytest.ReadOnly))
//	gw.Configure(nil)
//	gw.Sync()
//	gw.Decide("files:read_file", "disable")
//	got := gw.Call("call_tool_read", `{"name": "files:read_file"}`)
//
// The test moves the clock. The clock can also move by a step at each read: see [Clock]. The hooks
// of [objecttest.Mem] and [approvaltest.Mem] cause faults of the stores. To replace a part, such as
// the upstream client, set its field and call [Gateway.Restart].
//
// [agenttest.Client] calls a gateway over HTTP at any address.
package gatewaytest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// BaseURL is the address of the console of a [Gateway].
const BaseURL = "https://gate.example.com"

// An Upstream loads the tools of servers and calls them.
type Upstream interface {
	catalog.Loader
	gateway.Upstream
}

// A Gateway is a gateway with its stores and its upstream servers.
type Gateway struct {
	T              testing.TB
	*Servers                         // the upstream servers
	gateway.Caller                   // opens the sessions
	Meta           json.RawMessage   // _meta of the caller's requests
	Upstream       Upstream          // client of the servers: Servers, unless the test sets another
	Live           *upstream.Options // if not nil, Restart sets Upstream to a real client
	Clock          *Clock
	Objects        *objecttest.Mem
	Approvals      *approvaltest.Mem
	Log            *local.Buffer
	Options        gateway.Options // Now and Log are set by Restart

	States *state.Loader
	Syncer *catalog.Syncer
	MCP    *gateway.Gateway
}

// New returns a gateway with empty stores. Its clock shows noon of 20 November 2026, and its agent
// may see every server and call every tier.
func New(t testing.TB) *Gateway {
	clock := &Clock{start: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	g := &Gateway{
		T: t, Clock: clock, Servers: &Servers{clock: clock},
		Objects: &objecttest.Mem{}, Approvals: &approvaltest.Mem{Now: clock.Now}, Log: &local.Buffer{}, Options: gateway.Options{BaseURL: BaseURL},
	}
	g.Agent = identity.Agent{ID: "tester", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}}
	g.Upstream = g.Servers
	g.Restart()
	t.Cleanup(g.checkSecrets)
	return g
}

// NewLive returns a gateway that calls real servers on loopback and uses the real time.
func NewLive(t testing.TB) *Gateway {
	g := New(t)
	g.Clock.Set(time.Time{}, 0)
	g.Live = &upstream.Options{Trace: func(string) bool { return true }, Now: g.Clock.Now, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	g.Restart()
	return g
}

// checkSecrets fails the test if the log or a document contains a secret of a sign-in.
func (g *Gateway) checkSecrets() {
	secrettest.Absent(g.T, "the log", g.Log.String())
	for _, d := range g.Approvals.All() {
		secrettest.Absent(g.T, "the document "+d.Part, string(d.Data))
	}
}

// Restart starts a new gateway on the same stores, as a new process does. State that is not stored
// is lost.
func (g *Gateway) Restart() {
	if g.Live != nil {
		client := upstream.New(g.Live)
		g.T.Cleanup(client.Close)
		g.Upstream = client
	}
	log := slog.New(slog.NewTextHandler(g.Log, nil))
	g.Options.Now, g.Options.Log, g.Options.Pages = g.Clock.Now, log, g.Approvals
	g.Approvals.Documents.Now = g.Clock.Now
	g.States = state.New(g.Objects, g.Approvals, &state.Options{Now: g.Clock.Now, Log: log})
	g.Syncer = catalog.NewSyncer(g.Objects, g.Approvals, g.Upstream, &catalog.SyncOptions{Now: g.Clock.Now, Log: log})
	g.MCP = gateway.New(g.States, g.Approvals, g.Upstream, &g.Options)
}

// Requests returns the store of access requests and their decisions.
func (g *Gateway) Requests() *request.Store { return request.NewStore(g.Approvals, g.Clock.Now) }

// Put stores an object.
func (g *Gateway) Put(key, data string) {
	g.T.Helper()
	if _, err := g.Objects.Put(g.T.Context(), key, []byte(data), ""); err != nil {
		g.T.Fatal(err)
	}
}

// Configure stores a config of all servers that [Servers] describes. settings (`"approval": "off"`)
// are added to single servers, and rest to the file.
func (g *Gateway) Configure(settings map[string]string, rest ...string) {
	g.T.Helper()
	all := map[string]string{}
	for name := range g.ByName {
		all[name] = settings[name]
	}
	g.ConfigureOnly(all, rest...)
}

// ConfigureOnly stores a config of the servers that settings names.
func (g *Gateway) ConfigureOnly(settings map[string]string, rest ...string) {
	g.T.Helper()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		url, more := "https://"+name+".example.com/mcp", strings.TrimLeft(settings[name], ", ")
		if s := g.ByName[name]; s != nil && s.URL != "" {
			url = s.URL
		}
		if more != "" {
			more = ", " + more
		}
		list = append(list, fmt.Sprintf(`%q: {"url": %q%s}`, name, url, more))
	}
	data := "{" + strings.Join(append([]string{`"mcpServers": {` + strings.Join(list, ", ") + `}`}, rest...), ", ") + "}"
	if _, err := config.Parse([]byte(data)); err != nil {
		g.T.Fatalf("config of the test: %v\n%s", err, data)
	}
	g.Put(config.Key, data)
}

// Forbid stores a policy.
func (g *Gateway) Forbid(rules string) {
	g.T.Helper()
	if _, err := policy.Parse([]byte(rules)); err != nil {
		g.T.Fatalf("policy of the test: %v", err)
	}
	g.Put(policy.Key, rules)
}

// Sync runs a sync and loads the new state into the gateway. An error ends the test.
func (g *Gateway) Sync() catalog.Report {
	g.T.Helper()
	report, err := g.Syncer.Sync(g.T.Context())
	require.OK(g.T, err)
	g.States.Refresh(g.T.Context())
	return report
}

// ID reads the id of a tool.
func ID(t testing.TB, id string) tool.ID {
	t.Helper()
	out, err := tool.ParseID(id)
	require.OK(t, err)
	return out
}

// Record returns the approval record of a tool.
func (g *Gateway) Record(id string) approval.Record {
	g.T.Helper()
	r, err := g.Approvals.Get(g.T.Context(), ID(g.T, id))
	require.OK(g.T, err)
	return r
}

// Decide applies a decision of ann ("approve", "block", "unblock", "disable", "enable", "undo") to
// the record of a tool. Calls use the decision immediately, other requests after two seconds.
func (g *Gateway) Decide(id, decision string) {
	g.T.Helper()
	g.DecideSaying(id, decision, approval.Author{Actor: "ann"})
}

// DecideSaying is [Gateway.Decide] with the actor and the texts of the decision.
func (g *Gateway) DecideSaying(id, decision string, said approval.Author) {
	g.T.Helper()
	r, now := g.Record(id), g.Clock.Now()
	var e approval.Entry
	var err error
	switch decision {
	case "approve":
		r, e, err = approval.Approve(r, r.CurrentHash, said, now)
	case "block":
		r, e, err = approval.Block(r, r.CurrentHash, said, now)
	case "unblock":
		r, e, err = approval.Unblock(r, r.CurrentHash, said, now)
	case "disable":
		r, e, err = approval.Disable(r, said, now)
	case "enable":
		r, e, err = approval.Enable(r, said, now)
	case "undo":
		r, e, err = approval.UndoDecision(r, r.Rev, said.Actor, now)
	default:
		err = fmt.Errorf("unknown decision %q", decision)
	}
	if err == nil {
		_, err = g.Approvals.Put(g.T.Context(), r, &e)
	}
	require.OK(g.T, err)
}

// Open opens a session of the caller.
func (g *Gateway) Open() *gateway.Session {
	g.T.Helper()
	s, err := g.MCP.Open(g.T.Context(), g.Caller)
	if err != nil {
		g.T.Fatalf("open: %v", err)
	}
	return s
}

// Request returns a tools/call with these params in JSON.
func Request(t testing.TB, params string) mcp.Request {
	t.Helper()
	r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
	if refused != nil {
		t.Fatalf("params %s: %v", params, refused)
	}
	return r
}

// Try sends the params of a tools/call.
func (g *Gateway) Try(params string) (json.RawMessage, error) {
	g.T.Helper()
	r := Request(g.T, params)
	if g.Meta != nil {
		r.Meta, _ = rawjson.Split(g.Meta, rawjson.Strict) // the test wrote valid JSON
	}
	return g.Open().CallTool(g.T.Context(), r, mcp.Client{})
}

// Call calls one of the gateway's tools, with arguments in JSON.
func (g *Gateway) Call(name, arguments string) agenttest.Result {
	g.T.Helper()
	raw, err := g.Try(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	if err != nil {
		g.T.Fatalf("%s %s: %v", name, arguments, err)
	}
	secrettest.Absent(g.T, "the result of "+name, string(raw))
	return agenttest.ReadResult(g.T, raw)
}
