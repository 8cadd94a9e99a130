// Package request is how a lock that an agent meets is opened: the agent asks, a person decides, and
// the agent's next try goes through.
//
// Two documents an agent: [Asked] is what it asked for, which the function that agents call may write;
// [Granted] is what people decided about that, which it may only read. So that a request is approved is
// never a member that the asker can set: it follows from the grant, or from the approval itself.
package request

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Bounds on what is kept of one agent.
const (
	MaxOpen   = 10       // requests that are open
	MaxNote   = 500      // characters of what an agent, or its user, says for it
	MaxReason = 500      // characters of what the person says who decides
	MaxArgs   = 32 << 10 // bytes of the arguments of one call that a person is to confirm

	MaxMinutes = 43_200 // that a grant lasts: 30 days

	maxKept = 32 // requests that are kept in all: those that wait, and the newest others

	maxAllowed   = 32 // grants that hold at one time
	maxConfirmed = 64 // confirmed calls whose time is not over, made or not
	maxPast      = 48 // other decisions, the newest; see [Granted.Add]

	maxDoc = 380 << 10 // bytes of a document; an item of DynamoDB has 400 KB
)

// How long things last.
const (
	OpenFor      = 7 * 24 * time.Hour // a request for access waits for a person
	ConfirmFor   = 24 * time.Hour     // a request for one call does
	UseFor       = time.Hour          // a confirmed call can be made
	withdrawnFor = time.Hour          // a request that was withdrawn counts, so that nobody asks and withdraws without end
	declineFor   = 24 * time.Hour     // a no holds: there is no new request
	keepFor      = 7 * 24 * time.Hour // what is over is still known
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("request not found")           // never made, or too long ago
	ErrConflict = errors.New("requests changed since read") // another writer came first; the caller reads again
	ErrTooMany  = errors.New("10 requests of the agent are open, or were withdrawn within the hour, which is all")
	ErrFull     = errors.New("the agent has all that can be granted to one at a time: revoke a grant, or wait until one ends")
	ErrDecided  = errors.New("request is decided already")
	ErrUsed     = errors.New("confirmation is used already")
)

// An Agent is who asks: the agent, and the person for whom it acts if its token names one. Two people's
// agents of one id are two, so that what is granted to one of them is not the other's.
type Agent struct {
	Way     string `json:"way"` // how it proved who it is
	ID      string `json:"id"`
	Human   string `json:"human,omitempty"`   // "": not known
	Subject string `json:"subject,omitempty"` // of that person at the issuer, as in [identity.Agent]; "": not known
}

// AgentOf returns who a verified caller is as one who asks.
func AgentOf(a identity.Agent) Agent {
	return Agent{Way: a.Way, ID: a.ID, Human: a.Human, Subject: a.Subject}
}

// Key names the agent in a store: 32 hex digits.
func (a Agent) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{a.Way, a.ID, a.Human, a.Subject})) // no two lists are quoted alike
	return hex.EncodeToString(sum[:16])
}

// Alone reports whether the agent is told from others, so that something can be granted to it.
func (a Agent) Alone() bool { return a.Way != "" && a.Way != identity.WayNone }

// Check returns what is wrong with an agent about which something is to be stored, or was.
func (a Agent) Check() error {
	if a.Way == "" || a.ID == "" {
		return errors.New("it does not say which agent it is about")
	}
	for _, s := range []string{a.Way, a.ID, a.Human, a.Subject} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("agent %q: its name is not UTF-8", a.ID)
		}
	}
	return nil
}

// A Request is what an agent asked for: to call one tool as it is defined now, or to make one call of
// it with these very arguments.
type Request struct {
	ID      string      `json:"id"`
	Server  string      `json:"server"`
	Tool    string      `json:"tool"` // as in an approval record
	Kind    tool.Kind   `json:"kind,omitempty"`
	Hash    tool.Hash   `json:"hash"`            // of the definition
	Args    string      `json:"args,omitempty"`  // of one call: SHA-256, hex, of the canonical arguments; "": of every call
	Status  lock.Status `json:"status"`          // why it was locked then
	Note    string      `json:"note,omitempty"`  // of the agent: not to be trusted
	Why     string      `json:"why,omitempty"`   // of its user, who signed in
	Lacks   string      `json:"lacks,omitempty"` // what the agent lacked when it last tried: "the scope portcullis:write"
	Minutes int         `json:"minutes,omitempty"`
	By      string      `json:"by,omitempty"` // person who asked; "": the agent did
	Opened  time.Time   `json:"opened"`
	Expires time.Time   `json:"expires"`
	Ended   time.Time   `json:"ended,omitzero"` // when its asker withdrew it
}

// Item returns the id of what is asked for.
func (r Request) Item() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool, Kind: r.Kind} }

// OneCall reports whether it is about one call.
func (r Request) OneCall() bool { return r.Args != "" }

// About returns the request with what it is about.
func (r Request) About(id tool.ID, hash tool.Hash) Request {
	r.Server, r.Tool, r.Kind, r.Hash = id.Server, id.Name, id.Kind, hash
	return r
}

func (r Request) same(o Request) bool {
	return r.Item() == o.Item() && r.Hash == o.Hash && r.Args == o.Args
}

// Live reports whether the request is neither withdrawn nor expired. It may be decided.
func (r Request) Live(now time.Time) bool { return r.Ended.IsZero() && now.Before(r.Expires) }

