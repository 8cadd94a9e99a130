package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// times runs the retry loop on a fake clock against attempts that take a time each and end as
// given, and returns when each attempt began.
func times(ctx context.Context, t *testing.T, jitter, took time.Duration, verdicts ...Verdict) (began []time.Duration, last Verdict) {
	t.Helper()
	c := New(&Options{Jitter: func(time.Duration) time.Duration { return jitter }})
	start := time.Now()
	last, n := c.retry(ctx, func(v Verdict) bool { return v.Status == outcome.Transient }, func() Verdict {
		began = append(began, time.Since(start))
		time.Sleep(took)
		return verdicts[min(len(began), len(verdicts))-1]
	})
	if n != len(began) {
		t.Errorf("retry counts %d attempts, %d were made", n, len(began))
	}
	return began, last
}

func TestRetryWaitsDoubleWithJitter(t *testing.T) {
	transient := Verdict{Status: outcome.Transient}
	for _, tt := range []struct {
		name     string
		jitter   time.Duration
		verdicts []Verdict
		want     []time.Duration
	}{
		{"no wait before success", 0, []Verdict{{Status: outcome.Available}}, []time.Duration{0}},
		{"permanent is not tried again", 0, []Verdict{{Status: outcome.Permanent}}, []time.Duration{0}},
		{"denied is not tried again", 0, []Verdict{{Status: outcome.Denied}}, []time.Duration{0}},
		{"aborted is not tried again", 0, []Verdict{{Reason: outcome.ReasonAborted}}, []time.Duration{0}},
		{"three attempts", 0, []Verdict{transient}, []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond}},
		{"with jitter", 100 * time.Millisecond, []Verdict{transient}, []time.Duration{0, 350 * time.Millisecond, 950 * time.Millisecond}},
		{"capped", time.Minute, []Verdict{transient}, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
		{"healed", 0, []Verdict{transient, {Status: outcome.Available}}, []time.Duration{0, 250 * time.Millisecond}},
		{"turned permanent", 0, []Verdict{transient, {Status: outcome.Permanent}}, []time.Duration{0, 250 * time.Millisecond}},
		{"Retry-After is a floor", 0, []Verdict{{Status: outcome.Transient, RetryAfter: 3 * time.Second}, transient, {Status: outcome.Available}},
			[]time.Duration{0, 3 * time.Second, 3500 * time.Millisecond}},
		{"Retry-After shorter than the wait", 0, []Verdict{{Status: outcome.Transient, RetryAfter: time.Millisecond}, {Status: outcome.Available}},
			[]time.Duration{0, 250 * time.Millisecond}},
		{"Retry-After that does not fit", 0, []Verdict{{Status: outcome.Transient, RetryAfter: time.Minute}}, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				got, last := times(ctx, t, tt.jitter, 0, tt.verdicts...)
				if len(got) != len(tt.want) {
					t.Fatalf("attempts at %v, want %v", got, tt.want)
				}
				for i := range got {
					if got[i] != tt.want[i] {
						t.Errorf("attempt %d at %v, want %v", i+1, got[i], tt.want[i])
					}
				}
				if want := tt.verdicts[min(len(got), len(tt.verdicts))-1]; last != want {
					t.Errorf("verdict = %+v, want the last one's: %+v", last, want)
				}
			})
		})
	}
}

func TestRetryLeavesTheBudgetAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, _ := times(ctx, t, 0, 5*time.Second, Verdict{Status: outcome.Transient})
		if len(got) != 2 {
			t.Errorf("attempts of 5 s at %v, want 2 in 10 s", got)
		}
	})
}

func TestRetryStopsWhenTheCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		got, _ := times(ctx, t, 0, 0, Verdict{Status: outcome.Transient})
		if len(got) != 1 || time.Since(start) != 100*time.Millisecond {
			t.Errorf("attempts at %v over %v, want one, and the end at 100ms", got, time.Since(start))
		}
	})
}

func TestDefaultJitterStaysBelowItsLimit(t *testing.T) {
	c := New(nil)
	for range 1000 {
		if d := c.o.Jitter(50 * time.Millisecond); d < 0 || d >= 50*time.Millisecond {
			t.Fatalf("jitter = %v, want it in [0, 50ms)", d)
		}
	}
}
