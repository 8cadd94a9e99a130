package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

var errDown = errors.New("store is down")

func TestLoaderNothingStored(t *testing.T) {
	s := newFixture(t).States.Load(t.Context())
	if s.Ready() || s.Config != nil || s.Catalog != nil {
		t.Errorf("state is ready without a config: %+v", s.Health)
	}
	if s.Health.Config.Err == nil || s.Health.Catalog.Err == nil {
		t.Errorf("health does not say what is missing: %+v", s.Health)
	}
	v := s.View(anyone())
	if _, ok := v.Find(tool.ID{Server: "files", Name: "read"}); ok || v.Tools().Len()+v.Callable().Len()+v.ReadOnly().Len() != 0 || len(v.Servers()) != 0 {
		t.Error("an empty state has servers or tools")
	}
}

func TestLoaderTTL(t *testing.T) {
	h := withTools(t)
	h.Put(policy.Key, "")
	h.States.Load(t.Context())
	objects, feeds := h.reads()
	want := []string{config.Key, policy.Key, catalog.CurrentKey}
	for _, key := range want {
		if !slices.Contains(objects, key) {
			t.Errorf("the first load did not read %s", key)
		}
	}
	if len(objects) != 4 || feeds != 1 { // the three objects and the snapshot
		t.Errorf("the first load read %v and the feed %d times", objects, feeds)
	}
	for _, step := range []struct {
		wait    time.Duration
		objects int
		feeds   int
	}{
		{0, 0, 0},
		{1999 * time.Millisecond, 0, 0},
		{time.Millisecond, 0, 1},
		{time.Second, 0, 0},
		{time.Second, 0, 1},
		{25 * time.Second, 0, 1},
		{time.Second, 3, 0},
		{time.Second, 0, 1},
	} {
		h.Clock.Wait(step.wait)
		h.States.Load(t.Context())
		objects, feeds := h.reads()
		if len(objects) != step.objects || feeds != step.feeds {
			t.Errorf("%v later: read %v and the feed %d times, want %d objects, feed %d times", step.wait, objects, feeds, step.objects, step.feeds)
		}
	}
	h.States.Refresh(t.Context())
	if objects, feeds := h.reads(); len(objects) != 3 || feeds != 1 {
		t.Errorf("Refresh read %v and the feed %d times, want all", objects, feeds)
	}
}

func TestLoaderCatalogChanged(t *testing.T) {
	h := newFixture(t)
	h.Serve("files", "read")
	h.Configure(nil)
	isClosed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first := h.States.CatalogChanged()
	h.Sync()
	second := h.States.CatalogChanged()
	if !isClosed(first) || isClosed(second) {
		t.Error("the first catalog is not reported once")
	}
	h.Sync()
	h.Put(policy.Key, "")
	h.States.Refresh(t.Context())
	if isClosed(second) {
		t.Error("the same catalog is reported again")
	}
	h.Serve("files", "read", "write")
	h.Sync()
	if !isClosed(second) || isClosed(h.States.CatalogChanged()) {
		t.Error("another catalog is not reported once")
	}
}

func TestLoaderUnreadPart(t *testing.T) {
	for _, tt := range []struct {
		key  string
		part func(state.Health) state.Part
	}{
		{config.Key, func(h state.Health) state.Part { return h.Config }},
		{policy.Key, func(h state.Health) state.Part { return h.Policy }},
		{catalog.CurrentKey, func(h state.Health) state.Part { return h.Catalog }},
	} {
		t.Run(tt.key, func(t *testing.T) {
			h := withTools(t)
			before := h.States.Load(t.Context())
			h.fail(tt.key, errDown)
			h.Clock.Wait(30 * time.Second)
			s := h.States.Load(t.Context())
			if p := tt.part(s.Health); !p.Stale || !errors.Is(p.Err, errDown) || !p.ReadAt.Equal(h.Clock.Now().Add(-30*time.Second)) {
				t.Errorf("the unread part is not flagged: %+v", p)
			}
			if s.Config != before.Config || s.Catalog != before.Catalog || s.Policy != before.Policy {
				t.Error("the last value is gone")
			}
			h.expect("statuses", atStart)
			h.reads()
			h.Clock.Wait(5 * time.Second)
			h.fail(tt.key, nil)
			if p := tt.part(h.States.Load(t.Context()).Health); p.Stale || p.Err != nil {
				t.Errorf("5 s after the store came back: %+v", p)
			}
		})
	}
}

// A process that starts with a broken file uses the last good version.
func TestLoaderLastGoodPolicy(t *testing.T) {
	const good = `@id("no-writes") forbid (principal, action, resource == Tool::"files:write");`
	h := withTools(t)
	h.Put(policy.Key, brokenPolicy)
	h.Put(catalog.PolicyFile.LastGood, good)
	h.fail(catalog.PolicyFile.LastGood, errDown)
	if got := h.statuses()["files:read"]; got != lock.DisabledUnknown {
		t.Errorf("status of files:read with an unreadable policy = %q, want unknown", got)
	}
	h.fail(catalog.PolicyFile.LastGood, nil)
	h.Clock.Wait(5 * time.Second)
	want := map[string]lock.Status{"files:read": lock.None, "files:write": lock.DisabledByConfig, "mail:send": lock.PendingApproval}
	h.expect("statuses", want)
	if p := h.States.Load(t.Context()).Health.Policy; !p.Stale || p.Err == nil || p.Version != object.Version([]byte(good)) {
		t.Errorf("the policy is not flagged: %+v", p)
	}
}

