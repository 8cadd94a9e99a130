package mcphttp

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Limits for the messages of one call to its client. They are the same for all servers.
const (
	maxEvent    = 64 << 10 // bytes of a notification
	maxWaiting  = 1 << 20  // bytes of notifications that wait for the client to read
	maxQuestion = 1 << 20  // bytes of a request to the client

	progressBurst, progressRate = 32, 20   // events; a newer event replaces a surplus one
	logBurst, logRate           = 200, 100 // log messages; a surplus message is dropped
)

// A queue holds the messages of one call for its client, in order. If more progress events wait than
// the limit allows to send at once, a newer one replaces the last of them.
type queue struct {
	token json.RawMessage // of the requested progress; nil: none
	level mcp.LogLevel    // the lowest log level that the client requested; 0: no log messages

	events       []event
	bytes        int
	lastProgress float64 // the last reported progress
	progress     bucket
	logs         bucket
	dropped      int // log messages that were dropped
}

// An event is one message to a client.
type event struct {
	message  []byte
	progress bool // a newer progress event replaces it
}

// add adds a notification, and reports whether there is something to write.
func (q *queue) add(method string, params rawjson.Object) bool {
	switch method {
	case mcp.NotificationProgress:
		return q.addProgress(params)
	case mcp.NotificationMessage:
		return q.addLog(params)
	case mcp.NotificationElicited:
		return q.hasRoom(params) && q.put(notification(method, params))
	}
	return false // the notification belongs to no single request
}

// addProgress adds progress if it exceeds the last progress, as the protocol requires.
func (q *queue) addProgress(params rawjson.Object) bool {
	progress, err := strconv.ParseFloat(string(params.Get("progress")), 64)
	if q.token == nil || err != nil || q.progress.used && progress <= q.lastProgress || size(params) > maxEvent {
		return false
	}
	if !q.progress.used {
		q.progress = bucket{left: progressBurst, burst: progressBurst, rate: progressRate, used: true}
	}
	q.lastProgress = progress
	params = slices.DeleteFunc(slices.Clone(params), func(m rawjson.Member) bool { return m.Name == "progressToken" })
	params = slices.Insert(params, 0, rawjson.Member{Name: "progressToken", Value: q.token})
	e := event{message: notification(mcp.NotificationProgress, params), progress: true}
	last, waiting := 0, 0
	for i, old := range q.events {
		if old.progress {
			last, waiting = i, waiting+1
		}
	}
	if waiting > 0 && (float64(waiting+1) > q.progress.left || q.bytes+len(e.message) > maxWaiting) {
		q.bytes += len(e.message) - len(q.events[last].message)
		q.events[last] = e
		return true
	}
	q.bytes += len(e.message)
	q.events = append(q.events, e)
	return true
}

// addLog adds a log message if the client wants its level.
func (q *queue) addLog(params rawjson.Object) bool {
	level := mcp.ParseLogLevel(rawjson.Text(params.Get("level")))
	if level == 0 || q.level == 0 || level < q.level {
		return false
	}
	if !q.logs.used {
		q.logs = bucket{left: logBurst, burst: logBurst, rate: logRate, used: true}
	}
	if !q.hasRoom(params) || !q.logs.take(time.Now()) {
		q.dropped++
		return true
	}
	return q.put(notification(mcp.NotificationMessage, params))
}

// hasRoom reports whether the limits allow one more notification, with these params.
func (q *queue) hasRoom(params rawjson.Object) bool {
	n := size(params)
	return n <= maxEvent && q.bytes+n <= maxWaiting
}

// size returns the approximate length of params.
func size(params rawjson.Object) (n int) {
	for _, m := range params {
		n += len(m.Name) + len(m.Value) + len(`"":,`)
	}
	return n
}

// put adds a message.
func (q *queue) put(message []byte) bool {
	q.bytes += len(message)
	q.events = append(q.events, event{message: message})
	return true
}

// next removes and returns the next message. If no message may be sent now, it returns nil and the
// time until a message may be sent. If last is set, the call has ended: next then returns each
// message without a wait, and at the end a message with the number of dropped log messages.
func (q *queue) next(now time.Time, last bool) (message []byte, wait time.Duration) {
	wait = math.MaxInt64
	for i, e := range q.events {
		if e.progress && !last && !q.progress.take(now) {
			wait = q.progress.wait()
			continue
		}
		q.bytes -= len(e.message)
		q.events = slices.Delete(q.events, i, i+1)
		return e.message, 0
	}
	if last && q.dropped > 0 {
		message = notification(mcp.NotificationMessage, rawjson.Object{
			{Name: "level", Value: rawjson.Quote(max(q.level, mcp.ParseLogLevel("warning")).String())},
			{Name: "logger", Value: json.RawMessage(`"portcullis"`)},
			{Name: "data", Value: rawjson.Quote("Left out: " + text.Count(q.dropped, "log message") + " of this call, too long or too many at once to be passed on.")},
		})
		q.dropped = 0
	}
	return message, wait
}

// A bucket allows burst events at once, and after that rate events per second.
type bucket struct {
	left        float64
	burst, rate float64
	at          time.Time // time of the value of left
	used        bool      // it was filled once
}

func (b *bucket) take(now time.Time) bool {
	if !b.at.IsZero() {
		b.left = min(b.burst, b.left+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// wait returns the time until the next take succeeds.
func (b *bucket) wait() time.Duration {
	return time.Duration((1-b.left)/b.rate*float64(time.Second)) + time.Millisecond
}
