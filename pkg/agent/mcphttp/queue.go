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

// Bounds on what a call tells its client, whatever its server sends.
const (
	maxEvent    = 64 << 10 // bytes of a notification
	maxWaiting  = 1 << 20  // bytes of notifications that wait for the client to read
	maxQuestion = 1 << 20  // bytes of a request to the client

	progressBurst, progressRate = 32, 20   // events at once, and a second: what is beyond is told by the next
	logBurst, logRate           = 200, 100 // log messages: what is beyond is left out
)

// A queue holds what a client is to be told, in order. Of progress it holds the newest.
type queue struct {
	token json.RawMessage // of the progress that is asked for; nil: none is
	level mcp.LogLevel    // the least of the log messages that are asked for

	events   []event
	bytes    int
	told     float64 // the progress that was told last
	progress bucket
	logs     bucket
	dropped  int // log messages that were left out
}

// An event is one message to a client.
type event struct {
	message  []byte
	progress bool // a newer one takes its place
}

// add takes a notification, and reports whether there is something to write.
func (q *queue) add(method string, params rawjson.Object) bool {
	switch method {
	case mcp.NotificationProgress:
		return q.addProgress(params)
	case mcp.NotificationMessage:
		return q.addLog(params)
	case mcp.NotificationElicited:
		return q.room(params) && q.put(notification(method, params))
	}
	return false // not a matter of one request
}

// addProgress takes progress that is more than what was told before, as the protocol wants it.
func (q *queue) addProgress(params rawjson.Object) bool {
	progress, err := strconv.ParseFloat(string(params.Get("progress")), 64)
	if q.token == nil || err != nil || q.progress.used && progress <= q.told || size(params) > maxEvent {
		return false
	}
	if !q.progress.used {
		q.progress = bucket{left: progressBurst, burst: progressBurst, rate: progressRate, used: true}
	}
	q.told = progress
	params = slices.DeleteFunc(slices.Clone(params), func(m rawjson.Member) bool { return m.Name == "progressToken" })
	params = slices.Insert(params, 0, rawjson.Member{Name: "progressToken", Value: q.token})
	e := event{message: notification(mcp.NotificationProgress, params), progress: true}
	for i, old := range q.events {
		if old.progress {
			q.bytes += len(e.message) - len(old.message)
			q.events[i] = e
			return true
		}
	}
	q.bytes += len(e.message)
	q.events = append(q.events, e)
	return true
}

// addLog takes a log message that the client wants.
func (q *queue) addLog(params rawjson.Object) bool {
	level := mcp.ParseLogLevel(rawjson.Text(params.Get("level")))
	if level == 0 || q.level == 0 || level < q.level {
		return false
	}
	if !q.logs.used {
		q.logs = bucket{left: logBurst, burst: logBurst, rate: logRate, used: true}
	}
	if !q.room(params) || !q.logs.take(time.Now()) {
		q.dropped++
		return true
	}
	return q.put(notification(mcp.NotificationMessage, params))
}

// room reports whether a notification may wait.
func (q *queue) room(params rawjson.Object) bool {
	n := size(params)
	return n <= maxEvent && q.bytes+n <= maxWaiting
}

// size returns about how long params are.
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

// next takes what is to be written now; nil: nothing for the time of wait. Before the last event,
// nothing waits for its time, and the client is told what was left out.
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

// A bucket bounds a rate: burst events at once, and rate a second.
type bucket struct {
	left        float64
	burst, rate float64
	at          time.Time // when left was so much
	used        bool      // it has been filled
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

// wait returns how long it takes until take succeeds again.
func (b *bucket) wait() time.Duration {
	return time.Duration((1-b.left)/b.rate*float64(time.Second)) + time.Millisecond
}
