package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Verdict is what a person decided about a request.
type Verdict string

// The verdicts. Any other opens nothing.
const (
	Approved  Verdict = "approved"  // for all agents: what opens is the approval itself, and not this line
	Allowed   Verdict = "allowed"   // for this agent, until an end
	Confirmed Verdict = "confirmed" // one call, once
	Declined  Verdict = "declined"
	Revoked   Verdict = "revoked" // what was allowed or confirmed no longer is
)

// A Decision is what a person decided about one request. It names what it is about itself, so that
// nothing that the asker can write changes what it opens.
type Decision struct {
	Request string    `json:"request"`
	Verdict Verdict   `json:"verdict"`
	Server  string    `json:"server"`
	Tool    string    `json:"tool"`
	Kind    tool.Kind `json:"kind,omitempty"`
	Hash    tool.Hash `json:"hash"`
	Args    string    `json:"args,omitempty"`
	By      string    `json:"by"`
	Reason  string    `json:"reason,omitempty"` // told to the agent as what By said
	At      time.Time `json:"at"`
	Ends    time.Time `json:"ends"` // until when it holds; of what was approved: until when it is known

	// Of what opens: as the record was when it was decided. A later decision about the tool, or the
	// server at another address, ends it.
	Against time.Time `json:"against,omitzero"` // [approval.Record.DecidedAt]
	URL     string    `json:"url,omitempty"`
}

// Item returns the id of what it is about.
func (d Decision) Item() tool.ID { return tool.ID{Server: d.Server, Name: d.Tool, Kind: d.Kind} }

// Granted is what people decided about the requests of one agent. The zero Granted is nothing.
type Granted struct {
	Agent Agent      `json:"agent"`
	List  []Decision `json:"list"` // the newest last
	Rev   int64      `json:"rev"`  // 0: not stored yet
}

// Of returns the decision about a request.
func (g Granted) Of(request string) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if d.Request == request {
			return d, true
		}
	}
	return Decision{}, false
}

// Decided reports whether a request is decided.
func (g Granted) Decided(request string) bool {
	_, is := g.Of(request)
	return is
}

// Declined returns the no to a request for the same as r that still holds.
func (g Granted) Declined(r Request, now time.Time) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if d.Verdict == Declined && d.Item() == r.Item() && d.Hash == r.Hash && d.Args == r.Args && now.Before(d.Ends) {
			return d, true
		}
	}
	return Decision{}, false
}

// A Now is what a grant is held against: what is known of an item at the moment of a call.
type Now struct {
	Item   tool.ID
	Hash   tool.Hash        // of the definition that would be called
	URL    string           // of the item's server, as it is configured
	Agent  string           // id of who calls
	Record *approval.Record // nil: there is none
	Stops  stop.Stops
	Time   time.Time
}

// Allows returns the grant that lets the agent call the item now.
func (g Granted) Allows(now Now) (Decision, bool) {
	return g.holding(now, func(d Decision) bool { return d.Verdict == Allowed && d.Args == "" })
}

// Confirms returns those confirmations of a call with these arguments, as [HashArgs] says, that hold now,
// the oldest first. Each is good for one use, of which the store knows.
func (g Granted) Confirms(now Now, args string) (all []Decision) {
	for _, d := range g.List {
		if d.Verdict == Confirmed && args != "" && d.Args == args && d.holds(now) {
			all = append(all, d)
		}
	}
	return all
}

func (g Granted) holding(now Now, is func(Decision) bool) (Decision, bool) {
	for _, d := range slices.Backward(g.List) {
		if is(d) && d.holds(now) {
			return d, true
		}
	}
	return Decision{}, false
}

