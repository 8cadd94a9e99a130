package state_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

var everyTier = []tool.Tier{tool.Read, tool.Write, tool.Destructive}

func anyone() identity.Agent {
	return identity.Agent{ID: "a", Servers: []string{"*"}, Tiers: everyTier}
}

// A fixture is a pair of stores, a clock and a loader on them.
type fixture struct {
	t         testing.TB
	mu        sync.Mutex
	now       time.Time
	machine   func() time.Time // in place of now, if it is not nil
	gets      []string         // keys read
	since     []time.Time
	errs      map[string]error // by key; "approvals" for the approval store
	objects   *objecttest.Mem
	approvals *approvaltest.Mem
	loader    *state.Loader
	log       bytes.Buffer
}

func newFixture(t testing.TB) *fixture {
	h := &fixture{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), errs: map[string]error{}}
	h.objects = &objecttest.Mem{OnGet: func(_ context.Context, key string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gets = append(h.gets, key)
		return h.errs[key]
	}}
	h.approvals = &approvaltest.Mem{
		Now: h.clock,
		OnChanges: func(_ context.Context, since time.Time) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.since = append(h.since, since)
			return h.errs["approvals"]
		},
	}
	h.restart()
	return h
}

// restart begins with nothing held.
func (h *fixture) restart() { h.restartOn(h.approvals) }

func (h *fixture) restartOn(approvals approval.Store) {
	h.loader = state.New(h.objects, approvals, &state.Options{Now: h.clock, Log: slog.New(slog.NewTextHandler(&h.log, nil))})
}

func (h *fixture) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machine != nil {
		return h.machine()
	}
	return h.now
}

func (h *fixture) wait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *fixture) fail(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs[what] = err
}

// reads returns and forgets which objects were read, and how often the feed was.
func (h *fixture) reads() (objects []string, feeds int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects, feeds = h.gets, len(h.since)
	h.gets, h.since = nil, nil
	return objects, feeds
}

func (h *fixture) put(key, data string) {
	h.t.Helper()
	if _, err := h.objects.Put(h.t.Context(), key, []byte(data), ""); err != nil {
		h.t.Fatal(err)
	}
}

// configure stores a config of servers, given as name and settings.
func (h *fixture) configure(servers ...string) {
	h.t.Helper()
	var list []string
	for _, s := range servers {
		name, rest, _ := strings.Cut(s, " ")
		list = append(list, fmt.Sprintf(`%q: {"url": "https://%s.example.com/mcp" %s}`, name, name, rest))
	}
	h.put(config.Key, `{"mcpServers": {`+strings.Join(list, ",")+`}}`)
}

// A listing is one server's tools in a catalog: name → description.
type listing map[string]map[string]string

// publish stores a catalog as a sync at this moment would, with the approval
// records as they are in the store.
func (h *fixture) publish(l listing) *catalog.Snapshot {
	h.t.Helper()
	ctx := h.t.Context()
	in := catalog.Input{}
	cur := catalog.Current{StartedAt: h.clock(), SyncedAt: h.clock()}
	for server, tools := range l {
		s := catalog.ServerInput{Name: server, Enabled: true}
		for name, description := range tools {
			d := definition(name, description)
			ti := catalog.ToolInput{Definition: d}
			if r, err := h.approvals.Get(ctx, tool.ID{Server: server, Name: name}); err == nil {
				ti.Record = &r
			}
			s.Tools = append(s.Tools, ti)
		}
		in.Servers = append(in.Servers, s)
		cur.Outcomes = append(cur.Outcomes, outcome.Outcome{ServerID: server, Status: outcome.Available, Attempts: 1, CheckedAt: h.clock()})
	}
	snap, err := catalog.Build(in)
	if err != nil {
		h.t.Fatal(err)
	}
	saved, err := catalog.Save(ctx, h.objects, snap, cur, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return saved
}

func definition(name, description string) tool.Definition {
	raw, err := json.Marshal(map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
	if err != nil {
		panic(err)
	}
	d, err := tool.ParseDefinition(raw)
	if err != nil {
		panic(err)
	}
	return d
}

// observe records what a sync would of a definition that it sees.
func (h *fixture) observe(id, description string, baseline bool) {
	h.t.Helper()
	tid, err := tool.ParseID(id)
	if err != nil {
		h.t.Fatal(err)
	}
	d := definition(tid.Name, description)
	var held *approval.Record
	if r, err := h.approvals.Get(h.t.Context(), tid); err == nil {
		held = &r
	}
	next, entry, changed := approval.Observe(held, approval.Seen{
		ID: tid, URL: "https://" + tid.Server + ".example.com/mcp", Definition: d.Raw, Hash: d.Hash,
		Mode: approval.OnChange, Baseline: baseline, Now: h.clock(),
	})
	if !changed {
		h.t.Fatalf("observing %s changes nothing", id)
	}
	if _, err := h.approvals.Put(h.t.Context(), next, entry); err != nil {
		h.t.Fatal(err)
	}
}

// decide applies one person's decision to the record of a tool.
func (h *fixture) decide(id string, f func(approval.Record) (approval.Record, approval.Entry, error)) {
	h.t.Helper()
	tid, err := tool.ParseID(id)
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := h.approvals.Get(h.t.Context(), tid)
	if err != nil {
		h.t.Fatal(err)
	}
	next, entry, err := f(r)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.approvals.Put(h.t.Context(), next, &entry); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) approve(id string) {
	h.t.Helper()
	h.decide(id, func(r approval.Record) (approval.Record, approval.Entry, error) {
		return approval.Approve(r, r.CurrentHash, "ada", "", h.clock())
	})
}

func (h *fixture) disable(id string) {
	h.t.Helper()
	h.decide(id, func(r approval.Record) (approval.Record, approval.Entry, error) {
		return approval.Disable(r, "ada", "", h.clock())
	})
}

// statuses loads the state and returns the status of each visible tool.
func (h *fixture) statuses() map[string]lock.Status {
	h.t.Helper()
	v := h.loader.Load(h.t.Context()).View(anyone())
	out := map[string]lock.Status{}
	for i := range v.Tools().All() {
		out[v.ID(i).String()] = v.Status(i)
	}
	return out
}

// withTools returns a fixture with two approved tools and one that waits.
func withTools(t *testing.T) *fixture {
	h := newFixture(t)
	h.configure("files", "mail")
	h.observe("files:read", "Read a file.", true)
	h.observe("files:write", "Write a file.", true)
	h.observe("mail:send", "Send a mail.", false)
	h.publish(listing{
		"files": {"read": "Read a file.", "write": "Write a file."},
		"mail":  {"send": "Send a mail."},
	})
	return h
}

// atStart is what withTools looks like.
var atStart = map[string]lock.Status{
	"files:read": lock.None, "files:write": lock.None, "mail:send": lock.PendingApproval,
}

// noServers says of every server that it is away, so that a sync keeps what it has.
type noServers struct{}

func (noServers) LoadAll(_ context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome {
	out := make([]outcome.Outcome, len(targets))
	for i, target := range targets {
		out[i] = outcome.Outcome{ServerID: target.ID, Status: outcome.Transient, Reason: outcome.ReasonTimeout, Attempts: 1}
		each(out[i])
	}
	return out
}

const brokenPolicy = "forbid ("
