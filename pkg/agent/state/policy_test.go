package state_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// TestPolicyFile changes the policy file step by step, and checks the locks of the tools after each
// step. It checks a process that was running before the step (warm), and one that starts after it
// (cold). The sync after each step keeps the last good file.
func TestPolicyFile(t *testing.T) {
	const (
		noWrites   = `@id("no-writes") forbid (principal, action, resource == Tool::"files:write");`
		noFiles    = `@id("no-files") forbid (principal, action, resource) when { resource.server == "files" };`
		gone, same = "gone", "same"
		permitted  = lock.None
		denied     = lock.DisabledByConfig
		unknown    = lock.DisabledUnknown
	)
	h := withTools(t)
	var log bytes.Buffer
	for _, name := range []string{"files", "mail"} { // the servers do not load, so a sync keeps their tools
		h.Server(name).Outcome = outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonTimeout}
	}
	warm := state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, row := range []struct {
		event, file string
		read, write lock.Status
		stale       bool
		cold        lock.Status // of all tools in a process that starts; same: as in a running process
	}{
		{"there never was a policy", gone, permitted, permitted, false, same},
		{"the first one is broken", brokenPolicy, permitted, permitted, true, unknown},
		{"a policy", noWrites, permitted, denied, false, same},
		{"deleted", gone, permitted, denied, true, same},
		{"broken", brokenPolicy, permitted, denied, true, same},
		{"deleted while broken", gone, permitted, denied, true, same},
		{"restored", noWrites, permitted, denied, false, same},
		{"replaced", noFiles, denied, denied, false, same},
		{"deleted again", gone, denied, denied, true, same},
		{"emptied", "", permitted, permitted, false, same},
		{"the empty one deleted", gone, permitted, permitted, false, same},
		{"broken after none", brokenPolicy, permitted, permitted, true, unknown},
		{"restored for good", noWrites, permitted, denied, false, same},
		{"only comments", "// nothing is forbidden\n", permitted, permitted, false, same},
	} {
		if row.file == gone {
			if err := h.Objects.Delete(t.Context(), policy.Key); err != nil {
				t.Fatal(err)
			}
		} else {
			h.Put(policy.Key, row.file)
		}
		h.Clock.Wait(30 * time.Second)
		if _, err := h.Syncer.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]lock.Status{"files:read": row.read, "files:write": row.write, "mail:send": lock.PendingApproval}
		h.States = warm
		h.checkPolicy(row.event+", warm", want, row.stale, false)
		if n := strings.Count(log.String(), "\n"); row.stale && n != 1 {
			t.Errorf("%s: %d lines are logged, want one:\n%s", row.event, n, log.String())
		}
		log.Reset()
		if row.cold != same {
			want = map[string]lock.Status{"files:read": row.cold, "files:write": row.cold, "mail:send": row.cold}
		}
		h.States = state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now})
		h.checkPolicy(row.event+", cold", want, row.stale, row.cold == unknown)
	}
}

// checkPolicy checks the loader's result for the policy file: the statuses of the tools, whether an
// older version is in use (stale), and whether no version is in use (none). A second load of the
// same file changes nothing.
func (h *fixture) checkPolicy(what string, want map[string]lock.Status, stale, none bool) {
	h.T.Helper()
	for range 2 {
		h.expect(what, want)
		s := h.States.Load(h.T.Context())
		if p := s.Health.Policy; p.Stale != stale || (p.Err != nil) != stale || (s.Policy == nil) != none {
			h.T.Errorf("%s: %+v, want stale %t", what, p, stale)
		}
		if want["files:write"] == lock.DisabledByConfig && s.Health.Policy.Version == "" {
			h.T.Errorf("%s: the version in use is missing", what)
		}
		h.Clock.Wait(30 * time.Second)
	}
}

func TestLoaderConfigGone(t *testing.T) {
	h := withTools(t)
	h.States.Load(t.Context())
	o, err := h.Objects.Get(t.Context(), config.Key, "")
	if err != nil {
		t.Fatal(err)
	}
	h.Put(catalog.ConfigFile.LastGood, string(o.Data))
	if err := h.Objects.Delete(t.Context(), config.Key); err != nil {
		t.Fatal(err)
	}
	h.Clock.Wait(30 * time.Second)
	for range 2 {
		h.expect("statuses", atStart)
		if p := h.States.Load(t.Context()).Health.Config; !p.Stale || !errors.Is(p.Err, object.ErrGone) || p.Version != object.Version(o.Data) {
			t.Errorf("config = %+v, want the last config, flagged stale", p)
		}
		h.Restart()
	}
}

// A policy that was stored and removed between two reads of a process still applies.
func TestLoaderPolicyGone(t *testing.T) {
	h := withTools(t)
	h.States.Load(t.Context())
	h.Put(catalog.PolicyFile.LastGood, `forbid (principal, action, resource);`)
	h.Clock.Wait(30 * time.Second)
	if got := h.statuses()["files:read"]; got != lock.DisabledByConfig {
		t.Errorf("files:read is %q, want it denied", got)
	}
	reasons := h.States.Load(t.Context()).Health.Reasons()
	if !slices.ContainsFunc(reasons, func(r state.Reason) bool { return r.Code == "policy_gone" }) {
		t.Errorf("reasons = %+v, want policy_gone among them", reasons)
	}
}
