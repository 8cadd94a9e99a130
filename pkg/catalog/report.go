package catalog

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Report says what one sync found and did. With an error, it covers what the sync did before the
// error.
type Report struct {
	StartedAt time.Time
	Duration  time.Duration
	Config    string // version of the config that was used; "": none could be read

	// ConfigErr is why the stored config is not in use: [config.Faults], [object.ErrGone], or the
	// error of another failure. nil: it is in use. PolicyErr is the same for the policy.
	ConfigErr, PolicyErr error

	Servers []ServerReport // by name
	Totals
	Recovered int  // records that the store had lost and the sync restored
	Unasked   int  // servers without time for a request or for the answer
	Resting   int  // servers that the sync skipped: unchanged for long, or not named
	Size      int  // bytes of the catalog
	Built     bool // the sync built it: something has changed, or this process had not built it yet
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
	Before   outcome.Status  // status of the load before this one; "": never tried
	Unasked  bool            // no time for a request or its answer; Outcome is of an earlier sync
	Resting  bool            // skipped, see [Report]; Outcome is of an earlier sync
	News     []News          // items that this sync recorded; other syncs report their own
	ServerTotals
}

// News is an item that a sync recorded because the item is new or its definition has changed.
type News struct {
	ID  tool.ID
	New bool
	Rev int64 // of its record

	// Tier and Findings are of the item in the new catalog, if IsRated is set. Otherwise the catalog
	// does not have the item yet, as after the load of a worker.
	IsRated  bool
	Tier     tool.Tier
	Findings int
}

// ServerTotals are the public numbers of a [ServerReport].
type ServerTotals struct {
	Tools   int  `json:"tools"` // in the new catalog
	Kept    bool `json:"kept" doc:"not loaded now: they are its last known definitions"`
	New     int  `json:"new"`
	Changed int  `json:"changed"`
	Gone    int  `json:"gone"` // listed before, but not now

	// The same for prompts and resources.
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
