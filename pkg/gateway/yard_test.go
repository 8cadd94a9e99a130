package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

const baseURL = "https://gate.example.com"

// A yard is a gateway with everything behind it in memory. Tools come into it
// by a sync alone, and decisions through approval records, as they do in life.
type yard struct {
	t         testing.TB
	mu        sync.Mutex
	now       time.Time
	servers   map[string]*server
	sent      []sent // calls that reached a server
	objects   *objecttest.Mem
	approvals *approvaltest.Mem
	loader    *state.Loader
	syncer    *catalog.Syncer
	gateway   *gateway.Gateway
	log       *bytes.Buffer
	counts    *counts
	agent     identity.Agent
	header    http.Header
	path      string
}

// A server is what an upstream server says and does.
type server struct {
	tools   []string // definitions
	outcome upstream.Outcome
	answer  func(sent) (json.RawMessage, error) // nil: a text that names the tool
}

// A sent call is one that reached a server.
type sent struct {
	Server, URL, Tool, Params, Meta string
	Retry                           bool
}

func newYard(t testing.TB) *yard {
	y := &yard{
		t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), servers: map[string]*server{},
		log: &bytes.Buffer{}, counts: &counts{},
		agent: identity.Agent{ID: "tester", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}},
	}
	y.use(&objecttest.Mem{}, &approvaltest.Mem{Now: y.clock})
	return y
}

// use starts everything on these stores.
func (y *yard) use(objects *objecttest.Mem, approvals *approvaltest.Mem) {
	y.objects, y.approvals = objects, approvals
	y.loader = state.New(y.objects, y.approvals, &state.Options{Now: y.clock})
	y.syncer = catalog.NewSyncer(y.objects, y.approvals, y, &catalog.SyncOptions{Now: y.clock})
	y.gateway = gateway.New(y.loader, y.approvals, y, &gateway.Options{
		BaseURL: baseURL, Recorder: y.counts, Now: y.clock, Log: slog.New(slog.NewTextHandler(y.log, nil)),
	})
}

func (y *yard) clock() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.now
}

// wait lets time pass: enough for every part of the state to be looked at again.
func (y *yard) wait(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.now = y.now.Add(d)
}

// LoadAll makes a yard the loader of its syncer.
func (y *yard) LoadAll(_ context.Context, targets []upstream.Target, each func(upstream.Outcome)) []upstream.Outcome {
	out := make([]upstream.Outcome, len(targets))
	for i, target := range targets {
		s, ok := y.servers[target.ID]
		o := upstream.Outcome{ServerID: target.ID, Status: upstream.Permanent, Reason: "refused", Attempts: 1, CheckedAt: y.clock()}
		if ok {
			o = s.outcome
			o.ServerID, o.Attempts, o.CheckedAt = target.ID, 1, y.clock()
			if o.Status == "" {
				o.Status = upstream.Available
			}
		}
		if o.Status == upstream.Available {
			for _, raw := range s.tools {
				d, err := tool.ParseDefinition([]byte(raw))
				if err != nil {
					y.t.Fatalf("%s: %v", raw, err)
				}
				o.Tools = append(o.Tools, d)
			}
		}
		if each != nil {
			each(o)
		}
		out[i] = o
	}
	return out
}

// Call makes a yard the upstream of its gateway.
func (y *yard) Call(_ context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	s := sent{t.ID, t.URL, c.Name, string(c.Params), string(c.Meta.Raw), c.Retry}
	y.mu.Lock()
	y.sent = append(y.sent, s)
	srv := y.servers[t.ID]
	y.mu.Unlock()
	if srv != nil && srv.answer != nil {
		return srv.answer(s)
	}
	return json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":"%s did it"}]}`, c.Name)), nil
}

// calls returns and forgets what reached the servers.
func (y *yard) calls() []sent {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := y.sent
	y.sent = nil
	return out
}

// def makes a definition. more is put into it as it is: `"annotations":{…}`.
func def(name, description, more string) string {
	if more == "" {
		more = `"inputSchema":{"type":"object"}`
	}
	return fmt.Sprintf(`{"name":%q,"description":%q,%s}`, name, description, more)
}

const (
	readOnly = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}`
	mildly   = `"inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}`
)

// serves makes a server say these definitions from now on.
func (y *yard) serves(name string, definitions ...string) *server {
	s, ok := y.servers[name]
	if !ok {
		s = &server{}
		y.servers[name] = s
	}
	s.tools = definitions
	return s
}

// configure stores a config of all servers. settings are added to those of
// single servers, rest to the file.
func (y *yard) configure(settings map[string]string, rest ...string) {
	y.t.Helper()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(y.servers)) {
		more := ""
		if s := settings[name]; s != "" {
			more = ", " + s
		}
		list = append(list, fmt.Sprintf(`%q: {"url": "https://%s.example.com/mcp"%s}`, name, name, more))
	}
	parts := append([]string{`"mcpServers": {` + strings.Join(list, ",") + `}`}, rest...)
	y.put(config.Key, "{"+strings.Join(parts, ",")+"}")
}

