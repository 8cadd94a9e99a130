package upstream

import (
	"net/http"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestCallTime(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		front, timeout, deadline time.Duration
		want                     time.Duration
		text                     string
	}{
		{"no settings", 0, 0, 0, 20 * time.Second, "No answer after 20 s."},
		{"a longer maximum, no setting of the server", 10 * time.Minute, 0, 0, 20 * time.Second, "No answer after 20 s."},
		{"a short setting", 0, 3 * time.Second, 0, 3 * time.Second, "No answer after 3 s."},
		{"a long setting", 10 * time.Minute, 90 * time.Second, 0, 90 * time.Second, "No answer after 90 s."},
		{"longer than the maximum", 0, 10 * time.Minute, 0, 20 * time.Second, "No answer after 20 s."},
		{"limited by the maximum", 10 * time.Minute, time.Hour, 0, 10 * time.Minute, "No answer after 600 s."},
		{"longer than the caller's deadline", 10 * time.Minute, time.Minute, 30500 * time.Millisecond, 30 * time.Second, "No answer after 30 s."},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			f := newFixture(t, Options{CallTime: tt.front}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
			f.servers[0].FailOn("tools/call", -1, upstreamtest.Hang())
			f.targets[0].Timeout = tt.timeout
			start := time.Now()
			_, err := f.Call(within(t, tt.deadline), f.targets[0], Call{Name: "x"})
			if took := time.Since(start); took != tt.want || callError(t, err).Message("s") != tt.text+" "+unknown {
				t.Errorf("Call = %q after %v, want %q after %v", callError(t, err).Message("s"), took, tt.text, tt.want)
			}
			if got := len(f.servers[0].Received("notifications/cancelled")); got != 1 {
				t.Errorf("the server got %d cancellations, want 1", got)
			}
		})
	}
}

// If a server's Retry-After is long, a call fails at once, even if the call may take minutes.
func TestCallDoesNotWaitForLong(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f := newFixture(t, Options{CallTime: 10 * time.Minute}, upstreamtest.Options{})
		f.servers[0].FailOn("tools/call", -1, upstreamtest.Status(http.StatusTooManyRequests, "", "Retry-After", "60"))
		f.targets[0].Timeout = 10 * time.Minute
		start := time.Now()
		if e := f.fails(Call{Name: "x"}); e.RetryAfter() != 60 || time.Since(start) != 0 {
			t.Errorf("Call = %v after %v", e, time.Since(start))
		}
	})
}

func TestHandshakeAlone(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{Tools: tools(1)})
	f.works()
	f.targets[0].Handshake = true
	f.available()
	f.works()
	f.received("server/discover tools/call initialize notifications/initialized tools/list tools/call")
}
