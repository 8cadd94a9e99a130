package state_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// ahead starts a Prefetch, and makes the fixture's loader continue from it.
func (h *fixture) ahead() *state.Prefetch {
	a := state.StartPrefetch(h.T.Context(), h.Objects, &state.Options{Now: h.Clock.Now})
	h.States = state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now, Prefetch: a})
	return a
}

// The loader does not read prefetched objects again. Decisions that people make during the prefetch
// count.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withTools(t)
		h.reads()
		if !h.ahead().Ready() {
			t.Error("the prefetched objects are not sufficient")
		}
		if objects, feeds := h.reads(); len(objects) == 0 || feeds > 0 {
			t.Errorf("the prefetch read %q, and the decisions %d times", objects, feeds)
		}
		h.Decide("mail:send", "approve")
		h.Decide("files:write", "disable")
		want := map[string]lock.Status{
			"files:read":  lock.None,
			"files:write": lock.DisabledByUser,
			"mail:send":   lock.None,
		}
		h.expect("statuses", want)
		if objects, feeds := h.reads(); len(objects) > 0 || feeds != 1 {
			t.Errorf("the loader read %q, and the decisions %d times", objects, feeds)
		}
		h.Clock.Wait(30 * time.Second)
		h.configure("files")
		h.expect(
			"after another config",
			map[string]lock.Status{"files:read": lock.None, "files:write": lock.DisabledByUser},
		)
	})
}

// The loader reads an object again if its prefetch failed.
func TestReadAheadTooEarly(t *testing.T) {
	for name, missing := range map[string]string{"no config": "config/mcp_config.json", "no catalog": "catalog/current-2.json", "no policy": "config/policy.cedar"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := withTools(t)
				h.fail(missing, context.DeadlineExceeded)
				if h.ahead().Ready() {
					t.Error("the prefetched objects are sufficient")
				}
				h.fail(missing, nil)
				h.expect("statuses", atStart)
			})
		})
	}
}

// A request waits for a running prefetch within its own time limit. The next request has the
// result.
func TestReadAheadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withTools(t)
		h.slowly(5 * time.Second)
		h.ahead()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if s := h.States.Load(ctx); s.Ready() || time.Since(began) != time.Second {
			t.Errorf(
				"a request of 1 s is answered after %v, ready: %t",
				time.Since(began),
				s.Ready(),
			)
		}
		if diff := cmp.Diff(atStart, h.statuses()); diff != "" ||
			time.Since(began) != 5*time.Second {
			t.Errorf("the next request, after %v: %s", time.Since(began), diff)
		}
	})
}
