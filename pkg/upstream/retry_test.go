package upstream

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

func TestRetry(t *testing.T) {
	const ms = time.Millisecond
	ok, busy := outcome.Outcome{Status: outcome.Available}, outcome.Outcome{Status: transient}
	after := func(d time.Duration) outcome.Outcome { return outcome.Outcome{Status: transient, RetryAfter: d} }
	for _, tt := range []struct {
		name         string
		jitter, took time.Duration
		gone         time.Duration // when the caller gives up; 0: never
		ends         []outcome.Outcome
		want         []time.Duration // when each attempt began
	}{
		{"no wait before success", 0, 0, 0, []outcome.Outcome{ok}, []time.Duration{0}},
		{"permanent is not retried", 0, 0, 0, []outcome.Outcome{{Status: permanent}}, []time.Duration{0}},
		{"denied is not retried", 0, 0, 0, []outcome.Outcome{{Status: denied}}, []time.Duration{0}},
		{"aborted is not retried", 0, 0, 0, []outcome.Outcome{{Reason: outcome.ReasonAborted}}, []time.Duration{0}},
		{"three attempts", 0, 0, 0, []outcome.Outcome{busy}, []time.Duration{0, 250 * ms, 750 * ms}},
		{"with jitter", 100 * ms, 0, 0, []outcome.Outcome{busy}, []time.Duration{0, 350 * ms, 950 * ms}},
		{"capped", time.Minute, 0, 0, []outcome.Outcome{busy}, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
		{"healed", 0, 0, 0, []outcome.Outcome{busy, ok}, []time.Duration{0, 250 * ms}},
		{"turned permanent", 0, 0, 0, []outcome.Outcome{busy, {Status: permanent}}, []time.Duration{0, 250 * ms}},
		{"Retry-After is a minimum", 0, 0, 0, []outcome.Outcome{after(3 * time.Second), busy, ok}, []time.Duration{0, 3 * time.Second, 3500 * ms}},
		{"Retry-After shorter than the wait", 0, 0, 0, []outcome.Outcome{after(ms), ok}, []time.Duration{0, 250 * ms}},
		{"Retry-After longer than the time left", 0, 0, 0, []outcome.Outcome{after(time.Minute)}, []time.Duration{0}},
		{"two attempts of 5 s in 10 s", 0, 5 * time.Second, 0, []outcome.Outcome{busy}, []time.Duration{0, 5250 * ms}},
		{"the caller gives up", 0, 0, 100 * ms, []outcome.Outcome{busy}, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if tt.gone > 0 {
					time.AfterFunc(tt.gone, cancel)
				}
				c := New(&Options{Jitter: func(time.Duration) time.Duration { return tt.jitter }})
				var began []time.Duration
				start := time.Now()
				out, _ := c.newOperation(Target{}, true, session.Owner{}).retry(ctx, func(o outcome.Outcome) bool { return o.Status == transient }, func() (outcome.Outcome, error) {
					began = append(began, time.Since(start))
					time.Sleep(tt.took)
					return tt.ends[min(len(began), len(tt.ends))-1], nil
				})
				if !slices.Equal(began, tt.want) || out.Attempts != len(began) {
					t.Errorf("attempts at %v, outcome counts %d; want %v", began, out.Attempts, tt.want)
				}
				if want := tt.ends[min(len(began), len(tt.ends))-1]; out.Status != want.Status || out.Reason != want.Reason {
					t.Errorf("retry = %+v, want the last outcome %+v", out, want)
				}
				if tt.gone > 0 && time.Since(start) != tt.gone {
					t.Errorf("retry ended after %v, want %v", time.Since(start), tt.gone)
				}
			})
		})
	}
}
