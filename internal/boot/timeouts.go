package boot

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// Timeouts are the time limits of the platform between agents and the gateway. An upstream call has
// a shorter limit than its request, and the request has a shorter limit than the function. So the
// call ends first, and its error is the most precise.
type Timeouts struct {
	Call    time.Duration // of one upstream call: the maximum of a server's `timeout`
	Request time.Duration // of one request's work
	Streams bool          // written bytes reach the client before the answer is complete
	// Holds: a call can wait for its client's answer, because this process gets all requests and
	// keeps running between them
	Holds bool
}

const (
	// longCall is the limit of an upstream call if no limit around it is shorter.
	longCall = config.MaxTimeout

	// peopleTime is how long a call may wait for people in addition to its own limit.
	peopleTime = 30 * time.Minute
)

// Buffered returns the limits of an API that sends whole answers. The API gives up after 30 s (a
// REST API after 29), and the function after 28.
func Buffered() Timeouts { return Timeouts{Call: 20 * time.Second, Request: 25 * time.Second} }

// Streamed returns the limits of a Function URL or a REST API that streams. The Function URL, the
// REST API and the function end after 900 s, the maximum. The REST API also ends after five minutes
// without output. Comments in the stream prevent this.
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
