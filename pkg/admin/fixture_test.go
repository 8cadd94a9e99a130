package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A fixture is the API of a gateway in memory.
type fixture struct {
	*gatewaytest.Gateway
	agenttest.Client
	t       *testing.T
	options admin.Options
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

// newFixture is a gateway after its first sync: fs is approved, with one tool that
// the config denies; mail waits, with one tool that a policy denies.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{Gateway: gatewaytest.New(t), t: t}
	h.Clock.Set(h.Clock.Now(), time.Millisecond)
	h.Serve("fs",
		`{"name":"read_file","description":"Reads a file. Twice.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		`{"name":"format_disk"}`)
	h.Serve("mail", `{"name":"send","x":9007199254740993}`, `{"name":"read_drafts"}`)
	h.Put(config.Key, fsConfig)
	h.Forbid(aPolicy)
	h.options = admin.Options{
		Actor:   func(*http.Request) (string, error) { return "ann", nil },
		BaseURL: gatewaytest.BaseURL, Version: "v1.2.3", Now: h.Clock.Now,
		Log: slog.New(slog.NewTextHandler(h.Log, nil)),
	}
	h.Client = agenttest.Client{T: t, URL: gatewaytest.BaseURL}
	h.open()
	h.Sync()
	return h
}

// open makes the handler anew from the options.
func (h *fixture) open() { h.openWith(h.Syncer) }

// openWith is open with something else to sync by.
func (h *fixture) openWith(syncer admin.Syncer) {
	h.Transport = agenttest.InProcess(admin.New(h.States, h.Approvals, syncer, &h.options))
}

// into sends a request that must be answered 200, and reads the answer.
func into[T any](h *fixture, path, body string) T {
	h.t.Helper()
	a := h.Send(path, body)
	if a.Status != http.StatusOK {
		h.t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	return require.JSON[T](h.t, a.Body)
}

// problem sends a request that must fail with status, and returns the detail.
func (h *fixture) problem(status int, path, body string, headers ...string) string {
	h.t.Helper()
	a := h.Send(path, body, headers...)
	if a.Status != status || a.Header.Get("Content-Type") != "application/problem+json" {
		h.t.Errorf("%s %s = %d %s %s, want %d", path, body, a.Status, a.Header.Get("Content-Type"), a.Body, status)
	}
	var p struct {
		Status int    `json:"status"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		h.t.Errorf("%s: problem %+v, %v", path, p, err)
	}
	return p.Detail
}

// status returns what requests of this process see of a tool, without a refresh.
func (h *fixture) status(id string) lock.Status {
	h.t.Helper()
	v := h.States.Load(h.t.Context()).View(h.Agent)
	i, ok := v.Find(gatewaytest.ID(h.t, id))
	if !ok {
		h.t.Fatalf("%s is not in the catalog", id)
	}
	return v.Status(i)
}

// hash returns the hash of the tool's definition as the API shows it.
func (h *fixture) hash(path string) tool.Hash {
	h.t.Helper()
	return into[admin.Tool](h, "/admin/tools/"+path, "").Hash
}

func approveBody(hash tool.Hash) string { return fmt.Sprintf(`{"hash":%q,"note":"seen"}`, hash) }

func onGet(err error) func(context.Context, string) error {
	return func(context.Context, string) error { return err }
}
