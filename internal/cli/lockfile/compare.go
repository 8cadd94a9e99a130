package lockfile

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A State is the state of an item's definition at a gateway.
type State string

// The states of a definition.
const (
	Approved State = "approved" // even if another lock applies to the item
	Waiting  State = "waits"    // for a person's approval
	Blocked  State = "blocked"  // a person refused it permanently
	Disabled State = "disabled" // a person disabled the item
	// it is not approved, and nobody can approve it while an operator's rule denies the item
	Denied  State = "denied"
	Open    State = "open" // it is callable without approval: the server's approval is off
	Missing State = ""     // the gateway does not have the item
)

// An Item is a gateway's record of a tool, a prompt or a resource.
type Item struct {
	ID       tool.ID
	Hash     tool.Hash // of the currently listed definition
	Summary  string    // first sentence of the description
	Standing State
}

// A What is a kind of difference between a file and a gateway.
type What string

// The kinds of difference. Kinds in which the gateway allows more than the file come first.
const (
	Unlisted    What = "unlisted"     // approved at the gateway, but not in the file
	Changed     What = "changed"      // the file has another definition
	NotApproved What = "not_approved" // approved in the file, but not at the gateway
	New         What = "new"          // it waits at the gateway, and is not in the file
	Removed     What = "removed"      // in the file, but not at the gateway
	Pending     What = "pending"      // it waits at the gateway and in the file: no drift
)

// whats returns the kinds of difference in order of their importance.
func whats() []What { return []What{Unlisted, Changed, NotApproved, New, Removed, Pending} }

// A Drift is an item that differs between a file and a gateway, or an item that waits in both
// ([Pending]).
type Drift struct {
	ID       tool.ID
	What     What
	Standing State     // at the gateway
	Listed   tool.Hash // in the file; "": not there
	Current  tool.Hash // at the gateway; "": not there
	// of the gateway's definition, or from the file if the gateway lacks the item
	Summary string
}

// IsDrift reports whether file and gateway differ.
func (d Drift) IsDrift() bool { return d.What != Pending }

// Compare returns every item that differs between the file and the gateway, and the items that wait
// in both, sorted by id.
//
// The file may omit items that people refused or disabled, and items that are callable without
// approval. It may also omit items that an operator's rule denies and that were never approved.
func Compare(f File, items []Item) (out []Drift) {
	here := make(map[tool.ID]bool, len(items))
	for _, i := range items {
		here[i.ID] = true
		e, listed := f[i.ID]
		d := Drift{ID: i.ID, Standing: i.Standing, Listed: e.Hash, Current: i.Hash, Summary: i.Summary}
		switch {
		case !listed && i.Standing == Approved:
			d.What = Unlisted
		case !listed && i.Standing == Waiting:
			d.What = New
		case !listed:
		case e.Hash != i.Hash:
			d.What = Changed
		case i.Standing == Approved || i.Standing == Open:
		case e.Pending && i.Standing == Waiting:
			d.What = Pending
		default:
			d.What = NotApproved
		}
		if d.What != "" {
			out = append(out, d)
		}
	}
	for id, e := range f {
		if !here[id] {
			out = append(out, Drift{ID: id, What: Removed, Listed: e.Hash, Summary: e.Summary})
		}
	}
	slices.SortFunc(out, func(a, b Drift) int { return a.ID.Compare(b.ID) })
	return out
}

// Take returns the file for the items of a gateway. It contains the approved items and, if pending
// is set, the waiting items with a mark. A note of before stays if the definition is the same.
func Take(before File, items []Item, pending bool) File {
	out := File{}
	for _, i := range items {
		if i.Standing != Approved && (i.Standing != Waiting || !pending) {
			continue
		}
		e := Entry{Hash: i.Hash, Summary: Summary(i.Summary), Pending: i.Standing == Waiting}
		if was, ok := before[i.ID]; ok && was.Hash == i.Hash {
			e.Note = was.Note
		}
		out[i.ID] = e
	}
	return out
}

// A Count is the size of the difference between two files.
type Count struct{ Added, Removed, Changed int }

// Difference returns how many entries were added, removed, or changed.
func Difference(before, now File) (c Count) {
	for id, e := range now {
		switch was, ok := before[id]; {
		case !ok:
			c.Added++
		case was.Hash != e.Hash || was.Pending != e.Pending:
			c.Changed++
		}
	}
	for id := range before {
		if _, ok := now[id]; !ok {
			c.Removed++
		}
	}
	return c
}
