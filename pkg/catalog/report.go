package catalog

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// A Report says what one sync found and did. Beside an error it says how far
// the sync came.
type Report struct {
	StartedAt  time.Time
	Duration   time.Duration
	Config     string         // version of the config that was used; "": none could be read
	ConfigErr  error          // why the file in the store is not in use: [config.Faults], [object.ErrGone] or what failed; nil: it is
	PolicyErr  error          // the same of the policy
	Servers    []ServerReport // by name
	Tools      int            // in the new catalog
	New        int            // tools that no record knew
	Changed    int            // tools whose definition is not the one last seen
	Recovered  int            // records that the store had lost, and that are back
	Unasked    int            // servers that there was no time to ask, or to hear out
	Snapshot   string         // SHA-256 of the catalog
	Size       int            // its bytes
	Built      bool           // it was built: something has changed, or this process had not built it yet
	Stored     bool           // its object was written: it differs from the one before, or that was old
	Superseded bool           // a sync that began later finished first; its catalog stays
}

// A ServerReport is one server's part of a [Report].
type ServerReport struct {
	Name     string
	Enabled  bool
	Required bool
	Outcome  outcome.Outcome // without Tools; the zero Outcome: never tried
	Tools    int             // in the new catalog
	Kept     bool            // not loaded in this sync: they are its last known definitions
	Unasked  bool            // there was no time to ask it, or to hear it out; Outcome is of an earlier sync
	New      int
	Changed  int
	Gone     int // listed before, and not now
}
