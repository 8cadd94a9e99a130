package state_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/golden"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well returns the health of a gateway without problems.
func well() state.Health {
	used := state.Part{Version: "v", InUse: true, ReadAt: noon}
	return state.Health{
		At: noon, Config: used, Policy: used, Catalog: used, Approvals: used,
		Sync:    state.Syncs{At: noon.Add(-time.Minute), Every: 5 * time.Minute},
		Servers: state.Servers{Configured: 3, Enabled: 2, Tried: 2, Available: 2, Tools: 4},
	}
}

// first returns the change of a gateway that cannot read a catalog while its first sync runs.
func first(err error) func(*state.Health) {
	return func(h *state.Health) { h.Catalog, h.Sync = none(err), state.Syncs{First: true} }
}

// troubles are changes to a healthy gateway, each with the codes of the reasons that Reasons must
// return, the worst first.
var troubles = []struct {
	name      string
	codes     string
	condition state.Condition
	change    func(*state.Health)
}{
	{"nothing", "", state.OK, func(*state.Health) {}},
	{"zero health", "config_unread", state.Failing, func(h *state.Health) { *h = state.Health{} }},
	{"a server was never loaded", "", state.OK, func(h *state.Health) { h.Servers.Tried, h.Servers.Available = 1, 1 }},
	{"a third of the servers is away", "servers_away", state.OK, away(70, 0, 23)},
	{"more than a third is away", "servers_away", state.Degraded, away(70, 0, 24)},
	{"more than a third of the servers that are not stopped is away", "servers_away", state.Degraded, away(70, 10, 21)},
	{"one server is away, and something else is wrong", "lists_unread servers_away", state.Degraded, func(h *state.Health) {
		away(3, 0, 1)(h)
		h.Servers.Unread = []string{"fs"}
	}},
	{"no config ever", "config_missing", state.Failing, func(h *state.Health) {
		h.Config, h.Catalog = none(gone("config")), none(gone("catalog"))
	}},
	{"config refused, none in use", "config_refused", state.Failing, func(h *state.Health) {
		h.Config, h.Catalog = none(fmt.Errorf("no config: %w", faults(2))), none(gone("catalog"))
	}},
	{"config refused", "config_refused", state.Degraded, func(h *state.Health) { h.Config.Err = faults(1) }},
	{"config gone", "config_gone", state.Degraded, func(h *state.Health) { h.Config.Err = gone("config") }},
	{"config unread", "config_unread", state.Degraded, func(h *state.Health) { h.Config.Err = errDown }},
	{"nothing can be read, ever", "config_unread policy_unread catalog_unread", state.Failing, func(h *state.Health) {
		h.Config, h.Policy, h.Catalog = none(errDown), none(errDown), none(errDown)
	}},
	{"approvals lost", "approvals_lost", state.Degraded, func(h *state.Health) { h.Lost = true }},
	{"approvals restored", "approvals_restored", state.Degraded, func(h *state.Health) { h.Restored = 1 }},
	{"approvals restored and lost again", "approvals_lost approvals_restored", state.Degraded, func(h *state.Health) { h.Lost, h.Restored = true, 12 }},
	{"tools rebuilt", "tools_rebuilt", state.Degraded, func(h *state.Health) { h.Rebuilt = []string{"fs", "git"} }},
	{"policy refused, none in use", "policy_refused", state.Failing, func(h *state.Health) { h.Policy = none(faults(1)) }},
	{"policy refused", "policy_refused", state.Degraded, func(h *state.Health) { h.Policy.Err = faults(1) }},
	{"policy gone", "policy_gone", state.Degraded, func(h *state.Health) { h.Policy.Err = gone("policy") }},
	{"no sync has ended", "catalog_missing", state.Failing, func(h *state.Health) { h.Catalog = none(gone("catalog")) }},
	{"the first sync runs", "catalog_missing", state.Degraded, first(gone("catalog"))},
	{"the first sync, unusable", "catalog_unusable", state.Degraded, first(catalog.ErrUnusable)},
	{"the first sync, unread", "catalog_unread", state.Failing, first(errDown)},
	{"catalog unusable", "catalog_unusable", state.Failing, func(h *state.Health) { h.Catalog = none(catalog.ErrUnusable) }},
	{"catalog unusable, an older one in use", "catalog_unusable", state.Degraded, func(h *state.Health) { h.Catalog.Err = catalog.ErrUnusable }},
	{"catalog of a newer program", "catalog_newer", state.Failing, func(h *state.Health) {
		failed(catalog.FailedNewer)(h)
		h.Catalog, h.Sync.At = none(catalog.ErrNewer), time.Time{}
	}},
	{"catalog of a newer program, an older one in use", "catalog_newer", state.Degraded, func(h *state.Health) { h.Catalog.Err = catalog.ErrNewer }},
	{"approvals unread", "approvals_unread", state.Degraded, func(h *state.Health) { h.Approvals.Err = errDown }},
	{"approvals unread for long", "approvals_unread", state.Failing, func(h *state.Health) { h.Approvals.Err, h.Expired = errDown, true }},
	{"approvals and catalog lost", "approvals_restored approvals_gone", state.Degraded, func(h *state.Health) { h.Restored, h.Forgotten = 12, []string{"git"} }},
	{"approvals and catalog lost, and the servers are away", "approvals_gone", state.Degraded, func(h *state.Health) { h.Forgotten = []string{"fs", "git"} }},
	{"required server", "sync_failed", state.Degraded, failed(catalog.FailedRequired, "git", "mail")},
	{"sync out of time", "sync_failed", state.Degraded, failed(catalog.FailedTime)},
	{"disk full", "sync_failed", state.Degraded, failed(catalog.FailedDisk)},
	{"store away", "sync_failed", state.Degraded, failed(catalog.FailedStore)},
	{"the first sync fails", "catalog_missing sync_failed", state.Failing, func(h *state.Health) {
		failed(catalog.FailedStore)(h)
		h.Catalog, h.Sync.At = none(gone("catalog")), time.Time{}
	}},
	{"a sync without a config", "config_missing", state.Failing, func(h *state.Health) {
		failed(catalog.FailedConfig)(h)
		h.Config, h.Catalog = none(gone("config")), none(gone("catalog"))
	}},
	{"three syncs missed", "catalog_old", state.Degraded, func(h *state.Health) { h.Sync.At = noon.Add(-15*time.Minute - 1) }},
	{"two syncs missed", "", state.OK, func(h *state.Health) { h.Sync.At = noon.Add(-15 * time.Minute) }},
	{"sync interval unknown", "", state.OK, func(h *state.Health) { h.Sync.At, h.Sync.Every = noon.Add(-48*time.Hour), 0 }},
	{"no server", "no_servers", state.Degraded, func(h *state.Health) { h.Servers = state.Servers{} }},
	{"all disabled", "servers_off", state.Degraded, func(h *state.Health) { h.Servers = state.Servers{Configured: 1, Tools: 3} }},
	{"all down, never loaded", "servers_down", state.Degraded, func(h *state.Health) {
		h.Servers = state.Servers{Configured: 1, Enabled: 1, Tried: 1}
	}},
	{"the audit is not written", "audit_unwritten", state.Degraded, func(h *state.Health) { h.Audit = errDown }},
	{"the audit is not written, and required", "audit_unwritten", state.Failing, func(h *state.Health) { h.Audit, h.AuditRequired = errDown, true }},
	{"all processes are in use", "processes_full", state.Degraded, func(h *state.Health) { h.FullSince, h.Processes = noon, 64 }},
	{"no descriptors", "no_descriptors", state.Degraded, func(h *state.Health) {
		h.Capacity = &capacity.Facts{IsShort: true, Descriptors: 256}
	}},
	{"files cannot be opened", "no_descriptors", state.Degraded, func(h *state.Health) {
		h.Config.Err, h.Policy.Err, h.Catalog.Err = syscall.EMFILE, syscall.ENFILE, fmt.Errorf("read: %w", syscall.EMFILE)
	}},
	{"files could never be opened", "config_unread no_descriptors", state.Failing, func(h *state.Health) { h.Config = none(syscall.EMFILE) }},
	{"too many requests", "overloaded", state.Degraded, func(h *state.Health) {
		h.Capacity = &capacity.Facts{IsRefusing: true, MaxRequests: 64, MaxConns: 128, Refused: 7}
	}},
	{"the audit is nearly full", "audit_nearly_full", state.Degraded, func(h *state.Health) { h.AuditBytes, h.AuditLimit = 9<<30, 10<<30 }},
	{"the audit is nearly full, and required", "audit_nearly_full", state.Degraded, func(h *state.Health) {
		h.AuditBytes, h.AuditLimit, h.AuditRequired = 900<<20, 1000<<20, true
	}},
	{"the audit is large", "", state.OK, func(h *state.Health) { h.AuditBytes, h.AuditLimit = 8<<30, 10<<30 }},
	{"the audit of a day is full", "audit_full", state.Degraded, func(h *state.Health) {
		h.Audit, h.AuditBytes, h.AuditLimit = fmt.Errorf("write: %w", audit.ErrLimit), 10<<30, 10<<30
	}},
	{"the audit is full, and required", "audit_full", state.Failing, func(h *state.Health) {
		h.Audit, h.AuditRequired, h.AuditBytes, h.AuditLimit = audit.ErrLimit, true, 10<<30, 10<<30
	}},
	{"all down, loaded before", "servers_down", state.Degraded, func(h *state.Health) { h.Servers.Available = 0 }},
	{"empty catalog", "catalog_empty", state.Degraded, func(h *state.Health) { h.Servers.Tools = 0 }},
	{"tools refused", "tools_refused", state.Degraded, func(h *state.Health) { h.Servers.Refused = []string{"git"} }},
	{"a prompt refused", "tools_refused", state.Degraded, func(h *state.Health) { h.Servers.Refused, h.Servers.Others = []string{"git"}, true }},
	{"lists unread", "lists_unread", state.Degraded, func(h *state.Health) { h.Servers.Unread = []string{"fs", "git"} }},
	{"tools refused of many", "tools_refused", state.Degraded, func(h *state.Health) { h.Servers.Refused = strings.Fields("a b c d e f g") }},
	{"little memory for the catalog", "memory_small", state.Degraded, func(h *state.Health) { h.Memory, h.MemoryNeeded = 256, 257 }},
	{"little memory to sync", "sync_memory_small", state.Degraded, func(h *state.Health) {
		h.SyncMemory, h.SyncMemoryNeeded = 1024, 1025
	}},
	{"enough memory to sync", "", state.OK, func(h *state.Health) {
		h.SyncMemory, h.SyncMemoryNeeded = 1024, 1024
	}},
	{"enough memory", "", state.OK, func(h *state.Health) { h.Memory, h.MemoryNeeded = 256, 256 }},
	{"several", "approvals_unread config_refused sync_failed servers_down", state.Failing, func(h *state.Health) {
		failed(catalog.FailedDisk)(h)
		h.Config.Err, h.Approvals.Err, h.Expired, h.Servers.Available = faults(3), errDown, true, 0
	}},
}

