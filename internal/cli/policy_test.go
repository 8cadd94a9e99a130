package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A health is the policy part of /admin/health.
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
	p.T.Helper()
	var h health
	p.Ask(http.StatusOK, "/admin/health", nil, &h)
	return h
}

func TestBadPolicy(t *testing.T) {
	const good = `@id("no-deletes") @reason("Deletes go through the platform team.") @contact("platform@example.com")
forbid (principal, action, resource) when { resource.name like "delete_*" };`
	o := startTwoServers(t, "search", `{}`)
	if got := o.Call("call_tool_destructive", map[string]any{"name": "files:delete_file"}); got.IsError {
		t.Fatalf("the call without a policy answers %s", got.Raw)
	}
	programtest.WritePolicy(t, o.dir, good)
	locked := func(p *program) bool {
		got := p.Call("call_tool_destructive", map[string]any{"name": "files:delete_file"})
		return got.IsError && strings.Contains(got.Text, "disabled_by_config") &&
			strings.Contains(got.Text, "Deletes go through the platform team. (rule no-deletes, contact platform@example.com)")
	}
	local.Until(t, "the new policy locks the tool", func() bool { return locked(o) })
	version := o.health().State.Policy.Version

	programtest.WritePolicy(t, o.dir, "@id(\"typo\")\nforbid (principal, action, resource) when { resource.nam == \"x\" };")
	stale := func(p *program) bool {
		r := p.health().Reasons
		return len(r) == 1 && r[0].Code == "policy_refused"
	}
	local.Until(t, "the health says that the policy is stale", func() bool { return stale(o) })
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
			t.Error("the last good policy no longer locks the tool")
		}
		if got := p.Call("call_tool_read", map[string]any{"name": "files:get_file"}); got.IsError {
			t.Errorf("a call that the last good policy permits answers %s", got.Raw)
		}
	}
	check(o)
	require.OK(t, o.stop())
	again := start(t, o.dir)
	check(again)

	programtest.WritePolicy(t, again.dir, strings.Replace(good, "delete_*", "get_*", 1))
	local.Until(t, "the corrected policy is in use", func() bool { return again.health().Status == "ok" })
	if locked(again) {
		t.Error("the older policy is still in use after the file was corrected")
	}
}
