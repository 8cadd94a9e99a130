package approval

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Past is a decision about an item, read from an audit line, for [Replay].
type Past struct {
	Action string
	Hash   tool.Hash // "": the line has no readable hash
	By     string
	Note   string
	At     time.Time // when the store wrote it

	// Stretch numbers the unbroken parts of the audit: no line between two lines of one stretch is
	// missing, damaged or foreign.
	Stretch int

	// Sure says that the program wrote the line, as far as the audit can tell.
	Sure bool
}

// A Replayed is the result of [Replay].
type Replayed struct {
	Record  Record
	Changed bool   // the record differs from before
	Closing []Past // these decisions locked something, and Replay applies them again
	Opening []Past // these unlocked something, and Replay leaves them to a person
}

// maxReplayed is the longest note about replayed decisions, in bytes.
const maxReplayed = 1 << 10

// note names the decisions that were replayed.
func (re Replayed) note() string {
	if len(re.Closing) == 0 {
		return ""
	}
	all := make([]string, len(re.Closing))
	for i, p := range re.Closing {
		all[i] = p.Action + " by " + p.By + " at " + p.At.UTC().Format(time.RFC3339)
	}
	return truncate("applies again by the audit: "+strings.Join(all, ", "), maxReplayed)
}

// Replay returns r with the locks that people set after known, the time when r was written. past
// has the decisions that the audit contains.
//
// Replay never unlocks: an item that is disabled, waiting or blocked in r stays so. A later
// decision reverses an earlier one only if both lines are of one stretch. So a damaged, missing or
// invented line may lock more than people decided, but the result never locks less than r. Replay
// applies no approvals: the end of the audit may be missing, and with it a later block.
//
// If two decisions have the same time, the decision that locks counts.
func Replay(r Record, known time.Time, past []Past) Replayed {
	past = slices.DeleteFunc(slices.Clone(past), func(p Past) bool { return !p.At.After(known) })
	slices.SortStableFunc(past, func(a, b Past) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.rank(), b.rank())) })
	s := replay{record: r, blocks: map[tool.Hash]*Past{}}
	for i := range past {
		s.step(&past[i])
	}
	out := s.result()
	for i := range past {
		if s.closes(&past[i]) {
			out.Closing = append(out.Closing, past[i])
		}
	}
	for _, p := range s.left {
		out.Opening = append(out.Opening, *p)
	}
	return out
}

// rank orders decisions of the same time: opening ones come first, so that the closing one counts.
func (p Past) rank() int {
	switch p.Action {
	case ActionApprove, ActionEnable, ActionUnblock:
		return 0
	case ActionUndo:
		return 1
	}
	return 2
}

// A replay holds the decisions of the audit that lock an item; nil for none.
type replay struct {
	record   Record
	disable  *Past
	withdraw *Past // withdraws the approval
	proposal *Past // withdraws the first of two approvals
	blocks   map[tool.Hash]*Past
	left     []*Past // decisions that would have opened something

	last   *Past   // the last decision
	before *replay // the state before it
}

// step adds the next decision.
func (s *replay) step(p *Past) {
	before := *s
	before.blocks, before.left, before.before = maps.Clone(s.blocks), slices.Clone(s.left), nil
	switch p.Action {
	case ActionDisable:
		s.disable = p
		s.forget(ActionEnable, "")
	case ActionEnable:
		s.enable(p)
	case ActionBlock:
		s.block(p)
	case ActionUnblock:
		s.unblock(p)
	case ActionApprove:
		s.approve(p)
	case ActionAcceptStore: // it withdrew approvals that the store lacked; the line does not say which
		s.withdraw = p
	case ActionUndo:
		s.undo(p)
	case ActionPropose: // a later undo may name it
	default:
		return
	}
	s.last, s.before = p, &before
}

// mayReverse reports whether p may reverse an earlier closing decision.
func (p *Past) mayReverse(earlier *Past) bool {
	return earlier != nil && p.Sure && p.Stretch == earlier.Stretch
}

// leave notes an opening decision that is not applied.
func (s *replay) leave(p *Past) {
	s.forget(p.Action, p.Hash)
	s.left = append(s.left, p)
}

// forget drops earlier decisions that unlock the same definition, because a later decision replaces
// them. An empty hash matches any.
func (s *replay) forget(action string, hash tool.Hash) {
	s.left = slices.DeleteFunc(s.left, func(p *Past) bool { return p.Action == action && (hash == "" || p.Hash == hash) })
}

