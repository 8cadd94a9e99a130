// Package stop is the emergency stop of everything, one server or one agent. A stop is in the
// store, which calls read each time, or in the config. The union of both counts.
//
// Agents still find stopped tools, but cannot call them. A stop names its server or its agent
// exactly; there are no patterns.
package stop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of the stored document, so that a call usually reads a few kilobytes at most.
const (
	MaxStops  = 64  // of servers and agents, in addition to a stop of everything
	MaxReason = 256 // bytes
	MaxName   = 512 // bytes of a server's name, an agent's id, or the name of the person who stopped it
)

// Errors that a caller may have to distinguish.
var (
	ErrConflict = errors.New("stops changed since read") // another writer came first; the caller reads again
	ErrFull     = errors.New("64 servers and agents are stopped already: undo a stop, or stop everything")
	ErrNone     = errors.New("there is no such stop")
)

// A Target is the target of a stop. Exactly one of its three fields is set.
type Target struct {
	All    bool   `json:"all,omitempty"`
	Server string `json:"server,omitempty"`
	Agent  string `json:"agent,omitempty"`
}

// A Stop is one emergency stop.
type Stop struct {
	Target
	Reason string    `json:"reason"`       // agents see it
	By     string    `json:"by,omitempty"` // who stopped it; "": the config
	At     time.Time `json:"at,omitzero"`
}

// Stops is a set of stops. The zero Stops stop nothing.
type Stops struct {
	List  []Stop  `json:"list"`
	Ended []Ended `json:"ended,omitempty"` // stops of people that were undone
	Rev   int64   `json:"rev"`             // 0: not stored yet
}

// An Ended is a stop that was undone. It is kept so that grants from before the stop stay invalid.
type Ended struct {
	Target
	At time.Time `json:"at"` // of the stop
}

const (
	maxEnded = 64
	keepOver = 31 * 24 * time.Hour // no grant lasts longer
	maxDoc   = 380 << 10           // bytes of the stored form; an item of DynamoDB has 400 KB
)

// String returns the target for people: everything, server "github", agent "token:ci".
func (t Target) String() string {
	switch {
	case t.Server != "":
		return fmt.Sprintf("server %q", t.Server)
	case t.Agent != "":
		return fmt.Sprintf("agent %q", t.Agent)
	}
	return "everything"
}

// Check returns the fault of the target, as a text for its author.
func (t Target) Check() error {
	set := 0
	for _, is := range []bool{t.All, t.Server != "", t.Agent != ""} {
		if is {
			set++
		}
	}
	name := t.Server + t.Agent
	switch {
	case set != 1:
		return errors.New("name one thing to stop: everything, a server or an agent")
	case t.All:
		return nil
	case name == "*":
		return errors.New("there are no patterns: name one server or one agent, or stop everything")
	case !isLine(name, MaxName):
		return fmt.Errorf("a name is one line of at most %d bytes", MaxName)
	}
	return nil
}

// CheckReason returns the fault of a stop's reason, which agents see.
func CheckReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return errors.New("say why: agents see the reason")
	case !isLine(reason, MaxReason):
		return fmt.Errorf("the reason is not one line of at most %d bytes", MaxReason)
	}
	return nil
}

// isLine reports whether s is one line of text, not blank, and not longer than most bytes.
func isLine(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, isBreak)
}

