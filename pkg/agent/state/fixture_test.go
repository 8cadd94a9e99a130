package state_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

var everyTier = []tool.Tier{tool.Read, tool.Write, tool.Destructive}

func anyone() identity.Agent {
	return identity.Agent{ID: "a", Servers: []string{"*"}, Tiers: everyTier}
}

// A fixture is a gateway in memory that records the reads of its stores.
type fixture struct {
	*gatewaytest.Gateway
	mu    sync.Mutex
	gets  []string // keys read
	since []time.Time
	errs  map[string]error // by key; "approvals" for the approval store
}

func newFixture(t testing.TB) *fixture {
	h := &fixture{Gateway: gatewaytest.New(t), errs: map[string]error{}}
	h.Objects.OnGet = func(_ context.Context, key string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gets = append(h.gets, key)
		return h.errs[key]
	}
	h.Approvals.OnChanges = func(_ context.Context, since time.Time) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.since = append(h.since, since)
		return h.errs["approvals"]
	}
	return h
}

func (h *fixture) fail(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs[what] = err
}

// reads returns which objects were read since its last call, and how often the changed approvals
// were read.
func (h *fixture) reads() (objects []string, feeds int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects, feeds = h.gets, len(h.since)
	h.gets, h.since = nil, nil
	return objects, feeds
}

// configure stores a config of servers. Each argument is a name, or a name, a space and settings.
func (h *fixture) configure(servers ...string) {
	h.T.Helper()
	settings := map[string]string{}
	for _, s := range servers {
		name, rest, _ := strings.Cut(s, " ")
		settings[name] = rest
	}
	h.ConfigureOnly(settings)
}

// A listing is the content of a catalog: server → name of a tool → description. A nil map of tools
// means that the server did not load.
type listing map[string]map[string]string

// publish stores a catalog as a sync would now, with the approval records in the store.
func (h *fixture) publish(l listing) *catalog.Snapshot {
	h.T.Helper()
	ctx := h.T.Context()
	in := catalog.Input{}
	cur := catalog.Current{StartedAt: h.Clock.Now(), SyncedAt: h.Clock.Now()}
	for server, tools := range l {
		s := catalog.ServerInput{Name: server, Enabled: true}
		for name, description := range tools {
			d := definition(name, description)
			ti := catalog.ToolInput{Definition: d}
			if r, err := h.Approvals.Get(ctx, tool.ID{Server: server, Name: name}); err == nil {
				ti.Record = &r
			}
			s.Tools = append(s.Tools, ti)
		}
		in.Servers = append(in.Servers, s)
		status := outcome.Available
		if tools == nil { // the server did not load
			status = outcome.Transient
		}
		cur.Outcomes = append(cur.Outcomes, outcome.Outcome{ServerID: server, Status: status, Attempts: 1, CheckedAt: h.Clock.Now()})
	}
	snap, err := catalog.Build(in)
	if err != nil {
		h.T.Fatal(err)
	}
	saved, err := catalog.Save(ctx, h.Objects, snap, cur, "")
	if err != nil {
		h.T.Fatal(err)
	}
	return saved
}

func definition(name, description string) tool.Definition {
	raw, err := json.Marshal(map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
	if err != nil {
		panic(err)
	}
	d, err := tool.ParseItem(tool.Tool, raw)
	if err != nil {
		panic(err)
	}
	return d
}

// observe records a definition as a sync would.
func (h *fixture) observe(id, description string, baseline bool) {
	h.T.Helper()
	tid := gatewaytest.ID(h.T, id)
	d := definition(tid.Name, description)
	var held *approval.Record
	if r, err := h.Approvals.Get(h.T.Context(), tid); err == nil {
		held = &r
	}
	next, entry, changed := approval.Observe(held, approval.Observation{
		ID: tid, URL: "https://" + tid.Server + ".example.com/mcp", Definition: d.Raw, Hash: d.Hash,
		Mode: approval.OnChange, Baseline: baseline, Now: h.Clock.Now(),
	})
	if !changed {
		h.T.Fatalf("observing %s changes nothing", id)
	}
	if _, err := h.Approvals.Put(h.T.Context(), next, entry); err != nil {
		h.T.Fatal(err)
	}
}

// statuses loads the state and returns the status of each visible tool.
func (h *fixture) statuses() map[string]lock.Status {
	h.T.Helper()
	v := h.States.Load(h.T.Context()).View(anyone())
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

// atStart has the statuses of the tools of withTools.
var atStart = map[string]lock.Status{
	"files:read": lock.None, "files:write": lock.None, "mail:send": lock.PendingApproval,
}

const brokenPolicy = "forbid ("

// same checks that two values are equal.
func same[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
