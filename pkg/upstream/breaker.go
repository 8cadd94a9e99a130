package upstream

import (
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	breakAfter = 5                // consecutive failures
	breakFor   = 30 * time.Second // time without calls after these failures
)

// A breaker refuses calls to a server that keeps failing, so that callers do not wait for it. Its
// zero value allows calls.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time // the breaker refuses calls before this time
	probing  bool      // one call tests whether the server has recovered
}

// admit reports whether a call may be made now. If not, it returns how long to wait.
func (b *breaker) admit(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures < breakAfter:
		return 0, true
	case now.Before(b.until):
		return b.until.Sub(now), false
	case b.probing:
		return time.Second, false
	}
	b.probing = true
	return 0, true
}

// report counts how a call ended. Only transient failures of the server count. A limit of the
// server or of this process does not count, because the server works. A denial or an abort says
// nothing about the server.
func (b *breaker) report(now time.Time, out outcome.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	switch {
	case out.Status == outcome.Available:
		b.failures = 0
	case out.Reason == outcome.ReasonRateLimited, out.Reason == outcome.ReasonNoProcess,
		out.Reason == outcome.ReasonDescriptors:
	case out.Status == outcome.Transient:
		if b.failures++; b.failures >= breakAfter {
			b.until = now.Add(breakFor)
		}
	}
}
