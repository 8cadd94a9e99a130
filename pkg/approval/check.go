package approval

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Longest texts of a record, in bytes. With two definitions of
// [tool.MaxDefinition] a record stays far below 400 KB, the most that DynamoDB
// keeps in an item.
const (
	MaxName  = 256
	MaxActor = 256
	MaxNote  = 4 << 10
	maxURL   = 8 << 10
)

// Check returns an error that names everything in r that a store refuses.
func (r Record) Check() error {
	var c checker
	c.text("server", r.Server, 1, MaxName)
	c.text("tool", r.Tool, 1, MaxName)
	c.text("url", r.URL, 0, maxURL)
	c.text("by", r.By, 0, MaxActor)
	c.text("note", r.Note, 0, MaxNote)
	c.text("approved definition", string(r.Approved), 0, tool.MaxDefinition)
	c.text("current definition", string(r.Current), 0, tool.MaxDefinition)
	if r.Lost != nil {
		for _, v := range []*Version{&r.Lost.Catalog, r.Lost.Store} {
			if v != nil {
				c.text("who decided what was lost", v.By, 0, MaxActor)
				c.text("note of what was lost", v.Note, 0, maxLostNote)
			}
		}
	}
	for _, m := range r.ApprovedBefore {
		c.text("who approved before", m.By, 0, maxRememberedBy)
	}
	if n := len(r.ApprovedBefore); n > maxRemembered {
		c = append(c, fmt.Errorf("%d approvals are remembered, at most %d are allowed", n, maxRemembered))
	}
	if strings.Contains(r.Server, ":") { // the first colon of an id splits it
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
	if e.Server != r.Server || e.Tool != r.Tool {
		c = append(c, fmt.Errorf("it is about %q", tool.ID{Server: e.Server, Name: e.Tool}))
	}
	return c.fault("audit line of %q", r.ID())
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

// fault returns all faults as one error, or nil.
func (c checker) fault(format string, args ...any) error {
	if len(c) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), errors.Join(c...))
}