// away returns a change to n servers, of which some are stopped, and others did not load.
func away(n, stopped, away int) func(*state.Health) {
	return func(h *state.Health) {
		h.Servers = state.Servers{Configured: n, Enabled: n, Tried: n, Available: n - stopped - away, Stopped: stopped, Tools: n}
		for i := range away {
			h.Servers.Away = append(h.Servers.Away, fmt.Sprintf("s%02d", i))
		}
	}
}

func none(err error) state.Part { return state.Part{Err: err} }

func gone(what string) error { return fmt.Errorf("read %s: %w", what, object.ErrNotFound) }

func faults(n int) error {
	return append(config.Faults(nil), make(config.Faults, n)...)
}

func failed(reason string, servers ...string) func(*state.Health) {
	return func(h *state.Health) {
		h.Sync.Failed = &catalog.Failure{Since: noon.Add(-time.Hour), At: noon, Reason: reason, Servers: servers}
	}
}

// Every problem has its code, its condition, and two sentences for the operator.
func TestHealthReasons(t *testing.T) {
	var page strings.Builder
	for _, tt := range troubles {
		t.Run(tt.name, func(t *testing.T) {
			h := well()
			tt.change(&h)
			var codes []string
			fmt.Fprintf(&page, "%s: %s\n", tt.name, h.Condition())
			for _, r := range h.Reasons() {
				codes = append(codes, r.Code)
				fmt.Fprintf(&page, "  %s (%s)\n    %s\n    %s\n", r.Code, r.Condition, r.Message, r.Action)
				if r.Message == "" || r.Action == "" || strings.Contains(r.Message+r.Action, "store is down") {
					t.Errorf("%+v: want a message and an action, without the text of the error", r)
				}
			}
			if got := strings.Join(codes, " "); got != tt.codes || h.Condition() != tt.condition {
				t.Errorf("%s, %q, want %s, %q", h.Condition(), got, tt.condition, tt.codes)
			}
		})
	}
	golden.Check(t, filepath.Join("testdata", "reasons.golden"), page.String())
}

