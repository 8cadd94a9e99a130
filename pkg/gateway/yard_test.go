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
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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
	reads     int    // of the stores
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
	outcome outcome.Outcome
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
	objects.OnGet = func(context.Context, string) error { return y.count(&y.reads) }
	approvals.OnGet = func(context.Context, tool.ID) error { return y.count(&y.reads) }
	approvals.OnChanges = func(context.Context, time.Time) error { return y.count(&y.reads) }
	y.loader = state.New(y.objects, y.approvals, &state.Options{Now: y.clock})
	y.syncer = catalog.NewSyncer(y.objects, y.approvals, y, &catalog.SyncOptions{Now: y.clock})
	y.gateway = gateway.New(y.loader, y.approvals, y, &gateway.Options{
		BaseURL: baseURL, Recorder: y.counts, Now: y.clock, Log: slog.New(slog.NewTextHandler(y.log, nil)),
	})
}

func (y *yard) count(n *int) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	*n++
	return nil
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
func (y *yard) LoadAll(_ context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome {
	out := make([]outcome.Outcome, len(targets))
	for i, target := range targets {
		s, ok := y.servers[target.ID]
		o := outcome.Outcome{ServerID: target.ID, Status: outcome.Permanent, Reason: "refused", Attempts: 1, CheckedAt: y.clock()}
		if ok {
			o = s.outcome
			o.ServerID, o.Attempts, o.CheckedAt = target.ID, 1, y.clock()
			if o.Status == "" {
				o.Status = outcome.Available
			}
		}
		if o.Status == outcome.Available {
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
	params := append(rawjson.Object{{Name: "arguments", Value: c.Arguments}}, c.Rest...)
	if c.Arguments == nil {
		params = c.Rest
	}
	s := sent{t.ID, t.URL, c.Name, string(params.Bytes()), string(c.Meta), c.Retry}
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
