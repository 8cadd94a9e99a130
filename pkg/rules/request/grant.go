package request

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Verdict is a person's decision about a request.
type Verdict string

// The verdicts. Any other value allows no call.
const (
	Approved  Verdict = "approved"  // for all agents: the approval, not this verdict, has effect
	Allowed   Verdict = "allowed"   // for this agent, until an end
	Confirmed Verdict = "confirmed" // one call, once
	Declined  Verdict = "declined"
	Revoked   Verdict = "revoked" // ends a grant: Allowed or Confirmed
)

// A Decision is a person's decision about one request. It names its item itself, so that an agent
// cannot change which item becomes callable.
type Decision struct {
	Request string    `json:"request"`
	Verdict Verdict   `json:"verdict"`
	Server  string    `json:"server"`
	Tool    string    `json:"tool"`
	Kind    tool.Kind `json:"kind,omitempty"`
	Hash    tool.Hash `json:"hash"`
	Args    string    `json:"args,omitempty"`
	By      string    `json:"by"`
	Reason  string    `json:"reason,omitempty"` // for the agent, with By as its author
	At      time.Time `json:"at"`
	Ends    time.Time `json:"ends"` // end of the grant; of an approval: when its storage ends

	// State of the approval record when a person decided on the grant. A later decision about the
	// tool, or another address of the server, ends the grant.
	Against time.Time `json:"against,omitzero"` // [approval.Record.DecidedAt]
	URL     string    `json:"url,omitempty"`
}

// Item returns the id of the decision's item.
func (d Decision) Item() tool.ID { return tool.ID{Server: d.Server, Name: d.Tool, Kind: d.Kind} }

// Granted has the decisions about the requests of one agent. The zero Granted has no decisions.
type Granted struct {
	Agent Agent      `json:"agent"`
	List  []Decision `json:"list"` // one for each request, in the order of their first decision
	Rev   int64      `json:"rev"`  // 0: not stored yet
}

// Find returns the decision about a request.
func (g Granted) Find(request string) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if d.Request == request {
			return d, true
		}
	}
	return Decision{}, false
}

// Decided reports whether a request is decided.
func (g Granted) Decided(request string) bool {
	_, is := g.Find(request)
	return is
}

// Declined returns the valid refusal of a request with the same item, definition and arguments as
// r.
func (g Granted) Declined(r Request, now time.Time) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if d.Verdict == Declined && d.Item() == r.Item() && d.Hash == r.Hash && d.Args == r.Args && now.Before(d.Ends) {
			return d, true
		}
	}
	return Decision{}, false
}

// A Now is the state of an item at a call. A grant is checked against it.
type Now struct {
	Item   tool.ID
	Hash   tool.Hash        // of the definition that would be called
	URL    string           // of the item's server, in the config
	Agent  string           // id of the caller
	Record *approval.Record // nil: none
	Two    bool             // an approval needs two people, so a grant of one person has no effect
	Stops  stop.Stops
	Time   time.Time
}

// Allows returns the grant that lets the agent call the item now.
func (g Granted) Allows(now Now) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if d.Verdict == Allowed && d.Args == "" && !now.Two && g.Agent.Alone() && g.holds(d, now) {
			return d, true
		}
	}
	return Decision{}, false
}

// Confirms returns the confirmations of a call with these arguments, as hashed by [HashArgs], that
// are valid now, the oldest first. Each allows one use, which the store records.
func (g Granted) Confirms(now Now, args string) (all []Decision) {
	for _, d := range g.List {
		if d.Verdict == Confirmed && args != "" && d.Args == args && g.holds(d, now) {
			all = append(all, d)
		}
	}
	return all
}

// maxSkew is how far the clocks of the deciding and the calling function may differ. A decision
// that is further in the future was made before the clock was set back.
const maxSkew = 5 * time.Minute

// holds reports whether a grant is still valid. Agent, definition and address must be the same, and
// the grant must be newer than every other decision about the item and every stop. An unknown fact
// counts as changed.
func (g Granted) holds(d Decision, now Now) bool {
	switch r := now.Record; {
	case g.Agent.ID == "" || g.Agent.ID != now.Agent:
		return false
	case d.Item() != now.Item, d.Hash == "", d.Hash != now.Hash:
		return false
	case !now.Time.Before(d.Ends), now.Time.Add(maxSkew).Before(d.At):
		return false
	case !approval.SameServer(d.URL, now.URL):
		return false
	// The record is lost, recovered after a loss, or in a newer format.
	case r == nil, r.Loss != nil, r.Format > approval.Format:
		return false
	case !r.DecidedAt.Equal(d.Against), r.CurrentHash != d.Hash, r.IsBlocked(d.Hash):
		return false
	}
	return d.At.After(now.Stops.Last(now.Item.Server, now.Agent))
}

