package state

import (
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

func TestDeadlineIsOverByEitherClock(t *testing.T) {
	for name, pass := range approvaltest.ThreeSeconds {
		t.Run(name, func(t *testing.T) {
			m := &approvaltest.Clock{Begin: time.Now()}
			d := after(m.Now(), 2*time.Second)
			if d.over(m.Now()) {
				t.Error("it is over when it is set")
			}
			pass(m)
			if !d.over(m.Now()) {
				t.Error("it is not over 3 s later")
			}
		})
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // without a monotonic clock
	if d := after(noon, 2*time.Second); !d.over(noon.Add(-time.Hour)) || d.over(noon.Add(time.Second)) {
		t.Error("without a monotonic clock a time before it was set is not taken for over")
	}
	if !(deadline{}).over(noon) {
		t.Error("the zero deadline is not over")
	}
}

// Nothing new stays unread because the clock was set back an hour.
func TestWhatIsNewIsReadAlthoughTheClockIsSetBack(t *testing.T) {
	for _, cfg := range []struct {
		name  string
		clock func(m *approvaltest.Clock) time.Time
	}{
		{"with a monotonic clock", func(m *approvaltest.Clock) time.Time { return m.Now() }},
		{"without", func(m *approvaltest.Clock) time.Time { return wall(m.Now()) }},
	} {
		t.Run(cfg.name, func(t *testing.T) {
			m := &approvaltest.Clock{Begin: time.Now()}
			clock := func() time.Time { return cfg.clock(m) }
			var objects objecttest.Mem
			approvals := &approvaltest.Mem{Now: clock}
			put := func(key, data string) {
				t.Helper()
				if _, err := objects.Put(t.Context(), key, []byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			put(config.Key, `{"mcpServers": {"s": {"url": "https://s.example.com/mcp"}}}`)
			snap := snapshot(t, 0, approval.Decision{ID: revision("a", 0, 0).ID, Rev: 1, State: approval.Approved, ApprovedHash: "h", CurrentHash: "h"})
			if _, err := catalog.Save(t.Context(), &objects, snap, catalog.Current{StartedAt: clock().UTC()}, ""); err != nil {
				t.Fatal(err)
			}
			l := New(&objects, approvals, &Options{Now: clock})
			if !l.Load(t.Context()).Ready() {
				t.Fatal("not ready")
			}
			m.Wait(31 * time.Second)
			m.Wall -= time.Hour
			put(policy.Key, `@id("none") forbid (principal, action, resource);`)
			r := *snap.Tool(0).Approval
			r.Rev = 0 // the store has none yet
			next, e, err := approval.Disable(r, "ada", "", clock())
			if err == nil {
				_, err = approvals.Put(t.Context(), next, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := l.Load(t.Context())
			if s.Health.Policy.Version == "" {
				t.Error("the new policy is not read")
			}
			if l.read.feed.Decisions.Len() != 1 {
				t.Error("the decision is not read")
			}
		})
	}
}

// What is known of decisions ages although the clock is set back.
func TestDecisionsExpireAlthoughTheClockIsSetBack(t *testing.T) {
	m := &approvaltest.Clock{Begin: time.Now()}
	var h sources
	h.takeCatalog(snapshot(t, 0), m.Now()) // made long after now: it counts as made now
	h.feed.Err = errors.New("store is down")
	m.Wait(59 * time.Second)
	m.Wall -= time.Hour
	if h.expired(m.Now(), time.Minute) {
		t.Error("expired after 59 s")
	}
	m.Wait(2 * time.Second)
	if !h.expired(m.Now(), time.Minute) {
		t.Error("not expired after 61 s")
	}
}
