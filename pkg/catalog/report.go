package catalog

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Report says what one sync found and did. With an error it says how far the sync came.
type Report struct {
	StartedAt time.Time
	Duration  time.Duration
	Config    string         // version of the config that was used; "": none could be read
	ConfigErr error          // why the file in the store is not in use: [config.Faults], [object.ErrGone] or what failed; nil: it is
	PolicyErr error          // the same of the policy
	Servers   []ServerReport // by name
	Totals
	Recovered int  // records that the store had lost, and that are back
	Unasked   int  // servers that there was no time to ask, or to hear out
	Resting   int  // servers that were not asked, as they have not changed for long
	Size      int  // bytes of the catalog
	Built     bool // it was built: something has changed, or this process had not built it yet
}

// Totals are the public numbers of a [Report].
type Totals struct {
	Tools        int    `json:"tools"`
	New          int    `json:"new" doc:"tools that no record knew"`
	Changed      int    `json:"changed" doc:"tools whose definition is not the one last seen"`
	Snapshot     string `json:"snapshot" doc:"SHA-256 of the catalog"`
	Stored       bool   `json:"stored" doc:"the catalog's object was written"`
	Items        int    `json:"items,omitempty" doc:"prompts and resources; the other numbers of them are new_items and changed_items"`
	NewItems     int    `json:"new_items,omitempty"`
	ChangedItems int    `json:"changed_items,omitempty"`
	Superseded   bool   `json:"superseded" doc:"a sync that began later finished first; its catalog stays"`
}

// A ServerReport is one server's part of a [Report].
type ServerReport struct {
	Name     string
	Enabled  bool
	Required bool
	Outcome  outcome.Outcome // without Tools; the zero Outcome: never tried
	Before   outcome.Status  // how its load before this one ended; "": it was never tried
	Unasked  bool            // there was no time to ask it, or to hear it out; Outcome is of an earlier sync
	Resting  bool            // it was not asked, as it has not changed for long; Outcome is of an earlier sync
	News     []News          // what this sync recorded of it first; news of other syncs is in their reports
	ServerTotals
}

// News is an item that a sync recorded: new, or with another definition than before.
type News struct {
	ID  tool.ID
	New bool
	Rev int64 // of its record
}

// ServerTotals are the public numbers of a [ServerReport].
type ServerTotals struct {
	Tools   int  `json:"tools"` // in the new catalog
	Kept    bool `json:"kept" doc:"not loaded now: they are its last known definitions"`
	New     int  `json:"new"`
	Changed int  `json:"changed"`
	Gone    int  `json:"gone"` // listed before, and not now

	// The same of prompts and resources.
	Items        int `json:"items,omitempty" doc:"prompts and resources; the other numbers of them are new_items, changed_items and gone_items"`
	NewItems     int `json:"new_items,omitempty"`
	ChangedItems int `json:"changed_items,omitempty"`
	GoneItems    int `json:"gone_items,omitempty"`
}

// Missing returns the required servers that did not load.
func (r Report) Missing() (out []ServerReport) {
	for _, s := range r.Servers {
		if s.Required && s.Enabled && s.Kept {
			out = append(out, s)
		}
	}
	return out
}
