package lockfile

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A State is how the definition that a gateway has of an item stands there.
type State string

// How a definition can stand.
const (
	Approved State = "approved" // whatever else locks the item
	Waiting  State = "waits"    // for a person to approve it
	Blocked  State = "blocked"  // a person refused it for good
	Disabled State = "disabled" // a person disabled the item
	Denied   State = "denied"   // it is not approved, and cannot be as long as an operator's rule denies the item
	Open     State = "open"     // it is not approved, and callable: the server's approval is off
	Gone     State = ""         // the gateway does not have the item
)

// An Item is what a gateway has of a tool, a prompt or a resource.
type Item struct {
	ID       tool.ID
	Hash     tool.Hash // of the definition that it lists now
	Summary  string    // first sentence of the description
	Standing State
}

// A What is in what way a file and a gateway differ about an item.
type What string

// The ways to differ, those that open something that the file does not first.
const (
	Unlisted    What = "unlisted"     // approved at the gateway, and the file does not have it
	Changed     What = "changed"      // the file has another definition
	NotApproved What = "not_approved" // the file approves the definition, and it is not approved at the gateway
	New         What = "new"          // it waits at the gateway, and the file does not have it
	Removed     What = "removed"      // the file has it, and the gateway does not
	Pending     What = "pending"      // it waits, as the file says: no drift
)

// whats returns the ways to differ, in their order.
func whats() []What { return []What{Unlisted, Changed, NotApproved, New, Removed, Pending} }

// A Drift is an item about which a file and a gateway differ; or, if it is [Pending], one that waits at
// the gateway as the file says.
type Drift struct {
	ID       tool.ID
	What     What
	Standing State     // at the gateway
	Listed   tool.Hash // in the file; "": it does not have the item
	Current  tool.Hash // at the gateway; "": it does not have the item
	Summary  string    // of the gateway's definition, or what the file says of one that is gone
}

// IsDrift reports whether the two differ.
func (d Drift) IsDrift() bool { return d.What != Pending }

// Compare returns every item about which the file and the gateway differ, and those that wait as the
// file says, by id.
//
// What people refused or disabled, what an operator's rule denies before it was ever approved, and
// what is callable without approval need not be in the file.
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

// Take returns the file of what a gateway has: what is approved and, with pending, marked, what waits.
// Notes of the file before are kept as long as they are about the same definition.
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

// A Count is how two files differ.
type Count struct{ Added, Removed, Changed int }

// Difference returns how a file differs from the one before: in what it is about, and in what it
// approves of that.
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
