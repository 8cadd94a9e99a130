package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A house is the API over working stores and a syncer whose servers say what
// a test tells them to.
type house struct {
	t         *testing.T
	objects   *objecttest.Mem
	approvals *approvaltest.Mem
	servers   *servers
	syncer    *catalog.Syncer
	states    *state.Loader
	options   admin.Options
	handler   http.Handler
	log       *bytes.Buffer

	mu  sync.Mutex
	now time.Time
}

const fsConfig = `{"mcpServers": {
	"fs": {"url": "https://fs.example.com/mcp", "disabled_tools": ["format_*"]},
	"mail": {"url": "https://mail.example.com/mcp", "approval": "manual"},
	"old": {"url": "https://old.example.com/mcp", "enabled": false}
}}`

const aPolicy = `@id("no-drafts")
@reason("Drafts are private.")
@contact("#mail-owners")
forbid (principal, action, resource == Tool::"mail:read_drafts");
`

// newHouse is a gateway after its first sync: fs is approved, with one tool that
// the config denies; mail waits, with one tool that a policy denies.
func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), log: &bytes.Buffer{}}
	h.objects = &objecttest.Mem{}
	h.approvals = &approvaltest.Mem{Now: h.clock}
	h.servers = &servers{
		lists: map[string][]string{
			"fs": {
				`{"name":"read_file","description":"Reads a file. Twice.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
				`{"name":"format_disk"}`,
			},
			"mail": {`{"name":"send","x":9007199254740993}`, `{"name":"read_drafts"}`},
		},
		faults: map[string]outcome.Outcome{},
	}
	h.put(config.Key, fsConfig)
	h.put(policy.Key, aPolicy)
	h.states = state.New(h.objects, h.approvals, &state.Options{Now: h.clock})
	h.syncer = catalog.NewSyncer(h.objects, h.approvals, h.servers, &catalog.SyncOptions{Now: h.clock})
	h.options = admin.Options{
		Actor:   func(*http.Request) (string, error) { return "ann", nil },
		BaseURL: "https://gate.example.com", Version: "v1.2.3", Now: h.clock,
		Log: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	h.open()
	h.sync()
	return h
}

// open makes the handler anew from the options.
func (h *house) open() { h.handler = admin.New(h.states, h.approvals, h.syncer, &h.options) }

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(time.Millisecond)
	return h.now
}

func (h *house) put(key, data string) {
	h.t.Helper()
	if _, err := h.objects.Put(h.t.Context(), key, []byte(data), ""); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) sync() {
	h.t.Helper()
	if _, err := h.syncer.Sync(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	h.states.Refresh(h.t.Context())
}

// send sends a request and returns the answer. A body makes it a POST of JSON,
// unless headers ("Name: value") say something else.
func (h *house) send(path, body string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(h.t.Context(), method, "https://gate.example.com"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

// into sends a request that must be answered 200, and reads the answer.
func into[T any](h *house, path, body string) T {
	h.t.Helper()
	w := h.send(path, body)
	if w.Code != http.StatusOK {
		h.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		h.t.Fatalf("%s: %v", path, err)
	}
	return v
}

// problem sends a request that must fail with status, and returns the detail.
func (h *house) problem(status int, path, body string, headers ...string) string {
	h.t.Helper()
	w := h.send(path, body, headers...)
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		h.t.Errorf("%s %s = %d %s %s, want %d", path, body, w.Code, w.Header().Get("Content-Type"), w.Body, status)
	}
	var p struct {
		Status int    `json:"status"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		h.t.Errorf("%s: problem %+v, %v", path, p, err)
	}
	return p.Detail
}

// status returns what requests of this process see of a tool, without a refresh.
func (h *house) status(id string) lock.Status {
	h.t.Helper()
	tid, err := tool.ParseID(id)
	if err != nil {
		h.t.Fatal(err)
	}
	agent := identity.Agent{ID: "a", Servers: []string{"*"}}
	v := h.states.Load(h.t.Context()).View(agent)
	i, ok := v.Find(tid)
	if !ok {
		h.t.Fatalf("%s is not in the catalog", id)
	}
	return v.Status(i)
}

// hash returns the hash of the tool's definition as the API shows it.
func (h *house) hash(path string) string {
	h.t.Helper()
	return into[admin.Tool](h, "/admin/tools/"+path, "").Hash
}

func approveBody(hash string) string { return fmt.Sprintf(`{"hash":%q,"note":"seen"}`, hash) }

// servers answer from lists, unless faults has something for them.
type servers struct {
	lists  map[string][]string
	faults map[string]outcome.Outcome
}

func (s *servers) LoadAll(_ context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome {
	var out []outcome.Outcome
	for _, target := range targets {
		o, broken := s.faults[target.ID]
		if !broken {
			o = outcome.Outcome{Status: outcome.Available}
			for _, raw := range s.lists[target.ID] {
				d, err := tool.ParseDefinition([]byte(raw))
				if err != nil {
					o.Refused = append(o.Refused, outcome.Refusal{Name: raw, Reason: err.Error()})
					continue
				}
				o.Tools = append(o.Tools, d)
			}
		}
		o.ServerID, o.Attempts, o.Duration = target.ID, 1, 15*time.Millisecond
		o.CheckedAt = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		each(o)
		out = append(out, o)
	}
	return out
}

// serve sends r as it is.
func (h *house) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

// newStates is the state of a process that has read nothing yet.
func newStates(h *house) *state.Loader {
	return state.New(h.objects, h.approvals, &state.Options{Now: h.clock})
}

func onGet(err error) func(context.Context, string) error {
	return func(context.Context, string) error { return err }
}
