package state_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

var filesStopped = map[string]lock.Status{
	"files:read": lock.ServerDisabled, "files:write": lock.ServerDisabled, "mail:send": lock.PendingApproval,
}

// expect compares the statuses of all tools.
func (h *fixture) expect(step string, want map[string]lock.Status) {
	h.T.Helper()
	same(h.T, step+": statuses", want, h.statuses())
}

func every(s lock.Status) map[string]lock.Status {
	return map[string]lock.Status{"files:read": s, "files:write": s, "mail:send": s}
}

func TestStopped(t *testing.T) {
	h := withTools(t)
	h.expect("nothing stopped", atStart)
	stoptest.Put(t, h.Approvals, stoptest.Server("files"), stoptest.Agent("token:ci"))
	h.expect("less than 2 s after the last read", atStart)
	h.Clock.Wait(2 * time.Second)
	h.expect("after 2 s", filesStopped)
	st := h.States.Load(t.Context())
	if is, ok := st.AgentStopped("token:ci"); !ok || is.Reason != "key leaked" {
		t.Errorf("stop of the agent = %+v, %v", is, ok)
	}
	if _, ok := st.AgentStopped("a"); ok {
		t.Error("another agent is stopped")
	}
	v := st.View(anyone())
	if is, ok := v.ServerStopped(st.Servers()[0]); !ok || is.By != "kim" {
		t.Errorf("stop of files = %+v, %v", is, ok)
	}
	if _, ok := v.ServerStopped(st.Servers()[1]); ok {
		t.Error("mail is stopped")
	}
	i, _ := v.Find(gatewaytest.ID(t, "files:read"))
	if got := v.Description(i, v.Status(i)); got != "Read a file." {
		t.Errorf("description of a stopped tool = %q", got)
	}
	stoptest.Put(t, h.Approvals, stoptest.All())
	h.Clock.Wait(2 * time.Second)
	h.expect("all", every(lock.ServerDisabled))
	stoptest.Put(t, h.Approvals)
	h.Clock.Wait(2 * time.Second)
	h.expect("undone", atStart)
}

// A stopped server does not count as away, even if its last load failed.
func TestStoppedIsNotAway(t *testing.T) {
	h := withTools(t)
	h.publish(listing{"files": {}, "mail": nil})
	away := func() []string { return h.States.Refresh(t.Context()).Health.Servers.Away }
	if got := away(); !slices.Equal(got, []string{"mail"}) {
		t.Errorf("away: %q", got)
	}
	stoptest.Put(t, h.Approvals, stoptest.Server("mail"))
	h.Clock.Wait(2 * time.Second)
	if got := away(); len(got) > 0 {
		t.Errorf("after the stop: away = %q, want none", got)
	}
}

// A stop in the config counts in addition to people's stops.
func TestStoppedByTheConfig(t *testing.T) {
	h := withTools(t)
	h.ConfigureOnly(map[string]string{"files": "", "mail": ""}, `"stop": {"servers": ["files"], "agents": ["a"]}`)
	h.expect("in the config", filesStopped)
	if is, ok := h.States.Load(t.Context()).AgentStopped("a"); !ok || is.By != "" {
		t.Errorf("stop of the agent = %+v, %v", is, ok)
	}
	stoptest.Put(t, h.Approvals, stoptest.Server("mail"))
	h.Clock.Wait(2 * time.Second)
	h.expect("both", every(lock.ServerDisabled))
	h.configure("files", "mail")
	h.Clock.Wait(30 * time.Second)
	h.expect("removed from the config", map[string]lock.Status{"files:read": lock.None, "files:write": lock.None, "mail:send": lock.ServerDisabled})
}

// If the stops cannot be read, the last ones count for a minute; then they are unknown.
func TestStoppedUnread(t *testing.T) {
	h := withTools(t)
	down := false
	h.Approvals.OnDocs = func(context.Context, []document.Key) error {
		if down {
			return errDown
		}
		return nil
	}
	stoptest.Put(t, h.Approvals, stoptest.Server("files"))
	h.expect("read", filesStopped)
	down = true
	h.Clock.Wait(59 * time.Second)
	h.expect("unread for less than a minute", filesStopped)
	if health := h.States.Load(t.Context()).Health; !health.Approvals.Stale || health.Expired {
		t.Errorf("health: %+v", health)
	}
	h.Clock.Wait(2 * time.Second)
	unknown := map[string]lock.Status{"files:read": lock.ServerDisabled, "files:write": lock.ServerDisabled, "mail:send": lock.DisabledUnknown}
	h.expect("for more", unknown)
	if !h.States.Load(t.Context()).Health.Expired {
		t.Error("health does not report the expiry")
	}
	down = false
	h.Clock.Wait(5 * time.Second)
	h.expect("read again", filesStopped)
	down = true
	h.Restart()
	h.expect("never read", every(lock.DisabledUnknown))
}

// A stopped agent is refused even without a catalog.
func TestStoppedWithoutACatalog(t *testing.T) {
	h := newFixture(t)
	stoptest.Put(t, h.Approvals, stoptest.Agent("a"))
	st := h.States.Load(t.Context())
	if _, ok := st.AgentStopped("a"); !ok || st.Ready() {
		t.Errorf("stopped %v, ready %v; want stopped without a config and a catalog", ok, st.Ready())
	}
	stoptest.Put(t, h.Approvals)
	h.Clock.Wait(2 * time.Second)
	if _, ok := h.States.Load(t.Context()).AgentStopped("a"); ok {
		t.Error("the agent is still stopped 2 s after the undo")
	}
}