// holds reports whether what d opens is still open: the same definition at the same address, and no
// decision about it and no stop since.
func (d Decision) holds(now Now) bool {
	switch r := now.Record; {
	case d.Item() != now.Item, d.Hash == "", d.Hash != now.Hash, !now.Time.Before(d.Ends):
		return false
	case d.URL != "" && !approval.SameServer(d.URL, now.URL):
		return false
	case r == nil && !d.Against.IsZero(): // the store lost it
		return false
	case r != nil && (!r.DecidedAt.Equal(d.Against) || r.CurrentHash != d.Hash || r.IsBlocked(d.Hash)):
		return false
	}
	return d.At.After(now.Stops.Last(now.Item.Server, now.Agent))
}

// Add returns g with one decision more, or [ErrDecided] if its request is decided: of two people who
// decide at one moment one does. What was allowed or confirmed can be revoked still, and what was
// approved for all can be decided anew if again says that it did not come to that.
func (g Granted) Add(d Decision, again bool, now time.Time) (Granted, error) {
	if held, is := g.Of(d.Request); is {
		revokes := d.Verdict == Revoked && (held.Verdict == Allowed || held.Verdict == Confirmed)
		if !revokes && !(again && held.Verdict == Approved) {
			return g, ErrDecided
		}
	}
	list := make([]Decision, 0, len(g.List)+1)
	for _, held := range g.List {
		if held.Request != d.Request && now.Sub(held.Ends) < keepFor {
			list = append(list, held)
		}
	}
	for i := 0; len(list) >= maxDecided; { // what is over goes first
		if i = slices.IndexFunc(list, func(held Decision) bool {
			return !now.Before(held.Ends) || held.Verdict == Approved || held.Verdict == Revoked
		}); i < 0 {
			return g, ErrFull
		}
		list = slices.Delete(list, i, i+1)
	}
	g.List = append(list, d)
	return g, g.Check()
}

// Without returns g without the decision about a request, which is open again.
func (g Granted) Without(request string) Granted {
	g.List = slices.DeleteFunc(slices.Clone(g.List), func(d Decision) bool { return d.Request == request })
	return g
}

// Decide returns the decision about a request, with the end that its verdict has; minutes count for
// what is allowed. The caller fills in Against and URL of what opens.
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

// Check returns what is wrong with decisions that are to be stored, or that were.
func (g Granted) Check() error {
	if g.Agent.ID == "" || g.Agent.Way == "" {
		return errors.New("the decisions do not say whose requests they are about")
	}
	if len(g.List) > maxDecided {
		return ErrFull
	}
	for _, d := range g.List {
		switch _, err := ParseID(d.Request); {
		case err != nil:
			return err
		case d.Server == "" || d.Tool == "" || d.Hash == "" || d.By == "" || d.At.IsZero() || d.Ends.IsZero():
			return fmt.Errorf("decision about %s: it does not say what was decided, by whom, when and until when", d.Request)
		case d.Verdict == Confirmed && d.Args == "", d.Verdict == Allowed && d.Args != "":
			return fmt.Errorf("decision about %s: %s does not go with what was asked for", d.Request, d.Verdict)
		case d.Verdict == Allowed && (!d.Ends.After(d.At) || d.Ends.Sub(d.At) > MaxMinutes*time.Minute):
			return fmt.Errorf("decision about %s: minutes: want 1 to %d", d.Request, MaxMinutes)
		case !utf8.ValidString(d.Reason) || utf8.RuneCountInString(d.Reason) > MaxReason:
			return fmt.Errorf("decision about %s: reason: want text of at most %d characters", d.Request, MaxReason)
		}
	}
	return nil
}

// Encode returns g at its next revision, and its stored form.
func (g Granted) Encode() (next Granted, data []byte, err error) {
	if err := g.Check(); err != nil {
		return Granted{}, nil, err
	}
	g.Rev++
	data, err = json.Marshal(g)
	return g, data, err
}

// DecodeGranted reads what [Granted.Encode] wrote.
func DecodeGranted(data []byte) (g Granted, err error) {
	if err = json.Unmarshal(data, &g); err == nil {
		err = g.Check()
	}
	if err != nil {
		return Granted{}, fmt.Errorf("stored decisions about requests: %w", err)
	}
	return g, nil
}
