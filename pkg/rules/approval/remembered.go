package approval

import (
	"strings"
	"time"
	"unicode/utf8"
)

// MaxBlocks is how many definitions of an item can be blocked.
const MaxBlocks = 50

// maxRemembered is how many approved and how many blocked hashes a record remembers,
// maxRememberedBy how many bytes of the name of who decided, and maxBlockNote how many of the note
// of a block, as JSON has them: a record has to fit into an item of DynamoDB.
const (
	maxRemembered   = MaxBlocks
	maxRememberedBy = 100
	maxBlockNote    = 200
)

// remember records that by approved the current definition. A baseline is not recorded when it is
// taken, which spares most records a list; it is recorded now that another definition replaces it.
func (r *Record) remember(by string, at time.Time) {
	if len(r.ApprovedBefore) == 0 && r.ApprovedHash != "" {
		first := Remembered{Hash: r.ApprovedHash}
		if r.By == Sync { // else somebody disabled or enabled it since
			first.By, first.At = Sync, r.At
		}
		r.ApprovedBefore = []Remembered{first}
	}
	all := []Remembered{{Hash: r.CurrentHash, By: beginning(by, maxRememberedBy), At: at}}
	for _, m := range r.ApprovedBefore {
		if m.Hash != r.CurrentHash && len(all) < maxRemembered {
			all = append(all, m)
		}
	}
	r.ApprovedBefore = all
}

// beginning returns as much of s as takes at most n bytes in JSON.
func beginning(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	for len(escaped(s)) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// Earlier returns the approval that the current definition was given once, if it waits now all the
// same: another definition was approved since, or no approval counts.
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

// isPersons reports whether a person decided so, and it is known who.
func (m Remembered) isPersons() bool { return m.By != "" && m.By != Sync }

// Endorsement returns what a person approved last. In a record of an earlier program, which does not
// say so, it is found among what was approved before.
func (r Record) Endorsement() Remembered {
	if r.Endorsed.Hash == "" && len(r.ApprovedBefore) > 0 && r.ApprovedBefore[0].Hash == r.ApprovedHash && r.ApprovedBefore[0].isPersons() {
		return r.ApprovedBefore[0]
	}
	return r.Endorsed
}

// approveAgain approves the current definition, as m says that a person once did.
func (r *Record) approveAgain(m Remembered, now time.Time) {
	r.ApprovedHash, r.Approved, r.Endorsed, r.Proposed = r.CurrentHash, r.Current, m, nil
	r.By, r.At, r.Note, r.Tell = Sync, stamp(now), "", false
	r.State = r.derive()
}
