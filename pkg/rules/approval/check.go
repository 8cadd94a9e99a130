package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of the texts of a record, in bytes. With two definitions of [tool.MaxDefinition], a record
// stays below 400 KB, the limit of a DynamoDB item. A record includes an [Undo] only if its size
// then stays below maxRecord. The bytes between maxRecord and 400 KB are for data that a driver
// writes next to the record.
const (
	MaxName   = 256
	MaxActor  = 256
	MaxNote   = 4 << 10
	maxURL    = 8 << 10
	maxRecord = 400<<10 - 8<<10
)

// Check returns an error that names everything in r that a store refuses.
func (r Record) Check() error {
	var c checker
	c.text("server", r.Server, 1, MaxName)
	switch r.Kind {
	case tool.Tool, tool.Prompt:
		c.text(r.Kind.String(), r.Tool, 1, MaxName)
	case tool.Resource:
		c.text("URI", r.Tool, 1, tool.MaxURI)
		c.text("URI, as JSON has it,", escaped(r.Tool), 1, tool.MaxURI*3/2)
	default:
		c = append(c, fmt.Errorf("kind %q is not known", r.Kind))
	}
	c.text("url", r.URL, 0, maxURL)
	c.text("by", r.By, 0, MaxActor)
	c.text("note", r.Note, 0, MaxNote)
	c.definition("approved definition", r.Approved)
	c.definition("current definition", r.Current)
	c.lostVersions(r.Loss)
	c.verdicts(r.ApprovedBefore, r.Blocked, r.Endorsed)
	c.proposal(r.Proposed)
	c.release(r.Release, r.Prior)
	if u := r.Undo; u != nil {
		c.text("who decided before", u.By, 0, MaxActor)
		c.text("note before", u.Note, 0, MaxNote)
		c.definition("approved definition before", u.Approved)
		c.lostVersions(u.Loss)
		c.verdicts(u.ApprovedBefore, u.Blocked, u.Endorsed)
		c.proposal(u.Proposed)
		if n := r.size(); n > maxRecord {
			c = append(c, fmt.Errorf("it has %d bytes with its data for an undo, at most %d are allowed", n, maxRecord))
		}
	}
	if strings.Contains(r.Server, ":") { // an id is split at its first colon
		c = append(c, errors.New("server has a colon"))
	}
	return c.fault("approval record %q", r.ID())
}

// CheckPut returns an error that names everything in a write that a store refuses: faults of r, or
// an audit line of another tool. Every [Store] calls it before it writes.
func CheckPut(r Record, e *Entry) error {
	if err := r.Check(); err != nil || e == nil {
		return err
	}
	var c checker
	c.text("actor", e.Actor, 1, MaxActor)
	c.text("action", e.Action, 1, MaxName)
	c.text("note", e.Note, 0, MaxNote)
	if e.ID() != r.ID() {
		c = append(c, fmt.Errorf("it is about %q", e.ID()))
	}
	return c.fault("audit line of %q", r.ID())
}

// size returns an upper bound of the bytes that a driver needs for r: its definitions, and its
// other members as JSON.
func (r Record) size() int {
	n := len(r.Approved) + len(r.Current)
	if r.Undo != nil {
		n += len(r.Undo.Approved)
	}
	r.Approved, r.Current = nil, nil
	data, err := rawjson.Marshal(r, r.Unknown)
	if err != nil {
		return math.MaxInt
	}
	return n + len(data)
}

// A checker collects faults.
type checker []error

// text records a fault unless s is valid UTF-8 of least to most bytes.
func (c *checker) text(field, s string, least, most int) {
	switch {
	case len(s) < least:
		*c = append(*c, fmt.Errorf("%s is empty", field))
	case len(s) > most:
		*c = append(*c, fmt.Errorf("%s has %d bytes, at most %d are allowed", field, len(s), most))
	case !utf8.ValidString(s):
		*c = append(*c, fmt.Errorf("%s is not valid UTF-8", field))
	}
}

// definition records the same faults as [checker.text]. It copies raw only if raw has a fault.
func (c *checker) definition(field string, raw []byte) {
	if len(raw) > tool.MaxDefinition || !utf8.Valid(raw) {
		c.text(field, string(raw), 0, tool.MaxDefinition)
	}
}

// escaped returns s as it is in JSON, without the quotes.
func escaped(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	data, _ := json.Marshal(s) // every string has a JSON form
	return string(data[1 : len(data)-1])
}

// lostVersions records the faults of the two versions of a lost record.
func (c *checker) lostVersions(l *Loss) {
	if l == nil {
		return
	}
	for _, v := range []*Version{&l.Catalog, l.Store} {
		if v != nil {
			c.text("name of the decider in the lost version", v.By, 0, MaxActor)
			c.text("note in the lost version", v.Note, 0, maxLostNote)
			c.text("name of the approver in the lost version", v.Endorsed.By, 0, maxRememberedBy)
		}
	}
}

// verdicts records the faults of the earlier approvals, the blocks and the endorsement.
func (c *checker) verdicts(approved, blocked []Remembered, endorsed Remembered) {
	for _, m := range approved {
		c.text("who approved before", m.By, 0, maxRememberedBy)
		c.text("who approved before", escaped(m.By), 0, 3*maxRememberedBy) // an earlier program limited the bytes before JSON escaping
		c.text("note of an approval", m.Note, 0, 0)
	}
	c.text("who approved last", endorsed.By, 0, maxRememberedBy)
	c.text("note of the last approval", endorsed.Note, 0, 0)
	for _, m := range blocked {
		c.text("who blocked", escaped(m.By), 0, maxRememberedBy)
		c.text("note of a block", escaped(m.Note), 0, maxBlockNote)
	}
	if n := max(len(approved), len(blocked)); n > maxRemembered {
		*c = append(*c, fmt.Errorf("%d verdicts are remembered, at most %d are allowed", n, maxRemembered))
	}
}

// proposal records the faults of the first of two approvals.
func (c *checker) proposal(p *Proposal) {
	if p == nil {
		return
	}
	c.text("name of the proposer", escaped(p.By), 1, maxRememberedBy)
	c.text("issuer's subject of the proposer", escaped(p.Subject), 1, MaxName)
	c.text("note of a proposal", escaped(p.Note), 0, maxBlockNote)
}

// fault returns all faults as one error, or nil.
func (c checker) fault(format string, args ...any) error {
	if len(c) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), errors.Join(c...))
}
