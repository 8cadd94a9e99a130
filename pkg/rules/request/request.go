// Package request unlocks items on request: an agent that cannot call an item requests access, a
// person decides, and the agent's next call succeeds.
//
// Each agent has two documents. [List] has its requests; the function that agents call may write
// it. [Granted] has the decisions of people; that function may only read it. So an agent can never
// mark its own request as approved. Only a grant, or the approval itself, makes a request approved.
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

// Limits for one agent.
const (
	MaxOpen   = 10       // open requests
	MaxNote   = 500      // characters of the note of an agent, or of its user
	MaxReason = 500      // characters of the note of the person who decides
	MaxArgs   = 32 << 10 // bytes of the arguments of one call that a person confirms

	MaxMinutes = 43_200 // duration of a grant: 30 days

	maxKept = 32 // stored requests: the open ones, and the newest others

	maxAllowed   = 32 // valid grants at one time
	maxConfirmed = 64 // confirmed calls that have not expired, made or not
	maxPast      = 48 // other decisions, the newest; see [Granted.Add]

	maxDoc = 380 << 10 // bytes of a document; an item of DynamoDB has 400 KB
)

// Durations.
const (
	OpenFor      = 7 * 24 * time.Hour // how long a request for access is open
	ConfirmFor   = 24 * time.Hour     // how long a request for one call is open
	UseFor       = time.Hour          // how long a confirmed call can be made
	withdrawnFor = time.Hour          // how long a withdrawn request counts, so that nobody asks and withdraws forever
	declineFor   = 24 * time.Hour     // how long a refusal is valid: there is no new request
	keepFor      = 7 * 24 * time.Hour // how long ended items are stored
)

// Errors that a caller may have to distinguish.
var (
	ErrNotFound = errors.New("request not found")           // never made, or too old
	ErrConflict = errors.New("requests changed since read") // another writer came first; the caller reads again
	ErrTooMany  = errors.New("the agent has 10 open requests, or 10 were withdrawn " +
		"within the last hour, and more are not allowed")
	ErrFull    = errors.New("the agent has the maximum number of grants: revoke a grant, or wait until one ends")
	ErrDecided = errors.New("request is decided already")
	ErrUsed    = errors.New("confirmation is used already")
)

// An Agent is the author of a request: the agent, and the user on whose behalf it acts, if its
// token names one. An agent id with two users is two Agents, so that a grant for one of them is not
// valid for the other.
type Agent struct {
	Way     string `json:"way"` // how it proved its identity
	ID      string `json:"id"`
	Human   string `json:"human,omitempty"`   // "": unknown
	Subject string `json:"subject,omitempty"` // of that person at the issuer, as in [identity.Agent]; "": unknown
}

// AgentOf returns the author of a verified caller's requests.
func AgentOf(a identity.Agent) Agent {
	return Agent{Way: a.Way, ID: a.ID, Human: a.Human, Subject: a.Subject}
}

// Key returns the agent's key in a store: 32 hex digits.
func (a Agent) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{a.Way, a.ID, a.Human, a.Subject})) // different lists have different quoted forms
	return hex.EncodeToString(sum[:16])
}

// Alone reports whether the agent is distinguishable from others, so that a grant for it is
// possible.
func (a Agent) Alone() bool { return a.Way != "" && a.Way != identity.WayNone }

// Check returns the fault of an agent before its documents are stored or after they are read.
func (a Agent) Check() error {
	if a.Way == "" || a.ID == "" {
		return errors.New("the agent has no authentication method (way) or no id")
	}
	for _, s := range []string{a.Way, a.ID, a.Human, a.Subject} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("agent %q: its name is not UTF-8", a.ID)
		}
	}
	return nil
}

// A Request asks for access to one tool with its present definition, or for one call with exactly
// these arguments.
type Request struct {
	ID      string      `json:"id"`
	Server  string      `json:"server"`
	Tool    string      `json:"tool"` // as in an approval record
	Kind    tool.Kind   `json:"kind,omitempty"`
	Hash    tool.Hash   `json:"hash"`            // of the definition
	Args    string      `json:"args,omitempty"`  // of one call: SHA-256, hex, of the canonical arguments; "": all calls
	Status  lock.Status `json:"status"`          // the status of the lock at that time
	Note    string      `json:"note,omitempty"`  // of the agent: not trusted
	Why     string      `json:"why,omitempty"`   // of its user, who signed in
	Lacks   string      `json:"lacks,omitempty"` // what the agent lacked at its last try: "the scope portcullis:write"
	Minutes int         `json:"minutes,omitempty"`
	By      string      `json:"by,omitempty"` // person who asked; "": the agent itself
	Opened  time.Time   `json:"opened"`
	Expires time.Time   `json:"expires"`
	Ended   time.Time   `json:"ended,omitzero"` // when its author withdrew it
}

// Item returns the id of the requested item.
func (r Request) Item() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool, Kind: r.Kind} }

// OneCall reports whether the request is about one call.
func (r Request) OneCall() bool { return r.Args != "" }