func (s *replay) enable(p *Past) {
	if p.mayReverse(s.disable) {
		s.disable = nil
	}
	if s.disable != nil || s.record.Disabled {
		s.leave(p)
	}
}

func (s *replay) block(p *Past) {
	if p.Hash != "" {
		s.blocks[p.Hash] = p
		s.forget(ActionApprove, p.Hash)
		s.forget(ActionUnblock, p.Hash)
	}
	if p.Hash == s.record.ApprovedHash || !p.Sure { // a damaged line may name another definition
		s.withdraw = p
	}
}

func (s *replay) unblock(p *Past) {
	if p.mayReverse(s.blocks[p.Hash]) {
		delete(s.blocks, p.Hash)
	}
	if s.isBlocked(p.Hash) {
		s.leave(p)
	}
}

func (s *replay) isBlocked(hash tool.Hash) bool {
	return s.blocks[hash] != nil || s.record.IsBlocked(hash)
}

// approve reverses the decisions that lock the definition that the record approves. The approval of
// a different definition withdraws the record's approval.
func (s *replay) approve(p *Past) {
	if p.mayReverse(s.blocks[p.Hash]) {
		delete(s.blocks, p.Hash)
	}
	s.forget(ActionApprove, "")
	switch {
	case p.Hash != s.record.ApprovedHash:
		s.withdraw = p
		s.leave(p)
	case p.mayReverse(s.withdraw):
		s.withdraw = nil
	}
	if p.Hash == s.record.ApprovedHash && (s.withdraw != nil || s.isBlocked(p.Hash)) {
		s.leave(p)
	}
}

// undo reverses the last decision. If the audit lacks that decision, the note of the undo names it.
// Then undo locks what the decision unlocked, and keeps what it locked.
func (s *replay) undo(p *Past) {
	action, _, _ := strings.Cut(p.Note, " by ")
	if s.last != nil && s.last.Action == action {
		if p.mayReverse(s.last) {
			*s = *s.before
			s.takeProposal(p, action)
			return
		}
		s.add(s.before)
	}
	switch action {
	case ActionDisable, ActionBlock:
		s.leave(p)
	case ActionPropose:
		s.takeProposal(p, action)
	case ActionEnable:
		s.disable = p
		s.forget(ActionEnable, "")
	case ActionUnblock:
		s.block(p)
	case ActionApprove:
		s.withdraw = p
		s.forget(ActionApprove, "")
	default: // the note is damaged
		s.disable, s.withdraw = p, p
	}
}

// add adds the closing decisions of another replay of the record.
func (s *replay) add(other *replay) {
	s.disable, s.withdraw = cmp.Or(s.disable, other.disable), cmp.Or(s.withdraw, other.withdraw)
	for hash, p := range other.blocks {
		s.blocks[hash] = cmp.Or(s.blocks[hash], p)
	}
}

func (s *replay) takeProposal(p *Past, action string) {
	if action == ActionPropose {
		s.proposal = p
	}
}

// closes reports whether p locks more than the record does.
func (s *replay) closes(p *Past) bool {
	switch r := s.record; {
	case p.Action == ActionApprove:
		return false
	case s.disable == p && !r.Disabled, s.withdraw == p && r.ApprovedHash != "", s.proposal == p && r.Proposed != nil:
		return true
	default:
		return s.blocks[p.Hash] == p && !r.IsBlocked(p.Hash)
	}
}

// result returns the record with the closing decisions applied.
func (s *replay) result() Replayed {
	r, changed := s.record, false
	if s.disable != nil && !r.Disabled {
		r.Disabled, changed = true, true
	}
	if s.withdraw != nil && r.ApprovedHash != "" {
		r.ApprovedBefore = without(r.ApprovedBefore, r.ApprovedHash)
		r.ApprovedHash, r.Approved, r.Endorsed, changed = "", nil, Remembered{}, true
	}
	if s.proposal != nil && r.Proposed != nil {
		r.Proposed, changed = nil, true
	}
	var blocks []Remembered
	for hash, p := range s.blocks {
		if !r.IsBlocked(hash) {
			blocks = append(blocks, newBlock(hash, Author{Actor: p.By, Note: p.Note}, stamp(p.At)))
		}
	}
	if len(blocks) > 0 {
		r.Blocked = r.blocks()
		r.addBlocks(blocks)
		r.Proposed, changed = nil, true
	}
	r.State = r.derive()
	return Replayed{Record: r, Changed: changed}
}