func isBreak(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// Check returns the fault of stops before they are stored or after they are read.
func (s Stops) Check() error {
	if _, all := s.Find(Target{All: true}); len(s.List) > MaxStops && (!all || len(s.List) > MaxStops+1) {
		return ErrFull
	}
	for i, stop := range s.List {
		err := stop.Check()
		if err == nil {
			err = CheckReason(stop.Reason)
		}
		if err == nil && !isLine(stop.By, MaxName) {
			err = errors.New("it does not say who stopped it")
		}
		if err == nil && s.index(stop.Target) != i {
			err = errors.New("it is listed twice")
		}
		if err != nil {
			return fmt.Errorf("stop of %s: %w", stop.Target, err)
		}
	}
	if len(s.Ended) > maxEnded {
		return ErrFull
	}
	for _, e := range s.Ended {
		err := e.Check()
		if err == nil && e.At.IsZero() {
			err = errors.New("it does not say when")
		}
		if err != nil {
			return fmt.Errorf("ended stop of %s: %w", e.Target, err)
		}
	}
	return nil
}

func (s Stops) index(t Target) int {
	return slices.IndexFunc(s.List, func(stop Stop) bool { return stop.Target == t })
}

// Find returns the stop of exactly this target.
func (s Stops) Find(t Target) (Stop, bool) {
	if i := s.index(t); i >= 0 {
		return s.List[i], true
	}
	return Stop{}, false
}

// Server returns the stop that applies to a server's tools: the stop of the server, or of
// everything.
func (s Stops) Server(name string) (Stop, bool) {
	if stop, ok := s.Find(Target{All: true}); ok {
		return stop, true
	}
	return s.Find(Target{Server: name})
}

// Agent returns the stop of the agent with exactly this id. A stop of everything is not a stop of
// its agents: they can still search.
func (s Stops) Agent(id string) (Stop, bool) { return s.Find(Target{Agent: id}) }

// And returns the union of s and more, at the revision of s.
func (s Stops) And(more Stops) Stops {
	if len(more.List) > 0 {
		s.List = slices.Concat(s.List, more.List)
	}
	if len(more.Ended) > 0 {
		s.Ended = slices.Concat(s.Ended, more.Ended)
	}
	return s
}

// Add returns s with one more stop. An existing stop of the target stays: agents see its author
// and its reason.
func (s Stops) Add(stop Stop) (Stops, error) {
	if _, stands := s.Find(stop.Target); stands {
		return s, nil
	}
	s.List = append(slices.Clone(s.List), stop)
	return s, s.Check()
}

// Undo returns s without the stop of the target, or [ErrNone].
func (s Stops) Undo(t Target) (Stops, error) {
	i := s.index(t)
	if i < 0 {
		return s, ErrNone
	}
	s.Ended = ended(s.Ended, s.List[i])
	s.List = slices.Delete(slices.Clone(s.List), i, i+1)
	return s, nil
}

// ended returns the ended stops with one more, the last one first and each target once. If there
// are too many, the oldest of them are merged into one ended stop of everything.
func ended(before []Ended, undone Stop) []Ended {
	if undone.At.IsZero() { // no program wrote this
		return before
	}
	list := []Ended{{undone.Target, undone.At}}
	for _, e := range before {
		if undone.At.Sub(e.At) < keepOver {
			list = append(list, e)
		}
	}
	list = eachOnce(list)
	if len(list) > maxEnded {
		list = eachOnce(append(list[:maxEnded-1:maxEnded-1], Ended{Target{All: true}, list[maxEnded-1].At}))
	}
	return list
}

// eachOnce returns the last ended stop of each target, the last one first.
func eachOnce(list []Ended) (last []Ended) {
	slices.SortStableFunc(list, func(a, b Ended) int { return b.At.Compare(a.At) })
	for _, e := range list {
		if !slices.ContainsFunc(last, func(held Ended) bool { return held.Target == e.Target }) {
			last = append(last, e)
		}
	}
	return last
}

// Last returns when a person last stopped a server, an agent or everything, even if the stop has
// ended; the zero time: never, or unknown.
func (s Stops) Last(server, agent string) (last time.Time) {
	see := func(t Target, at time.Time) {
		if (t.All || t.Server != "" && t.Server == server || t.Agent != "" && t.Agent == agent) && at.After(last) {
			last = at
		}
	}
	for _, is := range s.List {
		see(is.Target, is.At)
	}
	for _, e := range s.Ended {
		see(e.Target, e.At)
	}
	return last
}

// Note returns in one line who stopped it and why, for agents and people.
func (s Stop) Note() string {
	note := "stopped by " + s.By
	if s.By == "" {
		note = "stopped in mcp_config.json"
	}
	if s.Reason != "" {
		note += ": " + s.Reason
	}
	return note
}