func TestLoaderApprovalHold(t *testing.T) {
	h := withTools(t)
	h.configure("files", "mail", `spare ,"enabled":false`, `free ,"approval":"off"`)
	h.publish(listing{"files": {"read": "Read a file.", "write": "Write a file."}, "mail": {"send": "Send a mail."}, "spare": {"x": "X."}, "free": {"y": "Y."}})
	want := map[string]lock.Status{
		"files:read": lock.None, "files:write": lock.None, "mail:send": lock.PendingApproval,
		"spare:x": lock.ServerDisabled, "free:y": lock.None,
	}
	if diff := cmp.Diff(want, h.statuses()); diff != "" {
		t.Fatal(diff)
	}
	h.fail("approvals", errDown)
	h.Clock.Wait(60 * time.Second)
	h.expect("after 60 s", want)
	if health := h.States.Load(t.Context()).Health; !health.Approvals.Stale || health.Expired {
		t.Errorf("after 60 s: %+v", health)
	}
	h.Clock.Wait(time.Millisecond)
	for id, status := range want {
		if status != lock.ServerDisabled {
			want[id] = lock.DisabledUnknown
		}
	}
	h.expect("after more than 60 s", want)
	if !h.States.Load(t.Context()).Health.Expired {
		t.Error("health does not say that approvals expired")
	}
	h.fail("approvals", nil)
	h.Clock.Wait(5 * time.Second)
	if got := h.statuses()["files:read"]; got != lock.None {
		t.Errorf("after the store came back files:read is %q", got)
	}
}

func TestLoaderColdWithoutApprovals(t *testing.T) {
	h := withTools(t)
	h.fail("approvals", errDown)
	h.Clock.Wait(59 * time.Second)
	if got := h.statuses()["files:read"]; got != lock.None {
		t.Errorf("a catalog of 59 s: %q, want callable", got)
	}
	h.Clock.Wait(2 * time.Second)
	if got := h.statuses()["files:read"]; got != lock.DisabledUnknown {
		t.Errorf("a catalog of 61 s: %q, want unknown", got)
	}
}

func TestLoaderManyCallers(t *testing.T) {
	h := withTools(t)
	h.Put(policy.Key, "")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { h.States.Load(t.Context()) })
	}
	wg.Wait()
	if objects, feeds := h.reads(); len(objects) != 4 || feeds != 1 {
		t.Errorf("20 callers read %v and the feed %d times", objects, feeds)
	}
}

// If a caller goes away during a refresh, the next caller continues the refresh.
func TestLoaderCanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.configure("files")
		h.Objects.OnGet = untilCanceled
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s := h.States.Load(ctx); s == nil || s.Health.Config.Err != nil {
			t.Errorf("the end of a caller counts as a failure of the store: %+v", s)
		}
		h.Objects.OnGet = nil
		if s := h.States.Load(t.Context()); s.Config == nil {
			t.Errorf("the next caller did not read: %+v", s.Health)
		}
	})
}

// untilCanceled is the hook of a store that hangs.
func untilCanceled(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A hanging store costs a request two seconds.
func TestLoaderHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.Clock.Set(time.Time{}, 0)
		h.configure("files")
		h.publish(nil)
		if !h.States.Load(t.Context()).Ready() {
			t.Fatal("not ready")
		}
		h.Objects.OnGet = untilCanceled
		for _, step := range []struct{ wait, takes time.Duration }{
			{29 * time.Second, 0}, {2 * time.Second, 2 * time.Second}, {2 * time.Second, 0}, {3 * time.Second, 2 * time.Second},
		} {
			time.Sleep(step.wait)
			before := time.Now()
			s := h.States.Load(t.Context())
			if took := time.Since(before); took != step.takes || !s.Ready() {
				t.Errorf("took %v, want %v; ready %v", took, step.takes, s.Ready())
			}
		}
	})
}

// A clock that was set back an hour delays no read of new data, and known decisions still expire.
func TestLoaderClockSetBack(t *testing.T) {
	for name, monotonic := range map[string]bool{"with a monotonic clock": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			m := &approvaltest.Clock{Begin: time.Now()}
			h := newFixture(t)
			h.Clock.Set(time.Time{}, 0)
			h.Clock.Real = func() time.Time {
				if monotonic {
					return m.Now()
				}
				return m.Now().Round(0)
			}
			h.configure("files")
			h.observe("files:read", "Read a file.", true)
			h.publish(listing{"files": {"read": "Read a file."}})
			h.statuses()
			m.Wait(31 * time.Second)
			m.Wall -= time.Hour
			h.Put(policy.Key, `@id("x") forbid (principal == Agent::"nobody", action, resource);`)
			h.Decide("files:read", "disable")
			if got := h.statuses()["files:read"]; got != lock.DisabledByUser {
				t.Errorf("the decision is not read: %q", got)
			}
			if h.States.Load(t.Context()).Health.Policy.Version == "" {
				t.Error("the new policy is not read")
			}
			if !monotonic {
				return // nothing shows how long ago the last read was
			}
			h.fail("approvals", errDown)
			for _, step := range []struct {
				wait    time.Duration
				expired bool
			}{{59 * time.Second, false}, {2 * time.Second, true}} {
				m.Wait(step.wait)
				m.Wall -= time.Hour
				if got := h.States.Refresh(t.Context()).Health.Expired; got != step.expired {
					t.Errorf("%v later: expired %v", step.wait, got)
				}
			}
		})
	}
}

func ExampleLoader() {
	var objects objecttest.Mem
	ctx := context.Background()
	_, _ = objects.Put(ctx, config.Key, []byte(`{"mcpServers": {"files": {"url": "https://files.example.com/mcp"}}}`), "")
	s := state.New(&objects, &approvaltest.Mem{}, nil).Load(ctx)
	fmt.Println(s.Config != nil, s.Ready(), s.Health.Catalog.Stale)
	// Output: true false true
}