func (y *yard) put(key, data string) {
	y.t.Helper()
	if key == config.Key {
		if _, err := config.Parse([]byte(data)); err != nil {
			y.t.Fatalf("config of the test: %v\n%s", err, data)
		}
	}
	if _, err := y.objects.Put(y.t.Context(), key, []byte(data), ""); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) forbid(rules string) {
	y.t.Helper()
	if _, err := policy.Parse([]byte(rules)); err != nil {
		y.t.Fatalf("policy of the test: %v", err)
	}
	y.put(policy.Key, rules)
}

// sync runs a sync, and lets the gateway see it.
func (y *yard) sync() {
	y.t.Helper()
	if _, err := y.syncer.Sync(y.t.Context()); err != nil {
		y.t.Fatal(err)
	}
	y.wait(time.Minute)
}

// decide applies a person's decision to the record of a tool.
func (y *yard) decide(id, what string) {
	y.t.Helper()
	tid, err := tool.ParseID(id)
	if err != nil {
		y.t.Fatal(err)
	}
	r, err := y.approvals.Get(y.t.Context(), tid)
	if err != nil {
		y.t.Fatal(err)
	}
	var e approval.Entry
	switch what {
	case "approve":
		r, e, err = approval.Approve(r, r.CurrentHash, "ada", "", y.clock())
	case "disable":
		r, e, err = approval.Disable(r, "ada", "", y.clock())
	case "enable":
		r, e, err = approval.Enable(r, "ada", "", y.clock())
	default:
		err = errors.New("no such decision: " + what)
	}
	if err != nil {
		y.t.Fatal(err)
	}
	if _, err := y.approvals.Put(y.t.Context(), r, &e); err != nil {
		y.t.Fatal(err)
	}
}

// see lets the gateway see decisions.
func (y *yard) see() { y.wait(3 * time.Second) }

func (y *yard) open() *gateway.Session {
	y.t.Helper()
	s, err := y.gateway.Open(y.t.Context(), gateway.Caller{Agent: y.agent, Header: y.header, Path: y.path})
	if err != nil {
		y.t.Fatalf("open: %v", err)
	}
	return s
}

// A reply is a tools/call result, read.
type reply struct {
	Raw     string
	Text    string
	IsError bool
	Meta    map[string]json.RawMessage
}

// call calls one of the gateway's tools; arguments is JSON.
func (y *yard) call(name, arguments string) reply {
	y.t.Helper()
	raw, err := y.open().CallTool(y.t.Context(), json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)))
	if err != nil {
		y.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return readReply(y.t, raw)
}

func readReply(t testing.TB, raw json.RawMessage) reply {
	t.Helper()
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("%s: want one text block", raw)
	}
	return reply{string(raw), r.Content[0].Text, r.IsError, r.Meta}
}

// search is retrieve_tools, which must not fail.
func (y *yard) search(arguments string) found {
	y.t.Helper()
	r := y.call("retrieve_tools", arguments)
	if r.IsError {
		y.t.Fatalf("retrieve_tools %s: %s", arguments, r.Text)
	}
	return readFound(y.t, r.Text)
}

// A found is an answer of retrieve_tools, read.
type found struct {
	Raw   string
	Tools []struct {
		Name, Server, Signature, Description string
		Lossy                                bool
		CallWith                             string          `json:"call_with"`
		InputSchema                          json.RawMessage `json:"input_schema"`
		Score                                *float64
	}
	Total    int
	Disabled []struct {
		Name, Server, Description, Status, Note string
	}
	Remediation map[string]string
	Notice      string
}

func readFound(t testing.TB, text string) found {
	t.Helper()
	var f found
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	f.Raw = text
	return f
}

// names returns the callable names, and the locked ones with their statuses.
func (f found) names() (callable []string, locked map[string]string) {
	locked = map[string]string{}
	for _, t := range f.Tools {
		callable = append(callable, t.Name)
	}
	for _, d := range f.Disabled {
		locked[d.Name] = d.Status
	}
	return callable, locked
}

// counts is a Recorder.
type counts struct {
	mu  sync.Mutex
	all []string
	err error
}

func (c *counts) add(format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
	return c.err
}

func (c *counts) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.all
	c.all = nil
	return out
}

func (c *counts) Discovery(agent string, includeDisabled, nudged bool) error {
	return c.add("discovery %s disabled=%v nudged=%v", agent, includeDisabled, nudged)
}
func (c *counts) Call(agent, tool, tier string) error {
	return c.add("call %s %s %s", agent, tool, tier)
}
func (c *counts) Blocked(agent, tool, status string) error {
	return c.add("blocked %s %s %s", agent, tool, status)
}
