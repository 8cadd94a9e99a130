package state_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// callStatuses returns the status that a call of each tool would use now. A call reads the record
// from the store.
func (h *fixture) callStatuses() map[string]lock.Status {
	h.T.Helper()
	v := h.States.Load(h.T.Context()).View(anyone())
	out := map[string]lock.Status{}
	for i := range v.Tools().All() {
		var stored *approval.Record
		if r, err := h.Approvals.Get(h.T.Context(), v.ID(i)); err == nil {
			stored = &r
		}
		out[v.ID(i).String()] = lock.Classify(v.FactsAt(i, stored))
	}
	return out
}

// Before a sync has restored a store's lost records, a call uses the stricter of store and catalog.
// A search shows no tool as callable that either of them locks.
func TestLoaderLostStore(t *testing.T) {
	for _, test := range []struct {
		name string
		then func(h *fixture, yesterday *approvaltest.Mem) // the store in h.Approvals is today's
		want map[string]lock.Status                        // of a call
	}{
		{"nothing was lost", func(*fixture, *approvaltest.Mem) {}, map[string]lock.Status{
			"files:read": lock.None, "files:write": lock.DisabledByUser, "mail:send": lock.None,
		}},
		{"emptied: the catalog applies", func(h *fixture, _ *approvaltest.Mem) { h.Approvals = &approvaltest.Mem{Now: h.Clock.Now} }, map[string]lock.Status{
			"files:read": lock.None, "files:write": lock.DisabledByUser, "mail:send": lock.None,
		}},
		{"restored from a backup: the stricter record applies", func(h *fixture, yesterday *approvaltest.Mem) { h.Approvals = yesterday }, map[string]lock.Status{
			"files:read": lock.DisabledByUser, "files:write": lock.DisabledByUser, "mail:send": lock.PendingApproval,
		}},
		{"restored, then decided again until the revisions are equal", func(h *fixture, yesterday *approvaltest.Mem) {
			h.Approvals = yesterday
			h.Decide("files:write", "disable")
			h.Decide("files:write", "enable")
			h.Decide("mail:send", "disable")
		}, map[string]lock.Status{
			"files:read": lock.DisabledByUser, "files:write": lock.None, "mail:send": lock.DisabledByUser,
		}},
		{"restored, then decided again at the same revision", func(h *fixture, yesterday *approvaltest.Mem) {
			h.Approvals = yesterday
			h.Decide("files:write", "enable") // the lost disabling had this revision
		}, map[string]lock.Status{
			"files:read": lock.DisabledByUser, "files:write": lock.DisabledByUser, "mail:send": lock.PendingApproval,
		}},
	} {
		for _, warm := range []bool{false, true} {
			t.Run(test.name+map[bool]string{true: ", warm", false: ""}[warm], func(t *testing.T) {
				h := withTools(t)
				h.Decide("files:read", "disable")
				yesterday := h.Approvals.Copy()
				h.Clock.Wait(time.Minute)
				h.Decide("files:read", "enable")
				h.Decide("files:write", "disable")
				h.Decide("mail:send", "approve")
				h.Clock.Wait(time.Minute)
				h.publish(listing{"files": {"read": "Read a file.", "write": "Write a file."}, "mail": {"send": "Send a mail."}})
				h.Clock.Wait(time.Minute)
				today := h.Approvals
				swapped := &swap{today}
				h.States = state.New(h.Objects, swapped, &state.Options{Now: h.Clock.Now})
				if warm {
					h.statuses()
				}
				test.then(h, yesterday)
				swapped.Approvals = h.Approvals
				h.Clock.Wait(time.Minute)

				same(t, "calls", test.want, h.callStatuses())
				lost := h.Approvals != today
				for id, s := range h.statuses() {
					if s == lock.None && test.want[id] != lock.None || lost && s != lock.DisabledUnknown {
						t.Errorf("a search shows %s as %q, a call is %q", id, s, test.want[id])
					}
				}
				health := h.States.Load(t.Context()).Health
				if health.Lost != lost {
					t.Errorf("health says lost %v", health.Lost)
				}
			})
		}
	}
}

// A swap is a store that a test replaces.
type swap struct{ state.Approvals }