// A loader detects a problem, reports since when it exists, and forgets it when it is solved.
func TestLoaderHealth(t *testing.T) {
	h := withTools(t)
	health := func() string {
		t.Helper()
		out := ""
		for _, r := range h.States.Refresh(t.Context()).Health.Reasons() {
			out += fmt.Sprintf("%s %s ", r.Code, r.Since.Sub(noon))
		}
		return out
	}
	want := func(what, want string) {
		t.Helper()
		if got := health(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("at the start", "")
	h.Clock.Wait(time.Minute)
	h.Put(config.Key, `{"mcpServers": {"files": {"oops": 1}}}`)
	h.fail("approvals", errDown)
	want("a bad config and no approvals", "config_refused 1m0s approvals_unread 1m0s ")
	h.expect("with the last good config", atStart)
	h.Clock.Wait(time.Minute)
	want("a minute later", "approvals_unread 1m0s config_refused 1m0s ")
	h.fail("approvals", nil)
	h.configure("files", "mail")
	want("after both problems are solved", "")
	h.Clock.Wait(time.Minute)
	h.configure("files", `gone ,"enabled":false`)
	h.States.SyncEnded(&catalog.Failure{Since: h.Clock.Now(), At: h.Clock.Now(), Reason: catalog.FailedDisk}, nil)
	want("a sync in this process fails", "sync_failed 3m0s ")
	h.Clock.Wait(time.Minute)
	h.States.SyncEnded(&catalog.Failure{Since: h.Clock.Now(), At: h.Clock.Now(), Reason: catalog.FailedDisk}, nil)
	want("it fails again", "sync_failed 3m0s ")
	h.Clock.Wait(time.Minute)
	h.publish(listing{"files": {}})
	want("another process's sync works", "catalog_empty 5m0s ")
	h.configure("files", "mail", "later")
	want("a server that no sync has asked yet is not down", "catalog_empty 5m0s ")
	h.configure()
	want("without a server", "no_servers 5m0s ")
}

// Parts that recover together have one log line.
func TestLoaderLog(t *testing.T) {
	h := withTools(t)
	for _, key := range []string{config.Key, catalog.CurrentKey} {
		h.fail(key, errDown)
	}
	h.States.Refresh(t.Context())
	h.States.Refresh(t.Context())
	for _, key := range []string{config.Key, catalog.CurrentKey} {
		h.fail(key, nil)
	}
	h.States.Refresh(t.Context())
	h.States.Refresh(t.Context())
	if log := h.Log.String(); strings.Count(log, "cannot be refreshed") != 2 || strings.Count(log, "refreshed again") != 1 || !strings.Contains(log, "parts=config,catalog") {
		t.Errorf("log:\n%s", log)
	}
}
