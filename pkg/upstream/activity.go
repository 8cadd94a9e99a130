package upstream

import (
	"cmp"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// activityHours is how many hours of activity a client keeps.
const activityHours = 24

// An Activity says what a client did at one server in the last 24 hours.
type Activity struct {
	Since              time.Time // start of the counts: the client may have started later
	Loads, FailedLoads int
	Calls, FailedCalls int         // calls that were refused before this client do not count
	P95                float64     // duration of calls, milliseconds; 0: there were none
	FailedHours        []time.Time // starts of the hours with a failed load, oldest first
	LastError          string      // of a load or a call; "": none since the client started
	LastErrorAt        time.Time
}

// activities has the counts of each server. Its zero value is usable.
type activities struct {
	mu    sync.Mutex
	began time.Time
	of    map[string]*serverHours
}

// serverHours are the counts of a server. The hour that begins at t is at index t/1h % 24.
type serverHours struct {
	hours       [activityHours]activityHour
	lastError   string
	lastErrorAt time.Time
}

type activityHour struct {
	start                                  time.Time
	loads, failedLoads, calls, failedCalls int
	took                                   *usage.Histogram // of calls; nil: none
}

// count adds the outcome of a load or a call that ended.
func (a *activities) count(isLoad bool, o outcome.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of[o.ServerID]
	if s == nil {
		if a.of == nil {
			a.of = map[string]*serverHours{}
		}
		if len(a.of) >= maxTalkers { // servers come and go with the config
			for other := range a.of {
				delete(a.of, other)
				break
			}
		}
		s = &serverHours{}
		a.of[o.ServerID] = s
	}
	start := o.CheckedAt.UTC().Truncate(time.Hour)
	h := &s.hours[hourIndex(start)]
	if !h.start.Equal(start) {
		*h = activityHour{start: start}
	}
	failed := 0
	if o.Status != outcome.Available {
		failed = 1
		s.lastError, s.lastErrorAt = cmp.Or(o.Error, o.Reason), o.CheckedAt.UTC()
	}
	if isLoad {
		h.loads, h.failedLoads = h.loads+1, h.failedLoads+failed
		return
	}
	h.calls, h.failedCalls = h.calls+1, h.failedCalls+failed
	if h.took == nil {
		h.took = new(usage.Histogram)
	}
	h.took.Observe(float64(o.Duration) / float64(time.Millisecond))
}

func hourIndex(start time.Time) int { return int(start.Unix() / 3600 % activityHours) }

// Activity returns what the client did at a server in the last 24 hours, by whole hours.
func (c *Client) Activity(server string) Activity {
	a := &c.activities
	from := c.o.Now().UTC().Truncate(time.Hour).Add(-(activityHours - 1) * time.Hour)
	out := Activity{Since: from}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.After(from) {
		out.Since = a.began
	}
	s := a.of[server]
	if s == nil {
		return out
	}
	var took usage.Histogram
	for n := range activityHours {
		h := s.hours[hourIndex(from.Add(time.Duration(n)*time.Hour))]
		if h.start.Before(from) {
			continue
		}
		out.Loads, out.FailedLoads = out.Loads+h.loads, out.FailedLoads+h.failedLoads
		out.Calls, out.FailedCalls = out.Calls+h.calls, out.FailedCalls+h.failedCalls
		if h.failedLoads > 0 {
			out.FailedHours = append(out.FailedHours, h.start)
		}
		if h.took != nil {
			took.Add(h.took)
		}
	}
	out.P95, out.LastError, out.LastErrorAt = took.Percentile(.95), s.lastError, s.lastErrorAt
	return out
}