// About returns the request with its item set.
func (r Request) About(id tool.ID, hash tool.Hash) Request {
	r.Server, r.Tool, r.Kind, r.Hash = id.Server, id.Name, id.Kind, hash
	return r
}

func (r Request) same(o Request) bool {
	return r.Item() == o.Item() && r.Hash == o.Hash && r.Args == o.Args
}

// Live reports whether the request is neither withdrawn nor expired. It may already be decided.
func (r Request) Live(now time.Time) bool { return r.Ended.IsZero() && now.Before(r.Expires) }

// KeepUntil returns the time until which the store keeps the [Pointer] of the request. It
// covers the longest grant, and the time for which an ended grant is stored.
func (r Request) KeepUntil() time.Time {
	if r.OneCall() {
		return r.Expires.Add(UseFor + keepFor)
	}
	return r.Expires.Add(MaxMinutes*time.Minute + keepFor)
}

// A List has the requests of one agent. The zero List is empty.
type List struct {
	Agent Agent     `json:"agent"`
	List  []Request `json:"list"` // the newest last
	Rev   int64     `json:"rev"`  // 0: not stored yet
}

// Find returns the request with this id.
func (a List) Find(id string) (Request, bool) {
	for _, r := range a.List {
		if r.ID == id {
			return r, true
		}
	}
	return Request{}, false
}

// Open returns the open request for the same item as r that has no decision in g.
func (a List) Open(r Request, g Granted, now time.Time) (Request, bool) {
	for _, held := range slices.Backward(a.List) {
		if held.same(r) && held.Live(now) && !g.Decided(held.ID) {
			return held, true
		}
	}
	return Request{}, false
}

// Add opens r, or returns the open request for the same access. There is at most one such request
// for an agent, item, definition and, for one call, arguments. g has the decisions. moot reports
// whether an open request has become pointless. The error is [ErrTooMany], or names the fault of r.
func (a List) Add(r Request, g Granted, moot func(Request) bool, now time.Time) (next List, held Request, added bool, err error) {
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
	next = List{Agent: a.Agent, Rev: a.Rev}
	for _, held := range a.List {
		if held.Live(now) && !g.Decided(held.ID) && (moot == nil || !moot(held)) {
			open++
		}
		if !held.Ended.IsZero() && now.Sub(held.Ended) < withdrawnFor { // people got a notice of each request, and each is stored
			withdrawn++
		}
		if now.Sub(held.Expires) < keepFor {
			next.List = append(next.List, held)
		}
	}
	if open >= MaxOpen || withdrawn >= MaxOpen {
		return a, Request{}, false, ErrTooMany
	}
	if over := len(next.List) + 1 - maxKept; over > 0 { // at most MaxOpen of these are open
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

// Change returns a copy of the list after it has applied change to the request with this id. The
// error is [ErrNotFound], or the fault of the changed request.
func (a List) Change(id string, change func(*Request)) (List, error) {
	i := slices.IndexFunc(a.List, func(r Request) bool { return r.ID == id })
	if i < 0 {
		return a, ErrNotFound
	}
	a.List = slices.Clone(a.List)
	change(&a.List[i])
	return a, a.List[i].Check()
}

// Added returns the request with the id, which the caller is about to store as new in the list. The
// error says why the list may not be stored so.
// arguments are the arguments of the request's call. Every store calls it before it writes.
func (a List) Added(id string, arguments json.RawMessage) (r Request, err error) {
	if id != "" {
		var is bool
		if r, is = a.Find(id); !is {
			return r, fmt.Errorf("add request %s: %w", id, ErrNotFound)
		}
	}
	switch {
	case len(arguments) > MaxArgs:
		return r, fmt.Errorf("the arguments of a call have %d bytes, at most %d are allowed", len(arguments), MaxArgs)
	case len(arguments) > 0 && !r.OneCall():
		return r, errors.New("only a request for one call may have arguments")
	}
	return r, nil
}

// Check returns the fault of a request before it is stored or after it is read.
func (r Request) Check() error {
	switch err := checkID(r.ID); {
	case err != nil:
		return err
	case r.Server == "" || r.Tool == "" || r.Hash == "":
		return errors.New("the request has no item, or no definition")
	case !utf8.ValidString(r.Note) || utf8.RuneCountInString(r.Note) > MaxNote:
		return fmt.Errorf("note: want text of at most %d characters", MaxNote)
	case !utf8.ValidString(r.Why) || utf8.RuneCountInString(r.Why) > MaxNote:
		return fmt.Errorf("why: want text of at most %d characters", MaxNote)
	case r.Minutes < 0 || r.Minutes > MaxMinutes:
		return fmt.Errorf("minutes: want 0 to %d", MaxMinutes)
	}
	return nil
}

// Check returns the fault of requests before they are stored or after they are read.
func (a List) Check() error {
	if err := a.Agent.Check(); err != nil {
		return err
	}
	if len(a.List) > maxKept {
		return fmt.Errorf("the agent has %d requests, want at most %d", len(a.List), maxKept)
	}
	for _, r := range a.List {
		if err := r.Check(); err != nil {
			return fmt.Errorf("request %s: %w", r.ID, err)
		}
	}
	return nil
}
