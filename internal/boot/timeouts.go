package boot

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// Timeouts is what stands between agents and the gateway, as far as it bounds time. Each limit lies
// inside the next one: an upstream call, the request around it, the function around that. So the
// innermost ends first, and gives the most precise answer.
type Timeouts struct {
	Call    time.Duration // of one upstream call: the most that a server's `timeout` may say
	Request time.Duration // of one request's work
	Streams bool          // what is written reaches the client before the answer is whole
	Holds   bool          // a call can wait for its client's answer: the process goes on between requests, and has them all
}

const (
	// longCall is the most that an upstream call may take where nothing around it ends earlier.
	longCall = config.MaxTimeout

	// answers is how long a call may wait for people beside: its own time stands still meanwhile.
	answers = 30 * time.Minute
)

// Buffered is an API that sends whole answers, which gives up after 30 s (a REST API, 29); the function
// around the request, after 28.
func Buffered() Timeouts { return Timeouts{Call: 20 * time.Second, Request: 25 * time.Second} }

// Streamed is a Function URL or a REST API that streams. Either and the function end after 900 s, the
// most there is; the REST API also after five minutes in which nothing is written, which comments prevent.
func Streamed() Timeouts { return Timeouts{Call: longCall, Request: 885 * time.Second, Streams: true} }

// Local is a process of one's own, such as `portcullis serve`.
func Local() Timeouts {
	return Timeouts{Call: longCall, Request: longCall + answers, Streams: true, Holds: true}
}

// Timeouts returns what stands before the functions that have these settings.
func (s Settings) Timeouts() Timeouts {
	if s.Streaming {
		return Streamed()
	}
	return Buffered()
}
