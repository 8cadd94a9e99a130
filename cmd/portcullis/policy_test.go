package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writePolicy writes the policy whole, as an editor that saves does.
func writePolicy(t testing.TB, dir, text string) {
	t.Helper()
	folder := filepath.Join(dir, "config")
	if err := os.WriteFile(filepath.Join(folder, "new"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, "policy.cedar")); err != nil {
		t.Fatal(err)
	}
}

// A health is what /admin/health says of the policy.
type health struct {
	Status  string
	Reasons []struct{ Code string }
	State   struct {
		Policy struct {
			Version string
			Stale   bool
			Faults  []struct {
				Path, Message string
				Line, Col     int
			}
		}
		Warnings []string
	}
}

func (p *program) health() health {
	p.t.Helper()
	var h health
	p.json(http.MethodGet, "/admin/health", nil, http.StatusOK, &h)
	return h
}

func TestABadPolicyNeverReplacesAGoodOne(t *testing.T) {
	const good = `@id("no-deletes") @reason("Deletes go through the platform team.") @contact("platform@example.com")
forbid (principal, action, resource) when { resource.name like "delete_*" };`
	o := newOffice(t, "search", `{}`)
	if got := o.call("call_tool_destructive", map[string]any{"name": "files:delete_file"}); got.IsError {
		t.Fatalf("without a policy the tool answers %s", got.Raw)
	}
	writePolicy(t, o.dir, good)
	locked := func(p *program) bool {
		got := p.call("call_tool_destructive", map[string]any{"name": "files:delete_file"})
		return got.IsError && strings.Contains(got.Text, "disabled_by_config") &&
			strings.Contains(got.Text, "Deletes go through the platform team. (rule no-deletes, contact platform@example.com)")
	}
	eventually(t, "the new policy locks the tool", func() bool { return locked(o.program) })
	version := o.health().State.Policy.Version

	writePolicy(t, o.dir, "@id(\"typo\")\nforbid (principal, action, resource) when { resource.nam == \"x\" };")
	stale := func(p *program) bool {
		r := p.health().Reasons
		return len(r) == 1 && r[0].Code == "policy_refused"
	}
	eventually(t, "the health says that the policy is stale", func() bool { return stale(o.program) })
	check := func(p *program) {
		t.Helper()
		h := p.health()
		if h.Status != "degraded" || !h.State.Policy.Stale || h.State.Policy.Version != version {
			t.Errorf("health = %+v, want version %s in use, and stale", h, version)
		}
		if f := h.State.Policy.Faults; len(f) != 1 || f[0].Path != "typo" || f[0].Line != 2 || f[0].Col != 54 || !strings.Contains(f[0].Message, "`nam`") {
			t.Errorf("faults = %+v", f)
		}
		if !locked(p) {
			t.Error("the good policy's lock is gone")
		}
		if got := p.call("call_tool_read", map[string]any{"name": "files:get_file"}); got.IsError {
			t.Errorf("what the good policy permits answers %s", got.Raw)
		}
	}
	check(o.program)
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, o.dir)
	check(again)

	writePolicy(t, again.dir, strings.Replace(good, "delete_*", "get_*", 1))
	eventually(t, "the mended policy is in use", func() bool { return again.health().Status == "ok" })
	if locked(again) {
		t.Error("the older policy outlives the file that is good")
	}
}
