// Package notifytest provides events and a clock for tests.
package notifytest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Start is the time at which the tests' clock begins.
var Start = time.Date(2026, 11, 22, 9, 30, 0, 123456000, time.UTC)

// A Clock is the clock of an outbox.
type Clock struct{ ns atomic.Int64 }

// Now returns the time.
func (c *Clock) Now() time.Time { return Start.Add(time.Duration(c.ns.Load())) }

// Pass advances the clock.
func (c *Clock) Pass(d time.Duration) { c.ns.Add(int64(d)) }

// Sample returns the nth event.
func Sample(n int) notify.Event {
	return notify.Event{ID: fmt.Sprintf("event-%d", n), Kind: notify.RequestMade, At: Start, Server: "git", Items: []tool.ID{{Server: "git", Name: "git_push"}}, Agent: "ci", Request: "R-7KQ2M4XD", Path: "/admin/requests/R-7KQ2M4XD"}
}
