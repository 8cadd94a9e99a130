// Package upstream is the gateway's MCP client: it loads the tools of upstream
// servers and calls them.
//
// It moves raw JSON. Typed clients round integers beyond 2^53, drop fields
// they do not know and fail on new kinds of content; a gateway must pass all of that on.
//
// Every way in which a server can fail ends in one [Outcome]. Type, status
// code and headers decide it, never text that somebody else wrote: see [Classify].
package upstream

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Status says how the last attempt to load a server's tools ended. The zero
// Status is no outcome at all: the caller gave up first, and nothing is to be
// recorded.
type Status string

// The four outcomes.
const (
	Available Status = "available"
	Transient Status = "transient" // starting up or briefly gone: it will be retried
	Permanent Status = "permanent" // broken until somebody mends it
	Denied    Status = "denied"    // we may not: retrying will not help
)

// An Outcome is how a load or a call of one server ended. It is stored in the catalog without Tools.
type Outcome struct {
	ServerID   string            `json:"server"`
	Status     Status            `json:"status"`
	Tools      []tool.Definition `json:"-"`
	Refused    []Refusal         `json:"refused,omitempty"` // tools of an available server that were not taken, 100 at most
	Error      string            `json:"error,omitempty"`   // for the log and the admin API: redacted, never for an agent
	Attempts   int               `json:"attempts"`          // 0 for a config fault: nothing was sent
	Reason     string            `json:"reason,omitempty"`  // stable code, one of [Reasons]
	HTTPStatus int               `json:"http_status,omitempty"`
	RetryAfter time.Duration     `json:"retry_after,omitempty"`
	Duration   time.Duration     `json:"duration"`
	CheckedAt  time.Time         `json:"checked_at"`
	Memory     Memory            `json:"memory,omitzero"` // for the next [Target], in whichever process
}

// Recorded says whether o is news of the server. An aborted load or call is
// not: the caller went away, and the server's last outcome stands.
func (o Outcome) Recorded() bool { return o.Status != "" }

// Stale says whether o has outlived the [TTL] of its status at now, so that
// the server is worth asking again.
func (o Outcome) Stale(now time.Time) bool { return now.Sub(o.CheckedAt) >= TTL(o.Status) }

// TTL returns how long an outcome is remembered. It keeps the promise of
// [Message]: a transient failure is tried again by the next sync or call.
func TTL(s Status) time.Duration {
	switch s {
	case Available:
		return 5 * time.Minute
	case Transient:
		return 5 * time.Second
	case Permanent:
		return time.Minute
	case Denied:
		return 30 * time.Second
	}
	return 0
}

// A Refusal is a listed tool that the gateway does not take, and why.
type Refusal struct {
	Name   string `json:"name"` // quoted and cut to 128 bytes
	Reason string `json:"reason"`
}

// A Result sorts the outcomes of one run by what they ask for.
type Result struct {
	Outcomes                     map[string]Outcome // every server's, the available ones too
	Transient, Permanent, Denied []string           // server ids, in the order of the outcomes
	Tools                        int                // how many definitions all the servers listed
}

// Collect sorts outcomes by status. Aborted ones are left out.
func Collect(outcomes []Outcome) Result {
	r := Result{Outcomes: make(map[string]Outcome, len(outcomes))}
	for _, o := range outcomes {
		if !o.Recorded() {
			continue
		}
		r.Outcomes[o.ServerID] = o
		r.Tools += len(o.Tools)
		switch o.Status {
		case Transient:
			r.Transient = append(r.Transient, o.ServerID)
		case Permanent:
			r.Permanent = append(r.Permanent, o.ServerID)
		case Denied:
			r.Denied = append(r.Denied, o.ServerID)
		}
	}
	return r
}
