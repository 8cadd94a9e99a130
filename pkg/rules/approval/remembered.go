package approval

import (
	"strings"
	"time"
	"unicode/utf8"
)

// MaxBlocks is how many definitions of an item can be blocked.
const MaxBlocks = 50

// Limits of a record, which has to fit into an item of DynamoDB: the number of approved and of
// blocked hashes, and the bytes in JSON of an actor's name and of a block's note.
const (
	maxRemembered   = MaxBlocks
	maxRememberedBy = 100
	maxBlockNote    = 200
)

// remember adds the approval of the current definition, by the named person, to
// [Record.ApprovedBefore]. It adds a baseline only when another definition replaces the approved
// one, so most records need no list.
func (r *Record) remember(by string, at time.Time) {
	if len(r.ApprovedBefore) == 0 && r.ApprovedHash != "" {
		first := Remembered{Hash: r.ApprovedHash}
		if r.By == Sync { // otherwise a person has since disabled or enabled the tool
			first.By, first.At = Sync, r.At
		}
		r.ApprovedBefore = []Remembered{first}
	}
	all := []Remembered{{Hash: r.CurrentHash, By: truncate(by, maxRememberedBy), At: at}}
	for _, m := range r.ApprovedBefore {
		if m.Hash != r.CurrentHash && len(all) < maxRemembered {
			all = append(all, m)
		}
	}
	r.ApprovedBefore = all
}

// truncate returns the longest prefix of s that takes at most n bytes in JSON.
func truncate(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	for len(escaped(s)) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// Earlier returns the earlier approval of the current definition, if the definition waits again:
// another definition was approved since, or no approval counts.
func (r Record) Earlier() (Remembered, bool) {
	if _, blocked := r.block(r.CurrentHash); blocked || r.CurrentHash == r.ApprovedHash {
		return Remembered{}, false
	}
	for _, m := range r.ApprovedBefore {
		if m.Hash == r.CurrentHash {
			return m, true
		}
	}
	return Remembered{}, false
}

// isPersons reports whether a known person made the decision.
func (m Remembered) isPersons() bool { return m.By != "" && m.By != Sync }

// Endorsement returns the last approval by a person. The record of an earlier program lacks
// the field Endorsed, so Endorsement looks at the newest of its earlier approvals.
func (r Record) Endorsement() Remembered {
	if r.Endorsed.Hash == "" && len(r.ApprovedBefore) > 0 && r.ApprovedBefore[0].Hash == r.ApprovedHash && r.ApprovedBefore[0].isPersons() {
		return r.ApprovedBefore[0]
	}
	return r.Endorsed
}

// approveAgain repeats the approval m for the current definition.
func (r *Record) approveAgain(m Remembered, now time.Time) {
	r.ApprovedHash, r.Approved, r.Endorsed, r.Proposed = r.CurrentHash, r.Current, m, nil
	r.By, r.At, r.Note, r.Tell = Sync, stamp(now), "", false
	r.State = r.derive()
}