// Add returns g with one more decision. It returns [ErrDecided] if the request is already decided:
// if two people decide at the same time, one decision counts. A grant can still be revoked. An
// approval for all can be decided again if again says that the approval did not happen. Add
// returns [ErrNotFound] for a revocation without a grant.
//
// Add never removes a valid grant to make room. If there are too many, it returns [ErrFull]. It
// removes the oldest of the other decisions. The request of that decision stays closed, because the
// [List] has dropped the request: people have made maxPast later decisions, and at most MaxOpen of
// them are about requests that were open at the same time. So the agent has made at least
// maxPast-MaxOpen later requests, and a [List] keeps fewer requests than that.
func (g Granted) Add(d Decision, again bool, now time.Time) (Granted, error) {
	list, i := slices.Clone(g.List), slices.IndexFunc(g.List, func(held Decision) bool { return held.Request == d.Request })
	switch known := slices.Contains([]Verdict{Approved, Allowed, Confirmed, Declined, Revoked}, d.Verdict); {
	case !known:
		return g, fmt.Errorf("%.64q is no verdict: want %s, %s, %s, %s or %s", d.Verdict, Approved, Allowed, Confirmed, Declined, Revoked)
	case i < 0 && d.Verdict == Revoked:
		return g, ErrNotFound
	case i < 0:
		list = append(list, d)
	default:
		held := list[i].Verdict
		revokes, anew := d.Verdict == Revoked && (held == Allowed || held == Confirmed), again && held == Approved
		if !revokes && !anew {
			return g, ErrDecided
		}
		list[i] = d
	}
	next := g
	next.List = slices.DeleteFunc(list, func(held Decision) bool { return held.Request != d.Request && now.Sub(held.Ends) >= keepFor })
	allowed, confirmed, past := 0, 0, 0
	for i, held := range slices.Backward(next.List) {
		switch opens := now.Before(held.Ends); {
		case opens && held.Verdict == Allowed:
			allowed++
		case opens && held.Verdict == Confirmed:
			confirmed++
		case past >= maxPast && held.Request != d.Request:
			next.List = slices.Delete(next.List, i, i+1)
		default:
			past++
		}
	}
	if allowed > maxAllowed || confirmed > maxConfirmed {
		return g, ErrFull
	}
	return next, next.Check()
}

// Without returns g without the decision about a request, which is then open again.
func (g Granted) Without(request string) Granted {
	g.List = slices.DeleteFunc(slices.Clone(g.List), func(d Decision) bool { return d.Request == request })
	return g
}

// Decide returns the decision about a request, with the end of its verdict; minutes count only for
// Allowed. The caller sets Against and URL of a grant.
func Decide(r Request, v Verdict, minutes int, by, reason string, now time.Time) Decision {
	now = now.UTC().Truncate(time.Microsecond)
	d := Decision{
		Request: r.ID, Verdict: v, Server: r.Server, Tool: r.Tool, Kind: r.Kind, Hash: r.Hash, Args: r.Args,
		By: by, Reason: reason, At: now, Ends: now.Add(keepFor),
	}
	switch v {
	case Allowed:
		d.Ends = now.Add(time.Duration(minutes) * time.Minute)
	case Confirmed:
		d.Ends = now.Add(UseFor)
	case Declined:
		d.Ends = now.Add(declineFor)
	case Approved, Revoked:
	}
	return d
}

// Check returns the first fault of the agent or a decision, and [ErrFull] if there are too many
// decisions. Call it before a write and after a read.
func (g Granted) Check() error {
	if err := g.Agent.Check(); err != nil {
		return err
	}
	if len(g.List) > maxAllowed+maxConfirmed+maxPast {
		return ErrFull
	}
	for _, d := range g.List {
		if d.Verdict == Allowed && !g.Agent.Alone() {
			return fmt.Errorf("decision about %s: a grant needs an agent that proved its identity",
				d.Request)
		}
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

func (d Decision) check() error {
	lasts := d.Ends.Sub(d.At)
	switch err := checkID(d.Request); {
	case err != nil:
		return err
	case d.Server == "" || d.Tool == "" || d.Hash == "" || d.By == "" || d.At.IsZero() || d.Ends.IsZero():
		return fmt.Errorf("decision about %s: a member is missing: item, hash, person, time or end", d.Request)
	case d.Verdict == Confirmed && d.Args == "", d.Verdict == Allowed && d.Args != "":
		return fmt.Errorf("decision about %s: %s does not match the request", d.Request, d.Verdict)
	case d.Verdict == Confirmed && lasts > UseFor:
		return fmt.Errorf("decision about %s: a confirmed call can be made for %v at most", d.Request, UseFor)
	case d.Verdict == Allowed && (lasts <= 0 || lasts > MaxMinutes*time.Minute):
		return fmt.Errorf("decision about %s: minutes: want 1 to %d", d.Request, MaxMinutes)
	case !utf8.ValidString(d.Reason) || utf8.RuneCountInString(d.Reason) > MaxReason:
		return fmt.Errorf("decision about %s: reason: want text of at most %d characters", d.Request, MaxReason)
	}
	return nil
}
