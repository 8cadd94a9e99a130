package approval

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Past is a decision about an item as a line of the audit has it, for [Replay].
type Past struct {
	Action string
	Hash   tool.Hash // "": the line is damaged there
	By     string
	Note   string
	At     time.Time // when the store wrote it

	// Stretch numbers the unbroken parts of the audit: between two lines of one stretch no line is
	// missing, damaged or foreign.
	Stretch int

	// Sure says that the line is what the program wrote, as far as the audit can tell.
	Sure bool
}

// A Replayed is what [Replay] made of a record.
type Replayed struct {
	Record  Record
	Changed bool   // the record is not as it was
	Closing []Past // what people closed, and is closed again
	Opening []Past // what they opened, and is not open: a person has to decide again
}

// maxReplayed is how many bytes a note has of the decisions that were replayed.
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
	return beginning("holds again by the audit: "+strings.Join(all, ", "), maxReplayed)
}

// Replay returns r with what people closed since it was written, which was at the time known. The audit
// says what they decided.
//
// Replay never opens: what r has disabled, waiting or blocked stays so. A later decision of the audit
// takes an earlier one back only if both lines are of one stretch. So a line that is damaged, missing
// or made up may leave more closed than people decided, but never less than r has. Approvals are not
// replayed, because the end of the audit may be missing, and with it a later block.
//
// Of two decisions at one moment the one that closes counts.
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

// rank orders decisions of one moment: what opens comes first, so that what closes counts.
func (p Past) rank() int {
	switch p.Action {
	case ActionApprove, ActionEnable, ActionUnblock:
		return 0
	case ActionUndo:
		return 1
	}
	return 2
}

// A replay is what the audit adds to a record: the decisions that close it, nil for none.
type replay struct {
	record   Record
	disable  *Past
	withdraw *Past // of the approval
	proposal *Past // that takes back the approval of the first of two people
	blocks   map[tool.Hash]*Past
	left     []*Past // decisions that would have opened something

	last   *Past   // the last decision
	before *replay // what held before it
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
	case ActionAcceptStore: // which took back approvals that the store did not have; which ones is not known
		s.withdraw = p
	case ActionUndo:
		s.undo(p)
	case ActionPropose: // it may be undone
	default:
		return
	}
	s.last, s.before = p, &before
}

// endsIn reports whether p may take back what the earlier decision closed.
func (p *Past) endsIn(earlier *Past) bool {
	return earlier != nil && p.Sure && p.Stretch == earlier.Stretch
}

// leave notes a decision that opens what stays closed.
func (s *replay) leave(p *Past) {
	s.forget(p.Action, p.Hash)
	s.left = append(s.left, p)
}

// forget drops earlier decisions that open the same, because of a later one. An empty hash is any.
func (s *replay) forget(action string, hash tool.Hash) {
	s.left = slices.DeleteFunc(s.left, func(p *Past) bool { return p.Action == action && (hash == "" || p.Hash == hash) })
}

func (s *replay) enable(p *Past) {
	if p.endsIn(s.disable) {
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
	if p.endsIn(s.blocks[p.Hash]) {
		delete(s.blocks, p.Hash)
	}
	if s.isBlocked(p.Hash) {
		s.leave(p)
	}
}

func (s *replay) isBlocked(hash tool.Hash) bool {
	return s.blocks[hash] != nil || s.record.IsBlocked(hash)
}

// approve takes back what was closed of the definition that the record approves. The approval of
// another definition ends that of the record.
func (s *replay) approve(p *Past) {
	if p.endsIn(s.blocks[p.Hash]) {
		delete(s.blocks, p.Hash)
	}
	s.forget(ActionApprove, "")
	switch {
	case p.Hash != s.record.ApprovedHash:
		s.withdraw = p
		s.leave(p)
	case p.endsIn(s.withdraw):
		s.withdraw = nil
	}
	if p.Hash == s.record.ApprovedHash && (s.withdraw != nil || s.isBlocked(p.Hash)) {
		s.leave(p)
	}
}

// undo takes back the last decision. If the audit does not have that one, the note says what it was:
// what it opened is closed, and what it closed stays so.
func (s *replay) undo(p *Past) {
	action, _, _ := strings.Cut(p.Note, " by ")
	if s.last != nil && s.last.Action == action {
		if p.endsIn(s.last) {
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

// add adds what another replay of the record has closed.
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

// closes reports whether p is why the record is closed further than it was.
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

// result returns the record with what was closed.
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
			blocks = append(blocks, newBlock(hash, Said{Actor: p.By, Note: p.Note}, stamp(p.At)))
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
