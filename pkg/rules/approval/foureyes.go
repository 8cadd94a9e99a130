package approval

import (
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// ApproveFourEyes is [Approve] of a definition that takes two people: the approval of the first is
// kept in [Record.Proposed] and opens nothing, that of another one counts. People are told apart by
// their subjects at the issuer. It returns [ErrNoSubject] if said has none, and [ErrSamePerson] if
// the first one approves again.
func ApproveFourEyes(r Record, hash tool.Hash, said Said, now time.Time) (Record, Entry, error) {
	p := r.Proposed
	switch {
	case said.Subject == "":
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), ErrNoSubject)
	case hash == "" || hash != r.CurrentHash:
		return Record{}, Entry{}, fmt.Errorf("approve %q at %q: %w", r.ID(), hash, ErrStale)
	case tool.CheckDepth(r.Current) != nil:
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), tool.ErrNested)
	case p != nil && p.Hash == hash && p.Subject == said.Subject:
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), ErrSamePerson)
	case p != nil && p.Hash == hash:
		next, e, err := approve(r, hash, said, true, now)
		if err == nil && p.By == said.Actor { // which the line alone would not tell from one person's two
			e.Note = beginning(strings.TrimSuffix("another person of this name than the one who proposed it: "+e.Note, ": "), MaxNote)
		}
		return next, e, err
	}
	next := r
	next.Proposed = &Proposal{
		Hash: hash, By: beginning(said.Actor, maxRememberedBy), Subject: said.Subject, At: stamp(now), Note: beginning(said.Note, maxBlockNote),
	}
	return decide(r, next, ActionPropose, said, now)
}

// WithoutApproval returns next, what a settlement made of r, with no approval that r does not have.
// What waits by that is not taken for approved earlier either.
func WithoutApproval(r, next Record) Record {
	if next.ApprovedHash != r.ApprovedHash {
		next.ApprovedBefore = without(next.ApprovedBefore, next.ApprovedHash)
		next.ApprovedHash, next.Approved = "", nil
	}
	if next.Endorsed.Hash != r.Endorsed.Hash {
		next.Endorsed = Remembered{}
	}
	next.State = next.derive()
	return next
}

// isProposalAlone reports whether a program that knows nothing of two people made an approval out of
// what is only the first one's: of those that know, each clears Proposed when it approves.
func (r *Record) isProposalAlone() bool {
	if r.Proposed == nil || r.Proposed.Hash != r.ApprovedHash || len(r.ApprovedBefore) == 0 {
		return false
	}
	last := r.ApprovedBefore[0]
	return last.Hash == r.ApprovedHash && !last.Two && last.At.After(r.Proposed.At)
}
