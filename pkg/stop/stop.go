// Package stop is the emergency stop: everything, one server or one agent is stopped at once, by an
// item in the store that calls read each time, or by the config. The union of both counts.
//
// What is stopped is found as before and cannot be called.
package stop

import (
	"context"
	"errors"
	"time"
)

// ErrConflict says that another writer came first; the caller reads again.
var ErrConflict = errors.New("stops changed since read")

// A Stop stops everything, a server, or an agent: one of the three is set.
type Stop struct {
	All    bool      `json:"all,omitempty"`
	Server string    `json:"server,omitempty"`
	Agent  string    `json:"agent,omitempty"`
	Reason string    `json:"reason"`       // agents are told it
	By     string    `json:"by,omitempty"` // who did it; "": the config
	At     time.Time `json:"at,omitzero"`
}

// Stops are what is stopped. The zero Stops stop nothing.
type Stops struct {
	List []Stop `json:"list"`
	Rev  int64  `json:"rev"` // 0: not stored yet
}

// A Store keeps the stops of people for all instances of the gateway. Every implementation passes
// stoptest.Run. It is safe for concurrent use.
type Store interface {
	// Stops returns them as of every PutStops that returned before it began; none is no error.
	Stops(ctx context.Context) (Stops, error)

	// PutStops stores s if the stored revision is still s.Rev (0: must not exist yet) and
	// returns it at its new Rev, or [ErrConflict] if another writer came first.
	PutStops(ctx context.Context, s Stops) (Stops, error)
}
