package approval

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxLostNote is how many bytes of a note a [Version] keeps.
const maxLostNote = 400

// A Loss marks a record that the store lost, or of which it had an older version. It stays until a
// person chooses a version. Until then the record is the stricter of the two versions.
type Loss struct {
	At      time.Time `json:"at"`              // when the gateway found the loss
	Catalog Version   `json:"catalog"`         // the version in the catalog
	Store   *Version  `json:"store,omitempty"` // the version in the store; nil: it had no record

	// Unknown says that the catalog was unusable, too, so that no program knows the decision. Then
	// Catalog locks the item in every approval mode, and Store is empty.
	Unknown bool `json:"unknown,omitempty"`
}

// newUnknown returns the [Loss] of an item without any known decision. disabled says that only this
// Loss locks the item.
func newUnknown(disabled bool, now time.Time) *Loss {
	return &Loss{At: now, Catalog: Version{Disabled: disabled}, Store: &Version{}, Unknown: true}
}

// A Version is the decision in the catalog or in the store.
type Version struct {
	Disabled     bool      `json:"disabled"`
	ApprovedHash tool.Hash `json:"approved_hash"`
	By           string    `json:"by"`
	At           time.Time `json:"at,omitzero"`
	Note         string    `json:"note,omitempty"`
	Rev          int64     `json:"rev"`
	Written      time.Time `json:"written,omitzero"` // when this version was stored; zero: written by an earlier program

	Endorsed Remembered `json:"endorsed,omitzero"`
}

func (r Record) version() Version {
	return Version{r.Disabled, r.ApprovedHash, r.By, r.At, truncate(r.Note, maxLostNote), r.Rev, r.UpdatedAt, r.Endorsement()}
}

// IsLost reports whether the store lost the record or was set back to an older version. known is
// the record as the store once returned it. stored is the record that the store has now; nil: none.
// Revisions only grow, and no two writes of one revision have the same time. If known has no time,
// only revisions are compared.
func IsLost(stored, known *Record) bool {
	switch {
	case known == nil:
		return false
	case stored == nil:
		return true
	case stored.Rev == known.Rev:
		return !known.UpdatedAt.IsZero() && !stored.UpdatedAt.Equal(known.UpdatedAt)
	}
	return stored.Rev < known.Rev
}

// Recover returns the record to use after [IsLost], and its audit line. The record is the stricter
// of the two, or known if the store has none, with the blocks of both. It replaces stored at a
// revision higher than both.
func Recover(stored, known *Record, now time.Time) (Record, Entry) {
	r := *known
	r.Blocked, r.Undo, r.Proposed = r.blocks(), nil, nil
	r.Loss = &Loss{At: stamp(now), Catalog: known.version()}
	r.Rev, r.LostRev = 0, known.Rev
	note := "the store had no record"
	if stored != nil {
		store, before := stored.version(), stored.ApprovedBefore
		if r.URL != "" && stored.URL != "" && !SameServer(r.URL, stored.URL) { // it was the record of another server
			store.ApprovedHash, store.Endorsed, before = "", Remembered{}, nil
		}
		r = stricter(r, *stored)
		if store.ApprovedHash == "" {
			r.ApprovedHash, r.Approved = "", nil
		}
		if store.Endorsed.Hash != r.Loss.Catalog.Endorsed.Hash {
			r.Endorsed = Remembered{}
		}
		r.Loss.Store = &store
		r.Rev = stored.Rev
		r.ApprovedBefore, r.Unknown, r.Format = before, stored.Unknown, stored.Format
		if stored.DecidedAt.After(r.DecidedAt) {
			r.DecidedAt = stored.DecidedAt
		}
		note = "the store had an older record; the stricter version applies"
	}
	r.withdrawBlocked()
	r.State = r.derive()
	return r, *r.entry(ActionRecover, Author{Actor: Sync, Note: note}, now)
}

// KeepRestored settles a recovered record with the catalog's decision.
func KeepRestored(r Record, actor string, now time.Time) (Record, Entry, error) {
	next, e, _, err := KeepReplayed(r, nil, actor, now)
	return next, e, err
}

// storeTime is longer than storing a decision takes. The audit line of a decision has the time of
// the write, which is later than [Record.DecidedAt].
const storeTime = time.Minute

// KeepReplayed is [KeepRestored] with the decisions after the catalog was made, as [Replay]
// applies them. If the record was not recovered, KeepReplayed replays the decisions that are newer
// than the record's own: the store lost them, and a sync may have written the record since.
func KeepReplayed(r Record, past []Past, actor string, now time.Time) (Record, Entry, Replayed, error) {
	known := r.UpdatedAt
	if decided := r.DecidedAt.Add(storeTime); decided.Before(known) {
		known = decided
	}
	if l := r.Loss; l != nil {
		if known = l.Catalog.Written; known.IsZero() {
			known = l.Catalog.At
		}
		r.take(l.Catalog)
	}
	re := Replay(r, known, past)
	next, e, err := record(re.Record, ActionKeepRestored, Author{Actor: actor, Note: re.note()}, now)
	return next, e, re, err
}

// AcceptStore settles a recovered record with the store's decision. If the store had no record,
// the tool waits, and stays disabled if it was.
func AcceptStore(r Record, actor string, now time.Time) (Record, Entry, error) {
	switch {
	case r.Loss != nil && r.Loss.Store != nil:
		r.take(*r.Loss.Store)
	case r.Loss != nil:
		r.take(Version{Disabled: r.Disabled})
	}
	return record(r, ActionAcceptStore, Author{Actor: actor}, now)
}

// take replaces the decision of r by v. Blocks stay. A definition that waits in v does not count as
// approved earlier: a person has to approve it.
func (r *Record) take(v Version) {
	r.Disabled, r.Endorsed, r.Proposed = v.Disabled, v.Endorsed, nil
	if v.ApprovedHash != r.CurrentHash {
		r.ApprovedBefore = without(r.ApprovedBefore, r.CurrentHash)
	}
	switch v.ApprovedHash {
	case r.ApprovedHash:
	case r.CurrentHash:
		r.Approved = r.Current
	default: // the definition is lost: a changed tool is shown without it
		r.Approved = nil
	}
	r.ApprovedHash = v.ApprovedHash
	r.withdrawBlocked()
}