// Kept returns until when it is known whose the request is: for as long as something that was granted may
// last, and is known.
func (r Request) Kept() time.Time {
	if r.OneCall() {
		return r.Expires.Add(UseFor + keepFor)
	}
	return r.Expires.Add(MaxMinutes*time.Minute + keepFor)
}

// Asked is what one agent asked for. The zero Asked is nothing.
type Asked struct {
	Agent Agent     `json:"agent"`
	List  []Request `json:"list"` // the newest last
	Rev   int64     `json:"rev"`  // 0: not stored yet
}

// Find returns the request with this id.
func (a Asked) Find(id string) (Request, bool) {
	for _, r := range a.List {
		if r.ID == id {
			return r, true
		}
	}
	return Request{}, false
}

// Open returns the open request for the same as r, of those that are decided in g none.
func (a Asked) Open(r Request, g Granted, now time.Time) (Request, bool) {
	for _, held := range slices.Backward(a.List) {
		if held.same(r) && held.Live(now) && !g.Decided(held.ID) {
			return held, true
		}
	}
	return Request{}, false
}

// Add opens r, or returns the open request for the same: one is open an agent, item, definition and, for
// one call, arguments. g is what was decided; moot says of an open request that nothing waits for it any
// more. The error is [ErrTooMany], or says what is wrong with r.
func (a Asked) Add(r Request, g Granted, moot func(Request) bool, now time.Time) (next Asked, held Request, added bool, err error) {
	if held, is := a.Open(r, g, now); is {
		return a, held, false, nil
	}
	r.ID, r.Opened, r.Ended = NewID(), now.UTC().Truncate(time.Microsecond), time.Time{}
	if r.Expires = r.Opened.Add(OpenFor); r.OneCall() {
		r.Expires = r.Opened.Add(ConfirmFor)
	}
	if err := r.Check(); err != nil {
		return a, Request{}, false, err
	}
	open, withdrawn := 0, 0
	next = Asked{Agent: a.Agent, Rev: a.Rev}
	for _, held := range a.List {
		if held.Live(now) && !g.Decided(held.ID) && (moot == nil || !moot(held)) {
			open++
		}
		if !held.Ended.IsZero() && now.Sub(held.Ended) < withdrawnFor { // each was told to people, and is kept
			withdrawn++
		}
		if now.Sub(held.Expires) < keepFor {
			next.List = append(next.List, held)
		}
	}
	if open >= MaxOpen || withdrawn >= MaxOpen {
		return a, Request{}, false, ErrTooMany
	}
	if over := len(next.List) + 1 - maxKept; over > 0 { // those that wait are at most MaxOpen
		next.List = slices.DeleteFunc(next.List, func(held Request) bool {
			if over > 0 && (!held.Live(now) || g.Decided(held.ID) || moot != nil && moot(held)) {
				over--
				return true
			}
			return false
		})
	}
	next.List = append(next.List, r)
	return next, r, true, nil
}

// Change returns a with its request of this id changed, or [ErrNotFound].
func (a Asked) Change(id string, change func(*Request)) (Asked, error) {
	i := slices.IndexFunc(a.List, func(r Request) bool { return r.ID == id })
	if i < 0 {
		return a, ErrNotFound
	}
	a.List = slices.Clone(a.List)
	change(&a.List[i])
	return a, a.List[i].Check()
}

// Added returns the request with the id that a write of a adds, and what is wrong with such a write;
// arguments are those of its call. Every store asks it before it writes.
func (a Asked) Added(id string, arguments json.RawMessage) (r Request, err error) {
	if id != "" {
		var is bool
		if r, is = a.Find(id); !is {
			return r, fmt.Errorf("request %s is to be added: %w", id, ErrNotFound)
		}
	}
	switch {
	case len(arguments) > MaxArgs:
		return r, fmt.Errorf("the arguments of a call have %d bytes, at most %d are kept", len(arguments), MaxArgs)
	case len(arguments) > 0 && !r.OneCall():
		return r, errors.New("arguments are kept of a request for one call alone")
	}
	return r, nil
}

// Check returns what is wrong with a request that is to be stored, or that was.
func (r Request) Check() error {
	switch err := checkID(r.ID); {
	case err != nil:
		return err
	case r.Server == "" || r.Tool == "" || r.Hash == "":
		return errors.New("the request does not say what is asked for")
	case !utf8.ValidString(r.Note) || utf8.RuneCountInString(r.Note) > MaxNote:
		return fmt.Errorf("note: want text of at most %d characters", MaxNote)
	case !utf8.ValidString(r.Why) || utf8.RuneCountInString(r.Why) > MaxNote:
		return fmt.Errorf("why: want text of at most %d characters", MaxNote)
	case r.Minutes < 0 || r.Minutes > MaxMinutes:
		return fmt.Errorf("minutes: want 0 to %d", MaxMinutes)
	}
	return nil
}

// Check returns what is wrong with requests that are to be stored, or that were.
func (a Asked) Check() error {
	if err := a.Agent.Check(); err != nil {
		return err
	}
	if len(a.List) > maxKept {
		return fmt.Errorf("%d requests of one agent", len(a.List))
	}
	for _, r := range a.List {
		if err := r.Check(); err != nil {
			return fmt.Errorf("request %s: %w", r.ID, err)
		}
	}
	return nil
}
