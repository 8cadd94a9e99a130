package state_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// hangs selects the calls of the stores that get no answer.
type hangs struct{ get, changes, stops, objects bool }

// hang makes these calls wait until their callers give up. After a call of the returned function,
// new calls get an answer, but calls that began earlier never get one.
func (h *fixture) hang(what hangs) (answer func()) {
	var answering atomic.Bool
	wait := func(ctx context.Context, hangs bool) error {
		if answering.Load() || !hangs {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	h.Approvals.OnGet = func(ctx context.Context, _ tool.ID) error { return wait(ctx, what.get) }
	h.Approvals.OnChanges = func(ctx context.Context, _ time.Time) error { return wait(ctx, what.changes) }
	h.Approvals.OnDocs = func(ctx context.Context, _ []document.Key) error { return wait(ctx, what.stops) }
	h.Objects.OnGet = func(ctx context.Context, _ string) error { return wait(ctx, what.objects) }
	return func() { answering.Store(true) }
}

// unlockTime is how long a tool may stay locked after a store answers again.
const unlockTime = 5 * time.Second

// If stores hang, tools become locked only when the last data is too old. At most five seconds
// after the stores answer again, the tools are callable again.
func TestLoaderHangingStores(t *testing.T) {
	all := hangs{true, true, true, true}
	for name, what := range map[string]hangs{
		"records":            {get: true},
		"decisions":          {changes: true},
		"stops":              {stops: true},
		"approvals":          {get: true, changes: true, stops: true},
		"objects":            {objects: true},
		"objects, approvals": all,
	} {
		for _, late := range []bool{false, true} { // an outdated read does not see the record
			for _, cold := range []bool{false, true} {
				for _, lasts := range []time.Duration{time.Second, 31 * time.Second, 3 * time.Minute} {
					t.Run(fmt.Sprintf("%s hang %v, late %t, cold %t", name, lasts, late, cold), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { hangFor(t, what, late, cold, lasts) })
					})
				}
			}
		}
	}
}

// hangFor makes stores hang once, for the time lasts. If cold is set, the loader has read nothing
// before. If late is set, outdated reads do not see the records.
func hangFor(t *testing.T, what hangs, late, cold bool, lasts time.Duration) {
	h := withTools(t)
	if late {
		h.Approvals.Late = &approvaltest.Mem{}
	}
	l := state.New(h.Objects, h.Approvals, &state.Options{Now: time.Now})
	h.States = l
	for began := time.Now(); !cold && time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		h.wantOpen(t, began, "before the fault")
	}
	answer := h.hang(what)
	began := time.Now()
	over := time.AfterFunc(lasts, answer)
	defer over.Stop()
	for time.Since(began) < lasts+2*time.Minute {
		now := time.Now()
		s := l.Load(t.Context())
		switch {
		case now.Sub(began) >= lasts+unlockTime:
			h.wantOpen(t, began, "after the fault")
		case !cold && lasts < time.Minute && s.Health.Lost:
			t.Fatalf("%v after the fault began the store counts as lost", now.Sub(began))
		case !cold && lasts < 50*time.Second:
			h.wantOpen(t, began, "while the last data is valid")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// wantOpen checks that a search finds callable tools as callable.
func (h *fixture) wantOpen(t *testing.T, began time.Time, when string) {
	t.Helper()
	if got := h.statuses()["files:read"]; got != lock.None {
		t.Fatalf("%s, at %v: files:read is %q", when, time.Since(began), got)
	}
}
