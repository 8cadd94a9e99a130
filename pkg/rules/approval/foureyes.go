package approval

import (
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// ApproveFourEyes is [Approve] for a definition that needs two people. The first approval is only
// stored, in [Record.Proposed]. The approval of a second person approves the definition.
// ApproveFourEyes distinguishes people by their subjects at the issuer. It returns [ErrNoSubject]
// if author has none, and [ErrSamePerson] if the first person approves again.
func ApproveFourEyes(
	r Record, hash tool.Hash, author Author, now time.Time,
) (Record, Entry, error) {
	p := r.Proposed
	switch {
	case author.Subject == "":
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), ErrNoSubject)
	case hash == "" || hash != r.CurrentHash:
		return Record{}, Entry{}, fmt.Errorf("approve %q at %q: %w", r.ID(), hash, ErrStale)
	case tool.CheckDepth(r.Current) != nil:
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), tool.ErrNested)
	case p != nil && p.Hash == hash && p.Subject == author.Subject:
		return Record{}, Entry{}, fmt.Errorf("approve %q: %w", r.ID(), ErrSamePerson)
	case p != nil && p.Hash == hash:
		next, e, err := approve(r, hash, author, true, now)
		if err == nil && p.By == author.Actor { // the line alone would look like one person's two approvals
			e.Note = truncate(strings.TrimSuffix("a different person with the name of the proposer: "+e.Note, ": "), MaxNote)
		}
		return next, e, err
	}
	next := r
	next.Proposed = &Proposal{
		Hash: hash, By: truncate(author.Actor, maxRememberedBy), Subject: author.Subject, At: stamp(now), Note: truncate(author.Note, maxBlockNote),
	}
	return decide(r, next, ActionPropose, author, now)
}

// WithoutApproval returns next, the result of a settlement of r, without any approval that r
// lacks. A definition that waits for this reason does not count as approved earlier either.
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

// isProposalAlone reports whether an older program treated the first of two approvals as a full
// approval. A program with the four-eyes rule clears Proposed when it approves.
func (r *Record) isProposalAlone() bool {
	if r.Proposed == nil || r.Proposed.Hash != r.ApprovedHash || len(r.ApprovedBefore) == 0 {
		return false
	}
	last := r.ApprovedBefore[0]
	return last.Hash == r.ApprovedHash && !last.Two && last.At.After(r.Proposed.At)
}
