package boot

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// Timeouts are the time limits of the platform between agents and the gateway. Each limit is
// shorter than the next one: an upstream call, the request around it, the function around that. So
// the innermost ends first, and gives the most precise answer.
type Timeouts struct {
	Call    time.Duration // of one upstream call: the maximum of a server's `timeout`
	Request time.Duration // of one request's work
	Streams bool          // written bytes reach the client before the answer is whole
	// a call can wait for its client's answer: one process runs between requests and gets all of
	// them
	Holds bool
}

const (
	// longCall is the longest upstream call if nothing around it ends earlier.
	longCall = config.MaxTimeout

	// peopleTime is how long a call may also wait for people: its own time stops meanwhile.
	peopleTime = 30 * time.Minute
)

// Buffered returns the limits of an API that sends whole answers. The API gives up after 30 s (a
// REST API after 29), and the function after 28.
func Buffered() Timeouts { return Timeouts{Call: 20 * time.Second, Request: 25 * time.Second} }

// Streamed returns the limits of a Function URL or a REST API that streams. These and the function
// end after 900 s, the maximum. The REST API also ends after five minutes without output, which
// comments prevent.
func Streamed() Timeouts { return Timeouts{Call: longCall, Request: 885 * time.Second, Streams: true} }

// Local returns the limits of a single process, such as `portcullis serve`.
func Local() Timeouts {
	return Timeouts{Call: longCall, Request: longCall + peopleTime, Streams: true, Holds: true}
}

// Timeouts returns the limits of the functions that have these settings.
func (s Settings) Timeouts() Timeouts {
	if s.Streaming {
		return Streamed()
	}
	return Buffered()
}
