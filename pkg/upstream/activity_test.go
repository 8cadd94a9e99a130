package upstream

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// Loads and calls of the last 24 hours count, and older ones do not.
func TestActivity(t *testing.T) {
	began := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	now := began
	c := newClient(t, Options{Now: func() time.Time { return now }})
	count := func(isLoad bool, status outcome.Status, took time.Duration) {
		c.activities.count(isLoad, outcome.Outcome{
			ServerID: "s", Status: status, Reason: "timeout", CheckedAt: now, Duration: took,
		})
	}
	count(true, outcome.Transient, time.Second)
	count(false, outcome.Available, 100*time.Millisecond)
	if got := c.Activity("other"); !cmp.Equal(got, Activity{Since: began}) {
		t.Errorf("another server: %+v", got)
	}
	now = began.Add(23 * time.Hour)
	count(true, outcome.Available, time.Second)
	count(false, outcome.Denied, 400*time.Millisecond)
	got := c.Activity("s")
	p95 := got.P95
	got.P95 = 0
	want := Activity{
		Since: began, Loads: 2, FailedLoads: 1, Calls: 2, FailedCalls: 1,
		FailedHours: []time.Time{began.Truncate(time.Hour)}, LastError: "timeout", LastErrorAt: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if math.Abs(p95-400) > 400*usage.LatencyError {
		t.Errorf("P95 = %v, want 400", p95)
	}
	now = began.Add(24 * time.Hour)
	got = c.Activity("s")
	if got.Loads != 1 || got.FailedLoads != 0 || got.Calls != 1 || len(got.FailedHours) != 0 ||
		!got.Since.Equal(now.Truncate(time.Hour).Add(-23*time.Hour)) {
		t.Errorf("an hour later: %+v", got)
	}
	now = began.Add(47 * time.Hour) // the hour with the same index on the next day
	count(true, outcome.Available, time.Second)
	if got = c.Activity("s"); got.Loads != 1 || got.Calls != 0 {
		t.Errorf("on the next day: %+v", got)
	}
}

// A client counts its own loads and calls. Its errors and messages have the beginning of the body
// of an error.
func TestActivityOfClient(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{})
	f.Load(t.Context(), f.targets[0])
	f.servers[0].FailOn("tools/call", 1, upstreamtest.Status(500, "the disk is full"))
	for range 2 {
		_, _ = f.Call(t.Context(), f.targets[0], Call{Name: "ping"})
	}
	a := f.Activity(f.targets[0].ID)
	if a.Loads != 1 || a.FailedLoads != 0 || a.Calls != 2 || a.FailedCalls != 1 {
		t.Errorf("%+v", a)
	}
	const cause = `http status 500, body "the disk is full"`
	messages := f.Messages(f.targets[0].ID, 0)
	if a.LastError != cause || len(messages) != 1 || messages[0].Text != "call: "+cause {
		t.Errorf("the last error is %q, the messages %+v", a.LastError, messages)
	}
}
